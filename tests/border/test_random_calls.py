"""Random calls, each judged; `tests/shared/random_calls.py` as a script runs as many as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import random_calls

COUNT = int(os.environ.get("PYOPNB_RANDOM_CALLS", "12000"))


def test_no_call_lies_and_nothing_is_left_behind():
    report = random_calls.random_calls(seed=0, count=COUNT)
    print(report)
    assert report.calls >= COUNT
    kinds = "definitions, changes of outputs, rollbacks, refused definitions, sessions, runs, errors, kept, batches on threads"
    assert all(report.seen[kind] for kind in kinds.split(", "))


@pytest.mark.parametrize(
    ("step", "lie"),
    [
        ("fresh", lambda op, x, shift, plan: np.zeros_like(x)),
        ("raises", lambda op, x, shift, plan: x),
        ("other dtype", lambda op, x, shift, plan: x),
    ],
)
def test_that_a_lie_is_seen(monkeypatch, step, lie):
    monkeypatch.setitem(random_calls.STEPS, step, lie)
    with pytest.raises(AssertionError, match="^seed 0, epoch 0, run "):
        random_calls.epoch(0, 0, COUNT)


def test_that_a_changed_input_is_seen():
    made = random_calls.Epoch(0, 0)
    held = np.arange(3)
    made.kept.append((held, b"other"))
    with pytest.raises(AssertionError, match="a kept input has changed"):
        made.check_kept()


@pytest.mark.one_python
@pytest.mark.plain  # it is the script that the lane random_calls runs
def test_the_script_runs_as_many_as_are_asked_for():
    root = Path(__file__).parents[2]
    places = ["tests/shared", os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "tests/shared/random_calls.py", "--count", "50"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.endswith("; none lied\n"), done.stderr

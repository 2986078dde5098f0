"""Mutated models into every public function: out comes a result, or an error of pyopnb, ONNX Runtime or onnx.

Bytes are mutated, and so are messages, field by field: a valid model with one wrong thing in it
goes deeper than noise. Each batch runs in a process of its own, which must end alive, and what it
finds is printed so that it can be kept among `once_found`.

Five seconds by default; ``PYOPNB_FUZZ_SECONDS=300`` in the environment asks for more, as
`make test-all` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT

import pyopnb

SECONDS = float(os.environ.get("PYOPNB_FUZZ_SECONDS", "5"))
_HERE = Path(__file__).parent
_PATHS = [str(Path(pyopnb.__file__).parents[1]), str(_HERE), str(_HERE.parent / "shared")]


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    return subprocess.run(
        [sys.executable, "-P", "-X", "faulthandler", str(_HERE / "mutants.py"), *arguments],
        capture_output=True, text=True, timeout=SECONDS + LIMIT, env=environment, check=False,
    )  # fmt: skip


@pytest.mark.one_python
def test_mutated_models() -> None:
    done = fuzz("fuzz", str(SECONDS))
    assert done.returncode == 0, (done.stdout[-6000:], done.stderr[-3000:])
    assert int(done.stdout.split()[-2]) > 0, done.stdout


def test_what_was_found_once() -> None:
    done = fuzz("kept")
    assert done.returncode == 0, (done.stdout[-6000:], done.stderr[-3000:])

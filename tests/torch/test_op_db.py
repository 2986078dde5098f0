"""No op of the torch op database gives silently wrong numbers. `make test` draws some, ``make test-all`` tries them all."""

import functools
import os
from collections import Counter

import numpy as np
import op_db_sweep
import pytest
import sweeps

import pyopnb.torch.conversion

COUNT = os.environ.get("PYOPNB_OP_DB", "20")


def test_no_op_comes_out_wrong(capsys):
    if COUNT == "all":
        rows = list(sweeps.sweep(op_db_sweep.some(None, 0), op_db_sweep.judged))
    else:
        rows = [op_db_sweep.judged(*case) for case in op_db_sweep.some(int(COUNT), 0)]
    with capsys.disabled():
        print(f"\n{op_db_sweep.table(rows)}")
    assert [row for row in rows if row["verdict"] == "wrong"] == []
    counts = Counter(row["verdict"] for row in rows)
    assert counts["exported"] > len(rows) / 4
    assert counts["filled"] > len(rows) / 8
    assert counts["refused"] < len(rows) / 4


def test_no_op_comes_out_wrong_beside_one_without_a_form(capsys):
    # An op that stays in torch must not hide the wrong form of another.
    count = None if COUNT == "all" else 5
    cases = [(*case, True) for case in op_db_sweep.some(count, 1) if case[2] == "float32"]
    if count is None:
        rows = list(sweeps.sweep(cases, op_db_sweep.judged))
    else:
        rows = [op_db_sweep.judged(*case) for case in cases]
    with capsys.disabled():
        print(f"\n{op_db_sweep.table(rows)}")
    assert [row for row in rows if row["verdict"] == "wrong"] == []
    assert any("hypot" in str(row.get("filled")) for row in rows)


def test_the_sweep_sees_wrong_numbers(monkeypatch):
    name = "nn.functional.batch_norm"
    (case,) = [case for case in op_db_sweep.cases() if case[1:] == (name, "float32")]
    unverified = functools.partial(pyopnb.torch.export, verify=False)
    monkeypatch.setattr(pyopnb.torch, "export", unverified)
    row = op_db_sweep.judged(*case, 0)
    assert (row["verdict"], row["op"]) == ("wrong", name)
    assert f"wrong: {name} float32: run 1: " in op_db_sweep.table([row])


def test_a_worker_that_ends_is_wrong():
    (row,) = sweeps.sweep([(0, "abs", "float32", 0)], sweeps.ending)
    assert (row["verdict"], row["reason"]) == ("wrong", "the process ended")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.float32([1, 2]), np.float32([1, 2.01])),
        (np.float32([1, 2]), np.float32([1, np.nan])),
        (np.float32([1, np.inf]), np.float32([1, -np.inf])),
        (np.float32([1, 2]), np.float64([1, 2])),
        (np.float32([1, 2]), np.float32([[1, 2]])),
        (np.int64([1, 2]), np.int64([1, 3])),
    ],
)
def test_what_differs(a, b):
    assert sweeps.difference(a, b)
    assert sweeps.difference(b, b) is None

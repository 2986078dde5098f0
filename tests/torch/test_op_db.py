"""No op of torch's own op database gives silently wrong numbers. `make test` draws some, ``make test-all`` tries them all."""

import functools
import os
from collections import Counter

import numpy as np
import op_db_sweep
import pytest

import pyopnb.torch.conversion

COUNT = os.environ.get("PYOPNB_OP_DB", "20")


def test_no_op_comes_out_wrong(capsys):
    rows = (
        op_db_sweep.sweep(op_db_sweep.some(None, 0), 0)
        if COUNT == "all"
        else op_db_sweep.here(int(COUNT), 0)
    )
    rows = list(rows)
    with capsys.disabled():
        print(f"\n{op_db_sweep.table(rows)}")
    assert [row for row in rows if row["verdict"] == "wrong"] == []
    counts = Counter(row["verdict"] for row in rows)
    assert counts["exported"] > len(rows) / 4
    assert counts["filled"] > len(rows) / 8
    assert counts["refused"] < len(rows) / 4


def test_the_sweep_sees_wrong_numbers(monkeypatch):
    (case,) = [
        case for case in op_db_sweep.cases() if case[1:] == ("nn.functional.batch_norm", "float32")
    ]
    assert op_db_sweep.judged(*case, 0)["verdict"] == "filled"
    unverified = functools.partial(pyopnb.torch.export, verify=False)
    monkeypatch.setattr(pyopnb.torch, "export", unverified)
    row = op_db_sweep.judged(*case, 0)
    assert (row["verdict"], row["op"]) == ("wrong", "nn.functional.batch_norm")
    assert row["reason"].startswith("run 1: ")
    assert "wrong: nn.functional.batch_norm float32: run 1: " in op_db_sweep.table([row])


def test_a_worker_that_ends_is_wrong():
    rows = op_db_sweep.sweep([(0, "abs", "float32")], 0, worker=op_db_sweep.ending)
    assert list(rows) == [
        {"op": "abs", "dtype": "float32", "verdict": "wrong", "reason": "the process ended with 7"}
    ]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (np.float32([1, 2]), np.float32([1, 2.01])),
        (np.float32([1, 2]), np.float32([1, np.nan])),
        (np.float32([1, np.inf]), np.float32([1, -np.inf])),
        (np.float32([1, 2]), np.float64([1, 2])),
        (np.float32([1, 2]), np.float32([[1, 2]])),
        (np.int64([1, 2]), np.int64([1, 3])),
    ],
)
def test_what_differs(mine, theirs):
    assert op_db_sweep.difference(mine, theirs)
    assert op_db_sweep.difference(theirs, theirs) is None

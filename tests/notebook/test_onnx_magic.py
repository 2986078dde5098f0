"""``%%onnx``: what a cell builds, what a failing one leaves behind, help and completion."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from small_ops import soft_clip_cell

import pyopnb

CELL = """\
%%onnx{line}
(float[N,3] x) => (y) {{
    a = Abs(x)
    y = demo.SoftClip<limit = 2.0>(a)
}}
"""


def test_the_story(define, shell):
    define(soft_clip_cell("x + 1"))
    assert (
        define(CELL.format(line=" clipper")).out
        == "clipper: (x: float32[N,3]) -> (y: float32[...]), 2 nodes\n"
    )
    assert isinstance(shell.user_ns["clipper"], onnx.ModelProto)
    assert shell.user_ns["clipper"].graph.name == "clipper"
    assert pyopnb.run(shell.user_ns["clipper"], x=np.float32([[1, -2, 3]]))["y"].tolist() == [
        [2, 3, 4]
    ]


@pytest.mark.parametrize("line", [" -q clipper", " clipper --quiet"])
def test_quiet(define, shell, line):
    ran = define(CELL.format(line=line))
    assert (ran.out, ran.value) == ("", None)
    assert "clipper" in shell.user_ns


def test_what_the_line_holds_is_not_expanded(run, shell):
    shell.user_ns["other"] = "clipper"
    assert "got {other}" in run(CELL.format(line=" {{other}}").replace("{{other}}", "{other}")).err
    assert "got $other" in run(CELL.format(line=" $other")).err


def test_a_failing_cell_fails_in_one_line_and_leaves_the_old_model(define, run, shell):
    define(CELL.format(line=" clipper"))
    old = shell.user_ns["clipper"]
    ran = run(CELL.format(line=" clipper").replace("Abs(x)", "Abs(z)"))
    assert not ran.ok
    assert isinstance(ran.error, pyopnb.errors.ModelError)
    # The line is counted as the notebook does: %%onnx is the first.
    assert (ran.out + ran.err).startswith("ModelError: line 3, column 13, in `a = Abs(z)`, ")
    assert (ran.out + ran.err).count("\n") == 1
    assert shell.user_ns["clipper"] is old

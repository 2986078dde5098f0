"""Which tensors there are to look at, and how they are called."""

from __future__ import annotations

import onnx
import pytest

import pyopnb
from pyopnb.traces.select import match_names, named_tensors

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N] x, bool c) => (float[N] y) {
    "e/then_branch/q" = Neg(x)
    e = If(c) <then_branch = t () => (float[N] p) { q = Abs(x) p = Identity(q) },
               else_branch = f () => (seq(float[N]) r) { r = SequenceConstruct(x, x) }>
    s = SequenceConstruct(x, x)
    i = Identity(s)
    j = Identity(x)
    y = Abs(x)
}"""


@pytest.fixture
def model():
    return onnx.parser.parse_model(TEXT.replace('"e/then_branch/q"', "taken"))


def test_the_names(model):
    assert [t.name for t in named_tensors(model)] == ["taken", "e", "s", "i", "j", "y"]
    inner = ["e/then_branch/q", "e/then_branch/p", "e/else_branch/r"]
    assert [t.name for t in named_tensors(model, bodies=True)] == [
        "taken",
        *inner,
        "e",
        "s",
        "i",
        "j",
        "y",
    ]
    model.graph.node[0].output[0] = "e/then_branch/q"
    assert [t.name for t in named_tensors(model, bodies=True)][:2] == [
        "e/then_branch/q",
        "e/then_branch/q_",
    ]


def test_globs_and_names_that_look_like_globs():
    names = ["a", "a[0]", "b"]
    assert match_names(names, "a[0]") == {"a[0]"} and match_names(names, ["a*", "b"]) == {
        "a",
        "a[0]",
        "b",
    }
    with pytest.raises(pyopnb.errors.InputError, match="got 'c'"):
        match_names(names, ["a", "c"])
    with pytest.raises(pyopnb.errors.InputError, match="got 'c'"):
        match_names([], ["c"])

"""Which tensor of one run corresponds to which of another."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto

import pyopnb
from pyopnb.diffs.traces.align import Alignment, align
from pyopnb.diffs.traces.segments import Segment, Side, TraceGraph


def parsed(text: str) -> ModelProto:
    return pyopnb.parse(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')


def pairs(a: str, b: str, x: Any, fed: str = "x") -> tuple[dict[str, tuple[str, str]], Alignment]:
    runs = [
        pyopnb.trace(parsed(text), {name: x}, times=False) for text, name in ((a, "x"), (b, fed))
    ]
    found = align(Side.of(runs[0]), Side.of(runs[1]))
    return {pair.b: (pair.a, pair.by) for pair in found.pairs}, found


X = np.float32([-1.5, 0.5, 2])


def test_by_value_where_a_node_is_expressed_by_another_op() -> None:
    held, found = pairs(
        "(float[N] x) => (float[N] y) { a = Exp(x)  b = Add(a, a)  c = Tanh(b)  y = Neg(c) }",
        "(float[N] x) => (float[N] y) { two = Constant<value = float {2.0}>()  d = Exp(x)  e = Mul(two, d)  c = Tanh(e)  y = Neg(c) }",
        X,
    )
    assert held["d"] == ("a", "structure") and held["e"][0] == "b" and held["c"][0] == "c"
    assert not found.only_a and not found.only_b


def test_by_value_past_a_fusion() -> None:
    held, found = pairs(
        "(float[N] x) => (float[N] y) { s = Sigmoid(x)  p = Mul(x, s)  t = Tanh(p)  y = Neg(t) }",
        "(float[N] x) => (float[N] y) { one = Constant<value = float {1.0}>()  n = Neg(x)  e = Exp(n)  q = Add(e, one)"
        "  r = Div(x, q)  u = Tanh(r)  y = Neg(u) }",
        X,
    )
    assert held["r"][0] == "p" and held["u"][0] == "t"
    assert found.only_a == ("s",) and set(found.only_b) == {"n", "e", "q"}


def test_a_mask_of_zeros_is_not_any_other() -> None:
    held, _ = pairs(
        "(float[N] x) => (float[N] y) { z = Sub(x, x)  a = Add(x, z)  y = Tanh(a) }",
        "(float[N] x) => (float[N] y) { a = Abs(x)  n = Tanh(a)  w = Sub(n, n)  y = Add(n, w) }",
        X,
    )
    assert "w" not in held and "y" in held


def test_branches_of_one_build_are_told_apart_by_their_values() -> None:
    a = """(float[N] x) => (float[N] y) <float p = {2.0}, float q = {3.0}> {
        l = Mul(x, p)  r = Mul(x, q)  m = Tanh(l)  n = Tanh(r)  y = Mul(m, n) }"""
    held, _ = pairs(
        a,
        """(float[N] z) => (float[N] y) <float p = {3.0}, float q = {2.0}> {
        l = Mul(z, p)  r = Mul(z, q)  m = Tanh(l)  n = Tanh(r)  s = Mul(n, m)  y = Identity(s) }""",
        X,
        "z",
    )
    assert [held[name][0] for name in ("l", "r", "m", "n")] == ["r", "l", "n", "m"]


def test_equal_values_elsewhere_are_no_partner_of_a_node_that_reads_the_same() -> None:
    # With gamma 1.5, v gives what s gives with 1.0: 0.5 Selu(x) + 1.0 Selu(x).
    text = "(float[N] x) => (float[N] %s, float[N] %s) { u = Selu<gamma = 0.5>(x)  v = Selu<gamma = %s>(x)  s = Add(v, u)  %s = Neg(s)  %s = Tanh(v) }"
    held, _ = pairs(text % ("p", "q", "1.0", "p", "q"), text % ("r", "t", "1.5", "r", "t"), X)
    assert held["v"] == ("v", "structure") and held["s"] == ("s", "structure")


def test_the_other_outputs_of_a_node_follow_the_one_that_the_models_share() -> None:
    text = "(float[4] x) => (float[M] y, float[K] z) { y, %s = Split<num_outputs = 2>(x)  z = Neg(%s) }"
    held, found = pairs(text % ("t", "t"), text % ("u", "u"), np.float32([1, 2, 3, 4]))
    assert held["u"] == ("t", "structure") and not found.only_a


def test_a_node_that_gives_its_outputs_in_another_order_is_the_fault_and_not_its_readers() -> None:
    a = """(float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2,2] p = {1, 2, 3, 4}, float[2,2] q = {5, 6, 7, 8},
        float[2] c = {1, 2}, float[2] d = {3, 4}> {
        l = MatMul(x, p)  r = MatMul(x, q)  y = Add(l, c)  z = Add(r, d) }"""
    joined = """(float[N,2] x) => (float[N,2] y, float[N,2] z) <float[2,4] w = {1, 2, 5, 6, 3, 4, 7, 8},
        float[2] c = {1, 2}, float[2] d = {3, 4}> {
        m = MatMul(x, w)  ORDER = Split<axis = 1, num_outputs = 2>(m)  y = Add(s, c)  z = Add(t, d) }"""
    x = np.float32([[1, 2], [-3, 5], [2, 7]])
    held, _ = pairs(a, joined.replace("ORDER", "s, t"), x)
    assert held["s"] == ("l", "value") and held["t"] == ("r", "value")
    models = parsed(a), parsed(joined.replace("ORDER", "t, s"))
    for found in (
        pyopnb.diff(*(pyopnb.trace(model, x=x) for model in models)),
        pyopnb.first_divergence(*models, {"x": x}),
    ):
        assert [step.name for step in found.origins] == ["t (Split)"], str(found)
    # Where the readers changed with it, nothing is wrong.
    swapped = (
        joined.replace("ORDER", "t, s")
        .replace("(s, c)", "(t, c)")
        .replace("= Add(t, d)", "= Add(s, d)")
    )
    held, _ = pairs(a, swapped, x)
    assert held["t"] == ("l", "value") and held["s"] == ("r", "value")


def test_a_difference_that_a_saturated_softmax_hides_on_one_of_its_ways() -> None:
    text = """(float[2,3] x) => (float[2,3] y) {
        big = Constant<value = float {1000.0}>()
        h = %s(x)  k = Mul(h, big)  s = Softmax(k)  m = Mul(s, x)  y = Add(m, h)
    }"""
    x = np.float32([[-1.5, 0.5, 2], [1, -0.25, 0.125]])
    held, _ = pairs(text % "Gelu", text % "Relu", x)
    assert held["s"][0] == "s" and held["h"][0] == "h"
    models = [parsed(text % op) for op in ("Gelu", "Relu")]
    for found in (
        pyopnb.diff(*(pyopnb.trace(model, x) for model in models)),
        pyopnb.first_divergence(*models, {"x": x}),
        pyopnb.first_divergence(*models, {"x": x}, memory=1),
    ):
        assert [step.outputs[0].b for step in found.origins] == ["h"]


def test_segments_stop_at_what_is_known() -> None:
    graph = TraceGraph(
        parsed(
            """(bool go, float[N] x) => (float[N] y) <float w = {2.0}> {
        c = Constant<value = float {1.0}>()
        a = Mul(x, w)
        b = If<then_branch = t () => (float[N] p) { p = Add(a, c) }, else_branch = e () => (float[N] q) { q = Neg(x) }>(go)
        y = Neg(b)
    }"""
        )
    )
    assert graph.order == ["go", "x", "a", "b", "y"]
    assert graph.between("y", {"b"}) == Segment((3,), ("b",), ())
    assert graph.between("y", {"a"}) == Segment((0, 2, 3), ("go", "x", "a"), ())
    assert graph.between("y", ()) == Segment((0, 1, 2, 3), ("go", "x"), ("w",))


def test_nodes_of_other_ops_between_the_same_tensors_are_a_pair() -> None:
    text = (
        "(float[N] x) => (float[N] y) <float w = {2.0}> { t = Mul(x, w)  a = %s(t)  y = Add(a, w) }"
    )
    found, _ = pairs(
        text % "Relu", (text % "LeakyRelu").replace("a = ", "b = ").replace("(a,", "(b,"), X
    )
    assert found["b"] == ("a", "structure")

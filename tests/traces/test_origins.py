"""What executed nodes were made of."""

from __future__ import annotations

import pytest

import pyopnb
from pyopnb.traces.tensor_origins import origins


def parsed(body, inputs="float[N] x"):
    """A graph; of an ``ort.Op`` without the domain."""
    graph = pyopnb.parse(f"({inputs}) => (float[N] y) {{ {body} }}").graph
    for node in graph.node:
        node.domain = ""
    return graph


def groups(user, ran, names=()):
    """The first outputs of each group's nodes, and the op types that ran."""
    for index, name in enumerate(names):
        ran.node[index].name = name
    found = origins(user, ran)
    assert sorted(index for origin in found for index in origin.executed) == list(
        range(len(ran.node))
    )
    outputs = [[user.node[index].output[0] for index in origin.nodes] for origin in found]
    return [
        (made, [ran.node[index].op_type for index in origin.executed])
        for made, origin in zip(outputs, found, strict=True)
    ]


CHAIN = "c = Conv(x, w)  r = Relu(c)  d = Conv(r, v)  y = Sigmoid(d)"
FED = "float[N] x, float[N] w, float[N] v"


def test_nodes_that_are_gone_belong_to_the_one_that_gives_their_result():
    assert groups(
        parsed("a = Abs(x)  b = Add(a, x)  y = Gelu(b)"),
        parsed("a = Abs(x)  y = ort.BiasGelu(a, x)"),
    ) == [
        (["a"], ["Abs"]),
        (["b", "y"], ["BiasGelu"]),
    ]


def test_tensors_of_another_layout_bound_nothing():
    ran = parsed(
        "t = Conv(x, w2)  u = Conv(t, v2)  y = ort.ReorderOutput(u)",
        FED.replace("w", "w2").replace("v", "v2"),
    )
    assert groups(parsed(CHAIN, FED), ran) == [
        (["c", "r", "d", "y"], ["Conv", "Conv", "ReorderOutput"])
    ]
    assert groups(parsed(CHAIN, FED), ran, ["r_nchwc", "y_nchwc"]) == [
        (["c", "r"], ["Conv"]),
        (["d", "y"], ["Conv", "ReorderOutput"]),
    ]
    assert groups(parsed(CHAIN, FED), ran, ["c_nchwc", "d_nchwc_1"])[1][0] == ["d", "y"]


@pytest.mark.parametrize("names", [["y_nchwc", "r_nchwc"], ["d_1", "c_1"]])
def test_names_that_the_edges_speak_against_are_not_believed(names):
    ran = parsed(
        "t = Conv(x, w2)  u = Conv(t, v2)  y = ort.ReorderOutput(u)",
        FED.replace("w", "w2").replace("v", "v2"),
    )
    assert len(groups(parsed(CHAIN, FED), ran, names)) == 1


def test_a_sum_is_in_the_convolution_that_reads_the_other_term():
    user = parsed(
        "a = Conv(x, w)  b = Conv(a, v)  s = Add(b, a)  r = Relu(s)  c = Conv(r, w)  y = Conv(c, v)",
        FED,
    )
    body = "p = ort.ReorderInput(x)  t = Conv(p, w)  u = Conv(t, v, z, t)  o = Conv(u, w)  q = Conv(o, v)  y = ort.ReorderOutput(q)"
    ran = parsed(body, FED + ", float[N] z")
    assert groups(user, ran, ["ReorderInput", "a_nchwc", "b_nchwc", "c_nchwc", "y_nchwc"]) == [
        (["a"], ["ReorderInput", "Conv"]),
        (["b", "s", "r"], ["Conv"]),
        (["c"], ["Conv"]),
        (["y"], ["Conv", "ReorderOutput"]),
    ]


def test_what_was_folded_is_in_no_group():
    user = parsed("k = Constant<value_float = 2.0>()  e = Exp(k)  m = Mul(x, e)  y = Identity(m)")
    assert groups(user, parsed("y = Mul(x, e2)", "float[N] x, float[N] e2")) == [
        (["m", "y"], ["Mul"])
    ]


def test_what_two_fused_nodes_use_is_the_work_of_each():
    user = parsed("a = Abs(x)  y = Neg(a)  z = Exp(a)")
    assert groups(user, parsed("y = ort.Fused(x)  z = ort.Fused(x)")) == [
        (["a", "y"], ["Fused"]),
        (["a", "z"], ["Fused"]),
    ]


def test_outputs_of_one_node_that_two_give_are_a_group():
    user = parsed("y, z = Split<num_outputs = 2>(x)")
    assert groups(user, parsed("y = ort.First(x)  z = ort.Second(x)")) == [
        (["y"], ["First", "Second"])
    ]


def test_a_node_of_constants_that_ran_all_the_same():
    user = parsed("k = Constant<value_float = 2.0>()  e = Exp(k)  y = Mul(x, e)")
    assert groups(user, parsed("e = Exp(k)  y = Mul(x, e)", "float[N] x, float k")) == [
        (["e"], ["Exp"]),
        (["y"], ["Mul"]),
    ]


def test_nodes_that_nothing_is_known_of():
    assert groups(
        parsed("y = Abs(x)"),
        parsed("y = Abs(x)  u = ort.Look(y)  v = ort.ReorderOutput(z)", "float[N] x, float[N] z"),
    ) == [
        (["y"], ["Abs"]),
        ([], ["Look"]),
        ([], ["ReorderOutput"]),
    ]

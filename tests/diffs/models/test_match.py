"""Nodes are matched by what they compute, not by name."""

from __future__ import annotations

import pytest
from onnx import ModelProto, helper, numpy_helper
from transformer import renamed, transformer

import pyopnb
from pyopnb.diffs.models.match import match_models


def agrees(a: ModelProto, b: ModelProto) -> bool:
    """Whether every node is paired with one of its op that reads and gives what the pairing says."""
    found = match_models(a, b)
    assert not found.only_a and not found.only_b
    for i, j in found.pairs:
        left, right = a.graph.node[i], b.graph.node[j]
        assert left.op_type == right.op_type
        assert [found.values[name] for name in left.output] == list(right.output)
        assert [found.values[name] for name in left.input] == list(right.input)
    return True


@pytest.mark.parametrize("seed", range(5))
def test_a_renamed_and_reordered_model_is_the_same(seed):
    model = transformer(blocks=3, seed=seed)
    other = renamed(model, seed)
    assert [n.name for n in model.graph.node] != [n.name for n in other.graph.node]
    assert agrees(model, other) and agrees(other, model)
    inputs, outputs = [[x.name for x in field] for field in (other.graph.input, other.graph.output)]
    assert [match_models(model, other).values[x] for x in ("x", "logits", "probs")] == [
        *inputs,
        *outputs,
    ]


def test_one_changed_attribute_leaves_all_nodes_paired():
    found = match_models(transformer(), renamed(transformer("tanh")))
    assert (
        len(found.pairs) == 31
        and found.forward == dict(found.pairs)
        and found.back == {j: i for i, j in found.pairs}
    )


def test_nodes_between_two_changes_are_found_from_their_neighbours():
    model = transformer(blocks=3)
    other = ModelProto()
    other.CopyFrom(model)
    for node in other.graph.node:
        if node.output[0] in ("b0.bent", "b1.probs", "b2.bent"):
            node.attribute.append(helper.make_attribute("other", 1))
        node.name = ""
    places = list(range(len(model.graph.node)))
    assert match_models(model, other).pairs == tuple(zip(places, places, strict=True))
    assert agrees(model, renamed(other))


def test_two_ops_between_the_same_tensors_are_a_pair():
    model, other = transformer(), transformer()
    next(node for node in other.graph.node if node.op_type == "Softmax").op_type = "LogSoftmax"
    assert (
        not match_models(model, renamed(other)).only_a
        and match_models(model, other).forward[15] == 15
    )


def test_an_inserted_node_is_the_only_one_without_another():
    model = transformer()
    other = ModelProto()
    other.CopyFrom(model)
    place = next(p for p, node in enumerate(other.graph.node) if node.op_type == "Softmax")
    for node in other.graph.node:
        node.input[:] = ["passed" if name == "probs" else name for name in node.input]
    other.graph.node.insert(place + 1, helper.make_node("Identity", ["probs"], ["passed"]))
    other = renamed(other)
    found = match_models(model, other)
    assert found.only_a == () and [other.graph.node[j].op_type for j in found.only_b] == [
        "Identity"
    ]


def test_a_weight_in_an_initializer_is_that_in_a_constant_node():
    model = transformer()
    other = ModelProto()
    other.CopyFrom(model)
    weight = next(t for t in other.graph.initializer if t.name == "scale")
    value = numpy_helper.to_array(weight)
    other.graph.initializer.remove(weight)
    other.graph.node.insert(
        0, helper.make_node("Constant", [], ["scale"], value_float=float(value))
    )
    found = match_models(model, other)
    assert (
        found.only_a == ()
        and found.only_b == (0,)
        and found.values["scale"] == "scale"
        and len(found.pairs) == 31
    )


def test_a_node_without_a_name_is_found_by_its_output():
    header = "net (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, %d}> "
    model = pyopnb.parse(
        header % 4 + "{ a = Mul(x, k)  b = Exp(x)  c = Add(a, b)  y = Softmax(c) }"
    )
    other = pyopnb.parse(header % 5 + "{ a = Mul(x, k)  c = Sub(a, x)  y = Softmax(c) }")
    assert (0, 0) in match_models(model, other).pairs
    assert [change.facts[0].a for change in pyopnb.diff(model, other).of("weight")] == ["k"]

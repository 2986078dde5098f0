"""The picture of a diff has the nodes of both sides, each once, between the tensors that both have."""

from __future__ import annotations

import os
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import onnx
import onnxruntime
import pytest

import pyopnb
from pyopnb.diffs.models.change import Change
from pyopnb.display.merged import merge
from pyopnb.engine.models.index import GraphIndex

LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
A = "net (float[4] x) => (float[4] y) { a = Abs(x)\n b = Exp(a)\n y = Neg(b) }"


def titles(view):
    return [
        element.text
        for element in ElementTree.fromstring(view.svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def reads(model):
    return {output: list(node.input) for node in model.graph.node for output in node.output}


def test_a_removed_node_stands_between_the_nodes_that_remain():
    a, b = (
        pyopnb.parse(A),
        pyopnb.parse("net (float[4] x) => (float[4] y) { p = Abs(x)\n y = Neg(p) }"),
    )
    found = pyopnb.diff(a, b)
    model, marks, _ = merge(a, b, {1: "removed"}, found.tensors)
    assert reads(model) == {"p": ["x"], "b": ["p"], "y": ["p", "b"]}
    assert marks == {"b": "removed"}
    view = pyopnb.show(found)
    assert "− removed" in titles(view) and 'stroke-dasharray="5 3"' in view.svg
    assert view.body.count("<img") == 1


def test_names_weights_constants_and_outputs_of_a_do_not_become_those_of_b():
    a = pyopnb.parse(
        "net (float[4] x) => (float[4] y, float[4] z) <float[4] k = {1, 2, 3, 4}>"
        " { h = Constant<value_float = 0.5>()\n c = Mul(x, k)\n z = Mul(c, h)\n y = Abs(x) }"
    )
    b = pyopnb.parse(
        "net (float[4] x) => (float[4] y, float[4] z) <float[4] k = {4, 4, 4, 4}> { c = Abs(x)\n y = Identity(c)\n z = Add(y, k) }"
    )
    model, _, names = merge(a, b, {1: "removed", 2: "removed"}, {"x": "x", "y": "c"})
    assert reads(model)["c (a)"] == ["x", "k (a)"]
    assert reads(model)["z (a)"] == ["c (a)", "h"]
    assert [info.name for info in model.graph.input] == ["x", "k (a)", "h"]
    assert not GraphIndex(model.graph).free
    assert names == {"k": "k (a)", "c": "c (a)", "h": "h", "z": "z (a)"}


def test_what_bodies_read_is_read_by_their_node():
    a = pyopnb.parse(
        "net (float[N] x, bool c) => (float[N] y) { a = Abs(x)"
        " y = If <then_branch = t () => (float[N] p) { p = Neg(a) }, else_branch = e () => (float[N] q) { q = Exp(x) }> (c) }"
    )
    b = pyopnb.parse("net (float[N] x, bool c) => (float[N] y) { y = Relu(x) }")
    model, _, _ = merge(a, b, {0: "removed", 1: "removed"}, {"x": "x", "c": "c"})
    assert reads(model) == {"y": ["x"], "a": ["x"], "y (a)": ["c", "a", "x"]}


def test_graphs_that_no_graph_can_have_together_are_two_pictures():
    a = pyopnb.parse(
        "net (float[4] x) => (float[4] y) { s = Sin(x)\n n = Neg(s)\n e = Exp(n)\n c = Cos(e)\n y = Tan(c) }"
    )
    b = pyopnb.parse(
        "net (float[4] x) => (float[4] y) { c = Cos(x)\n e = Exp(c)\n s = Sin(e)\n y = Tan(s) }"
    )
    pairs = {"x": "x", "s": "s", "c": "c", "y": "y"}
    with pytest.raises(pyopnb.errors.ModelError):
        merge(a, b, {1: "removed", 2: "removed"}, pairs)
    found = pyopnb.diff(a, b)
    node = next(change.a[0] for change in found.changes if change.a)
    at = [replace(node, place=place, outputs=tuple(a.graph.node[place].output)) for place in (1, 2)]
    found = replace(
        found, tensors=pairs, changes=tuple(Change("removed", a=(node,)) for node in at)
    )
    assert pyopnb.show(found).body.count("<img") == 2


def test_a_network_and_what_onnxruntime_makes_of_it(tmp_path):
    path, optimized = os.path.join(LIGHT, "light_squeezenet.onnx"), str(tmp_path / "optimized.onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = optimized, 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    said = titles(pyopnb.show(pyopnb.diff(path, optimized)))
    assert "nothing makes it" not in said and any(text.startswith("− ") for text in said if text)


def test_a_diff_of_runs_has_the_nodes_that_one_of_them_lacks():
    x = np.float32([1, -2, 3, 0])
    one = pyopnb.Session(pyopnb.parse(A)).trace(x=x, times=False)
    longer = A.replace("y = Neg(b)", "c = Neg(b)\n d = Sin(c)\n y = Neg(d)")
    other = pyopnb.Session(pyopnb.parse(longer)).trace(x=x, times=False)
    there, back = pyopnb.diff(one, other), pyopnb.diff(other, one)
    assert (
        titles(pyopnb.show(there)).count("+ only in b")
        == titles(pyopnb.show(back)).count("− only in a")
        > 0
    )
    assert titles(pyopnb.show(pyopnb.diff(one, one))).count("Exp") == 1
    read = type(there).from_json(there.to_json())
    assert read == there and not pyopnb.show(read).svg, "it has no models any more"

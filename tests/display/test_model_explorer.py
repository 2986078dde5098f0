"""Files and pages for Google's Model Explorer."""

from __future__ import annotations

import json
import sys
import threading
import types
from urllib.parse import quote, unquote

import numpy as np
import onnx
import pytest

import pyopnb

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
# The ids that the adapter of model-explorer-onnx 0.4.2 gave to the nodes of these models.
IDS = [
    (
        "plain (float[N] x) => (float[N] y) { [first] a = Abs(x)  b = Neg(a)  y = Relu(b) }",
        {"a": "first", "b": "node", "y": "node_1"},
    ),
    (
        """repeated (float[N] x) => (float[N] y) { [node] a = Abs(x)  b = Neg(a)  [node] c = Neg(b)
            [node_1] d = Neg(c)  e = Neg(d)  [nm] f = Abs(e)  [nm] y = Neg(f) }""",
        {
            "a": "node",
            "b": "node_1",
            "c": "node_2",
            "d": "node_1_1",
            "e": "node_3",
            "f": "nm",
            "y": "nm_1",
        },
    ),
    (
        """bodies (float[N] x, bool c) => (float[N] y) {
            a = Abs(x)
            b = If(c) <then_branch = t () => (float[N] p) { q = Neg(a)  r = Neg(q)  p = Neg(r) },
                else_branch = e () => (float[N] s) { s = Abs(a) }>
            d = Neg(b)
            n = Constant<value = int64 {2}>()
            w = Loop(n, c, d) <body = l (int64 i, bool k, float[N] v) => (bool o, float[N] u) {
                o = Identity(k)  z = Neg(v)  u = Neg(z) }>
            y = Neg(w) }""",
        {"a": "node", "b": "node_1", "d": "node_4", "n": "node_5", "w": "node_6", "y": "node_9"},
    ),
]


def read(thing, tmp_path):
    path = tmp_path / "x.nodes.json"
    thing.save(path)
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize(("text", "ids"), IDS)
def test_nodes_have_the_ids_of_the_adapter(text, ids, tmp_path):
    model = pyopnb.parse(HEAD + text)
    numbers = {name: 1.0 + place for place, name in enumerate(ids)}
    data = read(pyopnb.show(model, colors=numbers, legend="size"), tmp_path)
    assert list(data) == [text.partition(" ")[0]]
    (graph,) = data.values()
    values = {key: result["value"] for key, result in graph["results"].items()}
    assert graph["name"] == "size" and values == {ids[name]: numbers[name] for name in ids}
    model.graph.ClearField("name")
    assert list(read(pyopnb.show(model, colors=numbers), tmp_path)) == ["<main>"]


def test_infinite_numbers_and_marks_are_texts(tmp_path):
    model = pyopnb.parse(HEAD + IDS[0][0])
    view = pyopnb.show(model, colors={"a": np.inf, "b": 2.0}, marks={"y": "changed"})
    results = read(view, tmp_path)["plain"]["results"]
    assert [result["value"] for result in results.values()] == ["inf", 2.0, "changed"]
    assert all(result["bgColor"].startswith("#") for result in results.values())


A = HEAD + "g (float[N] x) => (float[N] y) { a = Abs(x)  b = Mul(a, x)  y = Neg(b) }"
B = HEAD + "g (float[N] x) => (float[N] y) { a = Abs(x)  c = Mul(a, a)  y = Neg(c) }"


def difference():
    x = np.float32([-1, 2])
    return pyopnb.diff(*(pyopnb.trace(pyopnb.parse(text), x=x) for text in (A, B)))


def test_runs_and_their_differences_are_written(tmp_path):
    x = np.float32([-1, 2])
    session = pyopnb.Session(pyopnb.parse(A))
    for thing in (session.trace(x=x), pyopnb.profile(session, x=x, runs=2, warmup=1)):
        results = read(thing, tmp_path)["g"]["results"]
        assert results and set(results) <= {"node", "node_1", "node_2"}
    diff = difference()
    results = read(diff, tmp_path)["g"]["results"]
    assert results["node_1"]["value"] == 2.0 and "node" not in results
    diff.save(tmp_path / "x.json")
    assert type(diff).from_json((tmp_path / "x.json").read_text("utf-8")) == diff
    with pytest.raises(pyopnb.errors.InputError, match="expected a name that ends in"):
        pyopnb.show(x).save(tmp_path / "x.nodes.json")


def test_both_graphs_open_side_by_side(monkeypatch):
    """The config is Model Explorer's own but for what it imports."""
    served, models, data = [], [], []
    done = threading.Event()

    class Config:
        def add_model_from_path(self, path):
            models.append(path)

        def add_node_data(self, name, node_data, model_name):
            data.append((name, json.loads(node_data), model_name))

        def to_url_param_value(self):
            return quote(json.dumps({"models": [{"url": path} for path in models]}))

    def visualize_from_config(config, extensions):
        served.append((config, extensions))
        done.set()

    explorer = types.SimpleNamespace(config=Config, visualize_from_config=visualize_from_config)
    monkeypatch.setitem(sys.modules, "model_explorer", explorer)
    monkeypatch.setitem(sys.modules, "model_explorer_onnx", types.ModuleType("adapter"))
    difference().explore()
    assert done.wait(10)
    config, extensions = served[0]
    assert extensions == ["model_explorer_onnx"]
    address = json.loads(unquote(config.to_url_param_value()))
    panes = address["uiState"]["paneStates"]
    assert [pane["selectedGraphId"] for pane in panes] == ["a", "b"]
    assert [pane["selectedCollectionLabel"] for pane in panes] == ["a.onnx", "b.onnx"]
    # Model Explorer reads the models, and colors the nodes of each.
    assert [list(graphs) for _, graphs, _ in data] == [["a"], ["b"]]
    assert [
        set(graphs[name]["results"]) for name, (_, graphs, _) in zip("ab", data, strict=True)
    ] == [{"node_1", "node_2"}] * 2
    assert list(onnx.load(models[0]).graph.node[1].input) == ["a", "x"]


def test_without_model_explorer_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "model_explorer", None)
    with pytest.raises(pyopnb.errors.PyopError, match="pip install ai-edge-model-explorer"):
        difference().explore()
    with pytest.raises(pyopnb.errors.InputError, match="something with a graph"):
        pyopnb.show(np.float32([1])).explore()


def test_a_graph_without_colors_has_no_node_data(tmp_path):
    model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Relu(x) }")
    with pytest.raises(
        pyopnb.errors.InputError, match=r"a name that ends in \.html, \.svg, \.png, got"
    ):
        pyopnb.show(model).save(tmp_path / "x.nodes.json")

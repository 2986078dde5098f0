"""Numbers and private domains: written, and taken out again without a trace."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

import pyopnb
from pyopnb.engine.models.markers import MARKER, PREFIX, NumberedNode, add_markers, remove_markers
from pyopnb.engine.models.model_functions import inline_ops
from pyopnb.engine.models.ort_capabilities import newest_opset
from pyopnb.engine.models.protos import walk


def graph() -> onnx.GraphProto:
    return helper.make_graph([pyopnb.node("Neg", "u", "v")], "g", [], [])


def sample() -> onnx.ModelProto:
    then = helper.make_graph(
        [pyopnb.node("d::Op", "x", "a", body=graph(), many=[graph(), graph()])], "b", [], []
    )
    nodes = [
        pyopnb.node("d::Op", "x", "m", name="n", k=1),
        pyopnb.node("If", "c", "y", then_branch=then, else_branch=then),
    ]
    return pyopnb.model(
        nodes, {"x": "float32[N]", "c": "bool[]"}, {"y": "float32[]", "m": "int64[?,3]"}
    )


def numbered(model: onnx.ModelProto, fixed: tuple[int, ...] = ()) -> list[NumberedNode]:
    return [NumberedNode(site, "d", "Op", fixed) for site in walk(model) if site.node.domain == "d"]


@pytest.mark.parametrize("fixed", [(), (0,), (7,)])
def test_restoring_gives_the_nodes_of_the_file(fixed: tuple[int, ...]) -> None:
    model, before = sample(), sample()
    add_markers(model, numbered(model, fixed))
    for site in walk(model):
        if site.node.domain.startswith(PREFIX):
            assert [a.i for a in site.node.attribute if a.name == MARKER]
            assert not [a for a in site.node.attribute if a.HasField("g") or a.graphs]
    remove_markers(model)
    assert model.graph == before.graph and list(model.opset_import) == list(before.opset_import)


def function(
    name: str, nodes: list[onnx.NodeProto], opset: int | None = None
) -> onnx.FunctionProto:
    imports = [
        helper.make_opsetid("", opset or newest_opset()),
        helper.make_opsetid("d", 9),
        helper.make_opsetid("f", 1),
    ]
    return helper.make_function("f", name, ["u"], ["v"], nodes, imports)


def is_op(node: onnx.NodeProto) -> bool:
    return node.domain == "d"


def test_only_functions_that_hold_ops_are_inlined() -> None:
    functions = [
        function("Holds", [pyopnb.node("d::Op", "u", "v")]),
        function("Calls", [pyopnb.node("f::Holds", "u", "v")]),
        function("Plain", [pyopnb.node("Neg", "u", "v")]),
    ]
    nodes = [pyopnb.node("f::Calls", "x", "m"), pyopnb.node("f::Plain", "m", "y")]
    model = pyopnb.model(nodes, {"x": "float32"}, "y", functions=functions)
    before = model.SerializeToString()
    made = inline_ops(model, is_op)
    assert [(n.domain, n.op_type) for n in made.graph.node] == [("d", "Op"), ("f", "Plain")]
    assert [f.name for f in made.functions] == ["Plain"]
    assert model.SerializeToString() == before


@pytest.mark.parametrize("depth", [32, 33, 1000])
def test_packed_graphs_inside_one_another_have_a_limit(depth: int) -> None:
    inner = onnx.helper.make_graph([onnx.helper.make_node("Abs", ["x"], ["y"])], "g", [], [])
    for _ in range(depth):
        node = onnx.helper.make_node(
            "N.", ["x"], ["y"], domain="pyopnb:d", **{"pyopnb_graph:b": inner.SerializeToString()}
        )
        inner = onnx.helper.make_graph([node], "g", [], [])
    model = onnx.helper.make_model(inner)
    if depth <= 32:
        remove_markers(model)
        assert sum(1 for _ in walk(model)) == depth + 1
    else:
        with pytest.raises(
            pyopnb.errors.ModelError, match="at most 32 graphs packed inside one another"
        ):
            remove_markers(model)


def test_a_packed_graph_that_does_not_parse() -> None:
    node = onnx.helper.make_node(
        "N.", ["x"], ["y"], domain="pyopnb:d", **{"pyopnb_graph:b": b"\xff\xff"}
    )
    with pytest.raises(
        pyopnb.errors.ModelError, match="attr pyopnb_graph:b: expected a graph that pyopnb packed"
    ):
        remove_markers(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [])))

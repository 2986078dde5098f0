"""Transposes of a gradient without the axes that have one element."""

from __future__ import annotations

from onnx import ModelProto, NodeProto

from pyopnb.gradients.ranks import types_of
from pyopnb.models.nodes import imported_versions, type_of_proto
from pyopnb.models.op_inference import infer_types
from pyopnb.training.nodes import Nodes

__all__ = ["squeeze_transposes"]


def squeeze_transposes(model: ModelProto) -> None:
    """Let each Transpose of a model, which is changed, move only the axes that are known to have other than one element.

    The rules of onnx-ad carry an axis for several directions, and here there is one. ONNX Runtime transposes a tensor with this
    axis at its end element by element, and without it in blocks.
    """
    if imported_versions(model).get("", 1) < 13:  # from which on Squeeze has its axes as an input
        return
    graph = model.graph
    types = types_of(infer_types(model, data_prop=True).graph)
    old = list(graph.node)
    nodes = Nodes(graph, "transposes")
    graph.ClearField("node")
    for node in old:
        kind = types.get(node.input[0]) if node.op_type == "Transpose" and not node.domain else None
        shape = type_of_proto(kind).shape if kind is not None else None
        if shape is not None and 1 in shape:
            _append_squeezed(nodes, node, [size == 1 for size in shape])
        else:
            graph.node.append(node)


def _append_squeezed(nodes: Nodes, node: NodeProto, is_one: list[bool]) -> None:
    perm = next(
        (list(attr.ints) for attr in node.attribute if attr.name == "perm"),
        [*range(len(is_one))][::-1],
    )
    moved = [axis for axis in perm if not is_one[axis]]
    ones = [axis for axis in range(len(is_one)) if is_one[axis]]
    value = nodes.add("Squeeze", node.input[0], nodes.constant(ones, "int64"))
    if moved != sorted(moved):
        value = nodes.add("Transpose", value, perm=[sorted(moved).index(axis) for axis in moved])
    places = [place for place, axis in enumerate(perm) if is_one[axis]]
    nodes.add("Unsqueeze", value, nodes.constant(places, "int64"), to=node.output[0])

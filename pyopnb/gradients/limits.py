"""Keep onnx-ad from evaluating constants of a few bytes whose results would take all memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.engine import protos
from pyopnb.gradients.ranks import types_of

__all__ = ["costly_constants", "reads_of"]

_MAX_FOLDED = 4096
"""Elements of a constant that onnx-ad evaluates; it throws larger ones away."""

_NAMES = """
    AffineGrid BlackmanWindow CenterCropPad Col2Im ConstantOfShape DFT EyeLike Expand HammingWindow
    HannWindow MelWeightMatrix OneHot Pad Range Resize STFT Tile Upsample
"""
_GROWING = frozenset(_NAMES.split())
"""Operators whose outputs can be larger than all their inputs together."""


def reads_of(node: NodeProto) -> set[str]:
    """Return what a node reads, and what is read or bound in its bodies."""
    reads = set(filter(None, node.input))
    for body in protos.bodies(node):
        reads.update(info.name for info in body.output)
        for inner in protos.nodes_in(body):
            reads.update(filter(None, inner.input))
    return reads


def costly_constants(model: ModelProto) -> Iterator[NodeProto]:
    """Yield the nodes that onnx-ad would evaluate, and whose outputs may be too large to keep.

    Parameters
    ----------
    model : ModelProto
        Each name is bound once in it, and the types are declared as far as they are known.
    """
    sizes: dict[str, float] = {}
    constants: set[str] = set()
    for graph in {id(site.scope): site.scope for site in protos.walk(model)}.values():
        if isinstance(graph, GraphProto):
            constants.update(tensor.name for tensor in graph.initializer)
            sizes.update(_sizes(graph))
    for site in protos.walk(model):
        node = site.node
        if node.op_type in ("Shape", "Size"):
            constants.update(node.output)
        elif reads_of(node) <= constants:
            size = max((sizes.get(name, math.inf) for name in node.output), default=0)
            may_grow = node.op_type in _GROWING or bool(protos.bodies(node))
            if size > _MAX_FOLDED and (may_grow or size < math.inf):
                yield node
            else:
                constants.update(node.output)


def _sizes(graph: GraphProto) -> dict[str, float]:
    """Return the numbers of elements that are declared, by names of tensors."""
    sizes: dict[str, float] = {}
    for name, proto in types_of(graph).items():
        shape = protos.type_of_proto(proto).shape or (None,)
        fixed = [dim for dim in shape if isinstance(dim, int)]
        if len(fixed) == len(shape):
            sizes[name] = math.prod(fixed)
    return sizes

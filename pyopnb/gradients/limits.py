"""Keep onnx-ad from evaluating constants of a few bytes whose results would take all memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.engine import op_names, protos
from pyopnb.gradients.ranks import types_of

__all__ = ["hide_costly_constants", "reads_of"]

_MAX_FOLDED = 4096
"""Elements of a constant that onnx-ad evaluates; it throws larger ones away."""

_LARGEST_GRID = 2**26
"""Elements of an AffineGrid that is derived."""

_NAMES = """
    AffineGrid BlackmanWindow CenterCropPad Col2Im ConstantOfShape DFT EyeLike Expand HammingWindow
    HannWindow MelWeightMatrix OneHot Pad Range Resize STFT Tile Upsample
"""
_GROWING = frozenset(_NAMES.split())
"""Operators whose outputs can be larger than all their inputs together."""


def reads_of(node: NodeProto) -> set[str]:
    """Return what a node reads, and what its bodies read of the graphs around them."""
    reads: set[str] = set()
    bound: set[str] = set()
    pending = protos.bodies(node)
    # The list grows while it is walked.
    for body in pending:
        bound.update(info.name for info in body.input)
        bound.update(tensor.name for tensor in body.initializer)
        reads.update(info.name for info in body.output)
        for inner in body.node:
            reads.update(inner.input)
            bound.update(inner.output)
            pending += protos.bodies(inner)
    return ({*node.input} | (reads - bound)) - {""}


def hide_costly_constants(
    model: ModelProto, hide: Callable[[NodeProto], None], taken: set[str]
) -> None:
    """Hide nodes that onnx-ad would evaluate, and whose outputs may be too large to keep.

    Parameters
    ----------
    model : ModelProto
        It is changed. Each name is bound once in it, and the types are declared as far as they are
        known.
    hide : callable
        Makes a node one that onnx-ad does not evaluate.
    taken : set of str
        All names in the model; one that is added is added here.
    """
    sizes: dict[str, float] = {}
    constants: set[str] = set()
    sites = list(protos.walk(model))
    for graph in {id(site.scope): site.scope for site in sites}.values():
        if isinstance(graph, GraphProto):
            constants.update(tensor.name for tensor in graph.initializer)
            sizes.update(_sizes(graph))
    for site in sites:
        node = site.node
        # onnx-ad evaluates a Shape and a Size where it knows the sizes.
        if node.op_type in ("Constant", "Shape", "Size"):
            constants.update(node.output)
            continue
        size = max((sizes.get(name, math.inf) for name in node.output), default=0)
        # Its definition has a Range for each axis, which is evaluated.
        if node.op_type == "AffineGrid" and size > _LARGEST_GRID and node.input[1] in constants:
            hide(node)
        elif reads_of(node) <= constants:
            # A loop of constants may turn as often as it likes, for small results as well. It stays
            # a loop, as onnx-ad finds the types of its results in its body.
            if protos.bodies(node) and node.op_type != "If" and any(node.input):
                hide(_identity_before(site.scope, node, taken))
            elif size > _MAX_FOLDED and (node.op_type in _GROWING or size < math.inf):
                hide(node)
            else:
                constants.update(node.output)


def _identity_before(
    scope: GraphProto | FunctionProto, node: NodeProto, taken: set[str]
) -> NodeProto:
    """Put an Identity before an input of a node, and return it."""
    position = next(number for number, name in enumerate(node.input) if name)
    copied = op_names.fresh_name(node.input[position], taken)
    taken.add(copied)
    identity = helper.make_node("Identity", [node.input[position]], [copied])
    node.input[position] = copied
    index = next(i for i, other in enumerate(scope.node) if other.output[:1] == node.output[:1])
    scope.node.insert(index, identity)
    inserted: NodeProto = scope.node[index]
    return inserted


def _sizes(graph: GraphProto) -> dict[str, float]:
    """Return the numbers of elements that are declared, by names of tensors."""
    sizes: dict[str, float] = {}
    for name, proto in types_of(graph).items():
        shape = protos.type_of_proto(proto).shape or (None,)
        fixed = [dim for dim in shape if isinstance(dim, int)]
        if len(fixed) == len(shape):
            sizes[name] = math.prod(fixed)
    return sizes

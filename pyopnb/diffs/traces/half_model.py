"""A float32 model as an accelerator runs it: each tensor in half precision."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from pyopnb.diffs.traces.half_insides import summed
from pyopnb.engine import dtype, onnx_schemas, protos
from pyopnb.errors import ModelError
from pyopnb.models import Types

__all__ = ["in_half"]

_FLOAT = TensorProto.FLOAT
_OPSET = 13
# Endings of names that no exporter writes: a weight or input in half precision, a tensor after
# rounding, and the result of a node before it, both in float32.
_HALF = "\N{PRIME}half"
_ROUNDED = "\N{PRIME}rounded"
_WIDE = "\N{PRIME}wide"


def in_half(
    model: ModelProto, half: str, kept: Collection[str] = (), *, sums: bool = False
) -> ModelProto:
    """Round every float32 tensor of a model, also in bodies, to half precision.

    Nodes compute in float32 on the rounded tensors, as accelerators add up. In the main graph, the
    results in half precision have the names that the model gives them.

    Parameters
    ----------
    half : str
        ``"float16"`` or ``"bfloat16"``.
    kept : collection of str
        First outputs of the nodes that stay in float32, as converters keep them: their weights and
        the tensors between two of them are not rounded.
    sums : bool
        Whether the partial sums of each ReduceSum and MatMul are rounded, too.

    Raises
    ------
    ModelError
        The types of the tensors cannot be inferred.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Neg(x) }")
    >>> [node.op_type for node in in_half(model, "float16").graph.node]
    ['Cast', 'Cast', 'Neg', 'Cast', 'Cast']
    """
    where = f"first_divergence, {half}"
    least = 13 if half == "bfloat16" else 6
    # The casts need an opset that has their dtype.
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    version = max(versions, default=_OPSET)
    if version < least:
        next_ = f"onnx.version_converter.convert_version(model, {least})"
        got = f"opset {version}"
        raise ModelError(where, expected=f"opset {least} or newer", got=got, next=next_)
    if sums:
        model = summed(model, kept)
    types = Types(model)
    if types.failure:
        expected = "a model whose tensors have types"
        next_ = "onnx.checker.check_model(model, full_check=True)"
        raise ModelError(where, expected=expected, got=types.failure, next=next_)
    copy = ModelProto()
    copy.CopyFrom(model)
    if not versions:
        copy.opset_import.add(version=_OPSET)
    for info in copy.graph.output:
        info.ClearField("type")
    _Rounding(types, dtype(half).onnx, kept).round(model.graph, copy.graph)
    return copy


class _Rounding:
    """The roundings of a model."""

    def __init__(self, types: Types, half: int, kept: Collection[str]) -> None:
        self.types = types
        self.half = half
        self.kept = set(kept)
        # What the reader of a tensor reads; tensors of graphs around a body are among them.
        self.rounded: dict[str, str] = {}
        # What inputs that no converter rounds read, if it has another name.
        self.unrounded: dict[str, str] = {}
        # Tensors that nodes in float32 read as they are.
        self.wide: set[str] = set()

    def round(self, graph: GraphProto, copy: GraphProto, *, kept: bool = False) -> None:
        """Insert roundings into the copy of a graph, or of the body of a node that is kept."""
        # The types of the results change.
        del copy.value_info[:]
        nodes: list[NodeProto] = []
        weights = [tensor.name for tensor in graph.initializer]
        for name in dict.fromkeys([*weights, *(info.name for info in graph.input)]):
            if self._is_float(graph, name):
                nodes += self._casts(name, name + _HALF, name)
        self.wide.update(weights)
        if kept:
            self.kept.update(map(protos.first_output, graph.node))
            self.wide.update(info.name for info in graph.input)
        for node in graph.node:
            for name in self._results(graph, node):
                self.rounded[name] = name + _ROUNDED
            if self._is_kept(node):
                self.wide.update(node.output)
        for node, changed in zip(graph.node, copy.node, strict=True):
            for (_, body), (_, inner) in zip(
                protos.named_bodies(node), protos.named_bodies(changed), strict=True
            ):
                is_kept = self._is_kept(node)
                self.round(body, inner, kept=is_kept)
                for info in () if is_kept else inner.output:
                    info.name = self.rounded.get(info.name, info.name)
            nodes += self._rounding_node(graph, node, changed)
        nodes = list(map(_copy, nodes))
        del copy.node[:]
        copy.node.extend(nodes)

    def _rounding_node(
        self, graph: GraphProto, node: NodeProto, changed: NodeProto
    ) -> Iterator[NodeProto]:
        """Yield a node that reads rounded tensors, and the roundings of its results."""
        for position, name in enumerate(node.input):
            is_read_wide = self._is_kept(node) and name in self.wide
            if not is_read_wide:
                names = self.rounded if _takes_half(node, position) else self.unrounded
                changed.input[position] = names.get(name, name)
        yield changed
        for name in self._results(graph, node):
            if name in self.wide:
                yield from self._casts(name, name + _HALF, name)
            else:
                changed.output[list(node.output).index(name)] = name + _WIDE
                self.unrounded[name] = name + _WIDE
                yield from self._casts(name + _WIDE, name, name)

    def _casts(self, wide: str, half: str, name: str) -> Iterator[NodeProto]:
        self.rounded[name] = name + _ROUNDED
        yield helper.make_node("Cast", [wide], [half], to=self.half)
        yield helper.make_node("Cast", [half], [self.rounded[name]], to=_FLOAT)

    def _is_kept(self, node: NodeProto) -> bool:
        return protos.is_constant(node) or protos.first_output(node) in self.kept

    def _results(self, graph: GraphProto, node: NodeProto) -> Iterator[str]:
        return (name for name in node.output if self._is_float(graph, name))

    def _is_float(self, graph: GraphProto, name: str) -> bool:
        found = self.types.find(graph, name)
        return found is not None and found.tensor_type.elem_type == _FLOAT


def _takes_half(node: NodeProto, position: int) -> bool:
    """Tell whether an input may be in half precision; the scales of a Resize may not."""
    schema = onnx_schemas.find_schema(node.domain, node.op_type)
    if schema is None:
        return True
    takes = ["tensor(float16)" in port.types for port in schema.inputs]
    # The tensors of an operator without float16 are rounded on their way to it.
    return takes[min(position, len(takes) - 1)] or not any(takes)


def _copy(node: NodeProto) -> NodeProto:
    """Copy a node out of the graph that is emptied."""
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy

"""Nodes that add up, written out as simpler nodes, and sums as one addition after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import onnx.parser
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.diffs.traces.segments import called
from pyopnb.engine import GraphIndex, model_functions, onnx_schemas, protos
from pyopnb.errors import ModelError
from pyopnb.models import Types

__all__ = ["opened", "summed"]

_DOMAIN = "pyopnb.inside"
# From here on, all reductions take their axes as an input.
_OPSET = 18


def opened(model: ModelProto) -> tuple[ModelProto, dict[str, NodeProto]]:
    """Write out normalizations, Softmax, Gemm and reductions of float32, also in bodies.

    Returns
    -------
    tuple
        The model, and the node of the original that each node of its main graph comes from, by the
        first output.

    Raises
    ------
    ModelError
        The opset is older than 18.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Softmax(x) }")
    >>> [node.op_type for node in opened(model)[0].graph.node]
    ['Constant', 'ReduceMax', 'Sub', 'Exp', 'ReduceSum', 'Div']
    """
    version = protos.imported_versions(model).get("", _OPSET)
    if version < _OPSET:
        expected = f"opset {_OPSET} or newer to add up in half precision"
        next_ = f"onnx.version_converter.convert_version(model, {_OPSET})"
        got = f"opset {version}"
        raise ModelError("first_divergence", expected=expected, got=got, next=next_)
    original = model_functions.inlined_functions(model)
    written = _written(original, _INSIDES)
    nodes = {protos.first_output(node): node for node in original.graph.node}
    owners: dict[str, NodeProto] = {}
    inside: list[NodeProto] = []
    for node in written.graph.node:
        inside.append(node)
        # The last of the nodes that a node consists of has its output.
        owner = nodes.get(protos.first_output(node))
        if owner is not None:
            for part in inside:
                output = protos.first_output(part)
                owners[output] = owner
                if len(inside) > 1:
                    part.name = f"{called(owner)}, inside: {output}"
            inside = []
    return written, owners


def summed(model: ModelProto, kept: Collection[str]) -> ModelProto:
    """Write ReduceSum and MatMul as loops that add up one term after the other.

    Parameters
    ----------
    kept : collection of str
        First outputs of nodes that stay as they are.
    """
    return _written(model, _SUMS, kept)


class _Node(NamedTuple):
    """A node, and the graph that it is in."""

    proto: NodeProto
    graph: GraphIndex
    types: Types

    def attr(self, name: str, default: Any) -> Any:
        for attribute in self.proto.attribute:
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return default

    def is_float(self) -> bool:
        found = self.types.find(self.graph.scope, self.proto.input[0])
        return found is not None and found.tensor_type.elem_type == TensorProto.FLOAT

    def rank(self, position: int) -> int:
        """Return the rank of an input; 0 if it is unknown."""
        found = self.types.find(self.graph.scope, self.proto.input[position])
        shape = None if found is None else protos.type_of_proto(found).shape
        return len(shape or ())

    def axes(self) -> list[int]:
        """Return the axes of a reduction; none if they are unknown, or it reduces nothing."""
        rank = self.rank(0)
        axes: Sequence[int] | None = self._stored(1)
        if axes is None or not len(axes):
            reduces_all = axes is not None and not self.attr("noop_with_empty_axes", 0)
            axes = range(rank) if reduces_all else ()
        return sorted(axis % rank for axis in axes if rank)

    def _stored(self, position: int) -> Any:
        """Return the value of a constant input; empty without the input, None if it is computed."""
        if len(self.proto.input) <= position or not self.proto.input[position]:
            return ()
        name = self.proto.input[position]
        holder = self.graph.resolve(name)
        if holder is None:
            return None
        tensor = holder.initializers.get(name)
        if name in holder.producers:
            tensor = protos.constant_value(holder.nodes[holder.producers[name][0]])
        return numpy_helper.to_array(tensor).tolist() if isinstance(tensor, TensorProto) else None


_Text = Callable[[_Node], str]
"""What a node consists of, from x0, x1 … to y0 …; empty to leave it as it is."""


def _written(
    model: ModelProto, texts: Mapping[str, _Text], kept: Collection[str] = ()
) -> ModelProto:
    """Replace nodes by the nodes of their texts."""
    copy = ModelProto()
    copy.CopyFrom(model)
    version = protos.imported_versions(model).get("", _OPSET)
    types = Types(copy)
    for graph in types.graphs:
        for proto in graph.nodes:
            node = _Node(proto, graph, types)
            is_known = onnx_schemas.is_onnx_domain(proto.domain) and proto.op_type in texts
            if not is_known or protos.first_output(proto) in kept or not node.is_float():
                continue
            text = texts[proto.op_type](node)
            if text:
                name = f"inside{len(copy.functions)}"
                inputs = ", ".join(f"x{number}" for number in range(len(proto.input)))
                outputs = ", ".join(f"y{number}" for number in range(len(proto.output)))
                copy.functions.append(
                    onnx.parser.parse_function(
                        f'<domain: "{_DOMAIN}", opset_import: ["": {version}]>'
                        f"{name} ({inputs}) => ({outputs}) {{ {text} }}"
                    )
                )
                proto.domain, proto.op_type = _DOMAIN, name
                del proto.attribute[:]
    protos.add_imports(copy, {_DOMAIN: 1})
    return model_functions.inlined_functions(copy)


# ---- what is inside ------------------------------------------------------------------------------


def _mean(result: str, terms: str, axes: Sequence[int], keepdims: int = 1) -> str:
    """Write a mean as a sum and a division in float64, as no number of terms overflows."""
    return f"""
        {result}_axes = Constant<value_ints = {list(axes)}>()
        {result}_sum = ReduceSum<keepdims = {keepdims}>({terms}, {result}_axes)
        {result}_terms = Size({terms})
        {result}_size = Size({result}_sum)
        {result}_n = Cast<to = {TensorProto.DOUBLE}>({result}_terms)
        {result}_m = Cast<to = {TensorProto.DOUBLE}>({result}_size)
        {result}_count = Div({result}_n, {result}_m)
        {result}_wide = Cast<to = {TensorProto.DOUBLE}>({result}_sum)
        {result}_quotient = Div({result}_wide, {result}_count)
        {result} = Cast<to = {TensorProto.FLOAT}>({result}_quotient)
    """


def _standardized(node: _Node, axes: Sequence[int], deviation: str) -> str:
    return f"""
        square = Mul({deviation}, {deviation})
        {_mean("variance", "square", axes)}
        epsilon = Constant<value_float = {node.attr("epsilon", 1e-5)}>()
        shifted = Add(variance, epsilon)
        root = Sqrt(shifted)
        inverse = Reciprocal(root)
        normalized = Mul({deviation}, inverse)
    """


def _layer_normalization(node: _Node) -> str:
    rank = node.rank(0)
    axis = node.attr("axis", -1)
    if not rank:
        return ""
    axes = range(axis % rank, rank)
    text = f"{_mean('mean', 'x0', axes)} deviation = Sub(x0, mean)"
    text += _standardized(node, axes, "deviation")
    for number, name in enumerate(("mean", "inverse")[: len(node.proto.output) - 1], 1):
        text += f"y{number} = Identity({name}) "
    if len(node.proto.input) < 3 or not node.proto.input[2]:
        return f"{text} y0 = Mul(normalized, x1)"
    return f"{text} scaled = Mul(normalized, x1)  y0 = Add(scaled, x2)"


def _rms_normalization(node: _Node) -> str:
    rank = node.rank(0)
    if not rank:
        return ""
    axes = range(node.attr("axis", -1) % rank, rank)
    return f"{_standardized(node, axes, 'x0')} y0 = Mul(normalized, x1)"


def _instance_normalization(node: _Node) -> str:
    rank = node.rank(0)
    if rank < 3:
        return ""
    axes = range(2, rank)
    return f"""
        {_mean("mean", "x0", axes)}
        deviation = Sub(x0, mean)
        {_standardized(node, axes, "deviation")}
        others = Constant<value_ints = {list(range(1, rank - 1))}>()
        scale = Unsqueeze(x1, others)
        bias = Unsqueeze(x2, others)
        scaled = Mul(normalized, scale)
        y0 = Add(scaled, bias)
    """


def _softmax(end: str) -> _Text:
    def text(node: _Node) -> str:
        return f"""
            axes = Constant<value_ints = [{node.attr("axis", -1)}]>()
            largest = ReduceMax(x0, axes)
            shifted = Sub(x0, largest)
            power = Exp(shifted)
            total = ReduceSum(power, axes)
            {end}
        """

    return text


def _reduction(template: str) -> _Text:
    """Write a reduction with SUM for the call that adds up and MAX for the largest element."""

    def text(node: _Node) -> str:
        axes = node.axes()
        if not axes:
            return ""
        keepdims = f"<keepdims = {node.attr('keepdims', 1)}>"
        lines = template.replace("SUM", f"ReduceSum{keepdims}")
        lines = lines.replace("MAX", f"ReduceMax{keepdims}")
        return f"axes = Constant<value_ints = {axes}>() {lines}"

    return text


def _reduce_mean(node: _Node) -> str:
    axes = node.axes()
    if not axes:
        return ""
    return f"{_mean('mean', 'x0', axes, node.attr('keepdims', 1))} y0 = Identity(mean)"


def _global_average_pool(node: _Node) -> str:
    rank = node.rank(0)
    return f"{_mean('mean', 'x0', range(2, rank))} y0 = Identity(mean)" if rank > 2 else ""


def _gemm(node: _Node) -> str:
    text = ""
    factors = []
    for number, attr in enumerate(("transA", "transB")):
        factors.append(f"x{number}")
        if node.attr(attr, 0):
            factors[-1] = f"turned{number}"
            text += f"turned{number} = Transpose<perm = [1, 0]>(x{number}) "
    text += f"product = MatMul({', '.join(factors)}) "
    text += f"alpha = Constant<value_float = {node.attr('alpha', 1.0)}>() "
    if len(node.proto.input) < 3 or not node.proto.input[2]:
        return f"{text} y0 = Mul(product, alpha)"
    beta = node.attr("beta", 1.0)
    return f"""{text}
        scaled = Mul(product, alpha)
        beta = Constant<value_float = {beta}>()
        bias = Mul(x2, beta)
        y0 = Add(scaled, bias)
    """


_INSIDES: dict[str, _Text] = {
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _softmax("logarithm = Log(total)  y0 = Sub(shifted, logarithm)"),
    "RMSNormalization": _rms_normalization,
    "ReduceL1": _reduction("size = Abs(x0)  y0 = SUM(size, axes)"),
    "ReduceL2": _reduction("square = Mul(x0, x0)  total = SUM(square, axes)  y0 = Sqrt(total)"),
    "ReduceLogSum": _reduction("total = SUM(x0, axes)  y0 = Log(total)"),
    "ReduceLogSumExp": _reduction(
        "largest = ReduceMax(x0, axes)  shifted = Sub(x0, largest)  power = Exp(shifted)"
        "total = SUM(power, axes)  logarithm = Log(total)  back = MAX(x0, axes)"
        "y0 = Add(logarithm, back)"
    ),
    "ReduceMean": _reduce_mean,
    "ReduceSumSquare": _reduction("square = Mul(x0, x0)  y0 = SUM(square, axes)"),
    "Softmax": _softmax("y0 = Div(power, total)"),
}


# ---- one addition after the other ----------------------------------------------------------------


def _reduce_sum(node: _Node) -> str:
    """Add up along one axis after the other, the last one first."""
    axes = node.axes()
    if not axes:
        return ""
    text = ""
    terms = "x0"
    for axis in reversed(axes):
        text += f"""
            axis{axis} = Constant<value_ints = [{axis}]>()
            whole{axis} = ReduceSum<keepdims = 0>({terms}, axis{axis})
            shape{axis} = Shape(whole{axis})
            zeros{axis} = ConstantOfShape(shape{axis})
            sum{axis} = Scan<num_scan_inputs = 1, scan_input_axes = [{axis}],
                body = step (float[] old, float[] term) => (float[] new) {{ new = Add(old, term) }}>
                (zeros{axis}, {terms})
        """
        terms = f"sum{axis}"
    if node.attr("keepdims", 1):
        return f"{text} axes = Constant<value_ints = {axes}>() y0 = Unsqueeze({terms}, axes)"
    return f"{text} y0 = Identity({terms})"


def _mat_mul(node: _Node) -> str:
    if min(node.rank(0), node.rank(1)) < 2:
        return ""
    return """
        whole = MatMul(x0, x1)
        shape = Shape(whole)
        zeros = ConstantOfShape(shape)
        y0 = Scan<num_scan_inputs = 2, scan_input_axes = [-1, -2],
            body = step (float[] old, float[] a, float[] b) => (float[] new) {
                last = Constant<value_ints = [-1]>()
                before = Constant<value_ints = [-2]>()
                column = Unsqueeze(a, last)
                row = Unsqueeze(b, before)
                product = Mul(column, row)
                new = Add(old, product)
            }>(zeros, x0, x1)
    """


_SUMS: dict[str, _Text] = {"MatMul": _mat_mul, "ReduceSum": _reduce_sum}

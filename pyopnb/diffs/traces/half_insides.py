"""Nodes that add up, written out as simpler nodes, and sums as one addition after the other."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import onnx.parser
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

from pyopnb.diffs.traces.segments import called
from pyopnb.engine import model_functions, onnx_schemas, protos
from pyopnb.errors import ModelError
from pyopnb.models import Types

__all__ = ["opened", "summed"]

_DOMAIN = "pyopnb.inside"
# From here on, all reductions take their axes as an input.
_OPSET = 18


def opened(model: ModelProto, *, sums: bool) -> tuple[ModelProto, dict[str, NodeProto]]:
    """Write out calls of local functions, and what is inside nodes that add up, also in bodies.

    Parameters
    ----------
    sums : bool
        Whether to write out normalizations, Softmax, Gemm and reductions of float32.

    Returns
    -------
    tuple
        The model, and the node of the original that each node of its main graph comes from, by the
        first output.

    Raises
    ------
    ModelError
        The opset is older than 18, or onnx cannot write a call out.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { y = Softmax(x) }")
    >>> [node.op_type for node in opened(model, sums=True)[0].graph.node][3:]
    ['ReduceMax', 'Sub', 'Exp', 'ReduceSum', 'Div']
    """
    version = protos.imported_versions(model).get("", _OPSET)
    if sums and version < _OPSET:
        expected = f"opset {_OPSET} or newer to add up in half precision"
        next_ = f"onnx.version_converter.convert_version(model, {_OPSET})"
        got = f"opset {version}"
        raise ModelError("first_divergence", expected=expected, got=got, next=next_)
    written = model
    if model.functions:
        written = model_functions.inlined_functions(model)
    if sums:
        written = _written(written, _INSIDES)
    nodes = {protos.first_output(node): node for node in model.graph.node}
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


def _written(model: ModelProto, texts: str, kept: Collection[str] = ()) -> ModelProto:
    """Write float32 nodes out as the functions named by their operator and number of inputs."""
    copy = ModelProto()
    copy.CopyFrom(model)
    functions = _parsed(texts)
    types = Types(copy)
    for graph in types.graphs:
        for node in graph.nodes:
            inputs = [types.find(graph.scope, name) for name in node.input if name]
            name = f"{node.op_type}_{len(inputs)}"
            if name not in functions or not onnx_schemas.is_onnx_domain(node.domain):
                continue
            is_float = inputs[0] and inputs[0].tensor_type.elem_type == TensorProto.FLOAT
            ranks = [len(x.tensor_type.shape.dim) for x in inputs if x]
            is_vector = node.op_type == "MatMul" and min(ranks, default=0) < 2
            if is_float and not is_vector and protos.first_output(node) not in kept:
                node.domain, node.op_type = _DOMAIN, name
                del node.input[len(inputs) :]
    for function in functions.values():
        added = copy.functions.add()
        added.CopyFrom(function)
        # onnx inlines only functions for the same opset.
        added.opset_import[0].version = protos.imported_versions(model).get("", _OPSET)
    protos.add_imports(copy, {_DOMAIN: 1})
    written = model_functions.inlined_functions(copy)
    # A ReduceSum of no element whose axes are "" ends the process in onnxruntime 1.25.
    for site in protos.walk(written):
        while site.node.input and not site.node.input[-1]:
            del site.node.input[-1]
    return written


@cache
def _parsed(texts: str) -> dict[str, FunctionProto]:
    """Parse the functions of a text, by name."""
    attrs = "keepdims: int = 1, noop_with_empty_axes: int = 0"
    passed = "keepdims: int = @keepdims, noop_with_empty_axes: int = @noop_with_empty_axes"
    functions = {}
    for text in texts.replace("<KEEP>", f"<{passed}>").strip().split("\n\n"):
        several = [text]
        if " (x, axes)" in text:
            # A reduction without axes is over all of them.
            over_all = text.replace(" (x, axes)", f"_1 <{attrs}> (x)").replace(", axes)", ")")
            several = [text.replace(" (x, axes)", f"_2 <{attrs}> (x, axes)"), over_all]
        for each in several:
            function = onnx.parser.parse_function(
                f'<domain: "{_DOMAIN}", opset_import: ["": {_OPSET}, "{_DOMAIN}": 1]> {each}'
            )
            functions[function.name] = function
    return functions


_INSIDES = """
Mean <keepdims: int = 1, noop_with_empty_axes: int = 0> (terms, axes) => (mean) {
    sum = ReduceSum<KEEP>(terms, axes)  all = Size(terms)  left = Size(sum)
    n = Cast<to = 11>(all)  m = Cast<to = 11>(left)  count = Div(n, m)
    wide = Cast<to = 11>(sum)  quotient = Div(wide, count)  mean = Cast<to = 1>(quotient) }

Standard <epsilon: float = 1e-5> (deviation, axes) => (standard, inverse) {
    square = Mul(deviation, deviation)  variance = pyopnb.inside.Mean(square, axes)
    least = Constant<value_float: float = @epsilon>()  shifted = Add(variance, least)
    root = Sqrt(shifted)  inverse = Reciprocal(root)  standard = Mul(deviation, inverse) }

AxesFrom <axis: int = -1> (x) => (axes) {
    shape = Shape(x)  ranks = Shape(shape)  rank = Squeeze(ranks)  one = Constant<value_int = 1>()
    axis = Constant<value_int: int = @axis>()  first = Mod(axis, rank)
    axes = Range(first, rank, one) }

Layer <axis: int = -1, epsilon: float = 1e-5> (x) => (standard, mean, inverse) {
    axes = pyopnb.inside.AxesFrom<axis: int = @axis>(x)
    mean = pyopnb.inside.Mean(x, axes)  deviation = Sub(x, mean)
    standard, inverse = pyopnb.inside.Standard<epsilon: float = @epsilon>(deviation, axes) }

LayerNormalization_2 <axis: int = -1, epsilon: float = 1e-5> (x, scale) => (y, m, i) {
    standard, m, i = pyopnb.inside.Layer<axis: int = @axis, epsilon: float = @epsilon>(x)
    y = Mul(standard, scale) }

LayerNormalization_3 <axis: int = -1, epsilon: float = 1e-5> (x, scale, bias) => (y, m, i) {
    standard, m, i = pyopnb.inside.Layer<axis: int = @axis, epsilon: float = @epsilon>(x)
    scaled = Mul(standard, scale)  y = Add(scaled, bias) }

RMSNormalization_2 <axis: int = -1, epsilon: float = 1e-5> (x, scale) => (y) {
    axes = pyopnb.inside.AxesFrom<axis: int = @axis>(x)
    standard, inverse = pyopnb.inside.Standard<epsilon: float = @epsilon>(x, axes)
    y = Mul(standard, scale) }

InstanceNormalization_3 <epsilon: float = 1e-5> (x, scale, bias) => (y) {
    axes = pyopnb.inside.AxesFrom<axis = 2>(x)
    mean = pyopnb.inside.Mean(x, axes)  deviation = Sub(x, mean)
    standard, inverse = pyopnb.inside.Standard<epsilon: float = @epsilon>(deviation, axes)
    one = Constant<value_int = 1>()  others = Sub(axes, one)
    factor = Unsqueeze(scale, others)  offset = Unsqueeze(bias, others)
    scaled = Mul(standard, factor)  y = Add(scaled, offset) }

GlobalAveragePool_1 (x) => (y) {
    axes = pyopnb.inside.AxesFrom<axis = 2>(x)  y = pyopnb.inside.Mean(x, axes) }

Powers <axis: int = -1> (x) => (power, total, shifted) {
    axis = Constant<value_int: int = @axis>()  end = Constant<value_ints = [-1]>()
    axes = Reshape(axis, end)  largest = ReduceMax(x, axes)
    shifted = Sub(x, largest)  power = Exp(shifted)  total = ReduceSum(power, axes) }

Softmax_1 <axis: int = -1> (x) => (y) {
    power, total, shifted = pyopnb.inside.Powers<axis: int = @axis>(x)
    y = Div(power, total) }

LogSoftmax_1 <axis: int = -1> (x) => (y) {
    power, total, shifted = pyopnb.inside.Powers<axis: int = @axis>(x)
    logarithm = Log(total)  y = Sub(shifted, logarithm) }

Turned (x, times) => (y) {
    turned = Loop(times, , x)<
        body = turn (int64 n, bool go, float[] old) => (bool more, float[] new) {
        more = Identity(go)  new = Transpose(old) }>
    both = Constant<value_ints = [0, 0]>()  y = Reshape(turned, both) }

Product <transA: int = 0, transB: int = 0, alpha: float = 1.0> (x, w) => (y) {
    is_a = Constant<value_int: int = @transA>()  a = pyopnb.inside.Turned(x, is_a)
    is_b = Constant<value_int: int = @transB>()  b = pyopnb.inside.Turned(w, is_b)
    product = MatMul(a, b)
    alpha = Constant<value_float: float = @alpha>()  y = Mul(product, alpha) }

Gemm_2 <alpha: float = 1.0, transA: int = 0, transB: int = 0> (x, w) => (y) {
    y = pyopnb.inside.Product<transA: int = @transA, transB: int = @transB,
                              alpha: float = @alpha>(x, w) }

Gemm_3 <alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0> (x, w, c) => (y) {
    scaled = pyopnb.inside.Product<transA: int = @transA, transB: int = @transB,
                                   alpha: float = @alpha>(x, w)
    beta = Constant<value_float: float = @beta>()  bias = Mul(c, beta)  y = Add(scaled, bias) }

ReduceL1 (x, axes) => (y) { size = Abs(x)  y = ReduceSum<KEEP>(size, axes) }

ReduceL2 (x, axes) => (y) {
    square = Mul(x, x)  total = ReduceSum<KEEP>(square, axes)  y = Sqrt(total) }

ReduceLogSum (x, axes) => (y) { total = ReduceSum<KEEP>(x, axes)  y = Log(total) }

ReduceLogSumExp (x, axes) => (y) {
    largest = ReduceMax(x, axes)  shifted = Sub(x, largest)  power = Exp(shifted)
    total = ReduceSum<KEEP>(power, axes)  logarithm = Log(total)
    back = ReduceMax<KEEP>(x, axes)  y = Add(logarithm, back) }

ReduceMean (x, axes) => (y) { y = pyopnb.inside.Mean<KEEP>(x, axes) }

ReduceSumSquare (x, axes) => (y) { square = Mul(x, x)  y = ReduceSum<KEEP>(square, axes) }
"""
# A Scan of ONNX Runtime ends the process where a matrix is empty; a Loop does not. And ONNX Runtime
# 1.25 folds an If on a constant into a graph that it does not load.
_SUMS = """
ReduceSum_2 <keepdims: int = 1, noop_with_empty_axes: int = 0> (x, over) => (y) {
    whole = ReduceSum<KEEP>(x, over)  form = Shape(whole)
    left = pyopnb.inside.Left(x, over)  y = Reshape<allowzero = 1>(left, form) }

ReduceSum_1 <keepdims: int = 1, noop_with_empty_axes: int = 0> (x) => (y) {
    shape = Shape(x)  ranks = Shape(shape)  rank = Squeeze(ranks)
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()  none = Constant<value_int: int = @noop_with_empty_axes>()
    all = Sub(one, none)  count = Mul(rank, all)  axes = Range(zero, count, one)
    whole = ReduceSum<KEEP>(x)  form = Shape(whole)
    left = pyopnb.inside.Left(x, axes)  y = Reshape<allowzero = 1>(left, form) }

Left (x, over) => (y) {
    counted = Size(over)
    y = Loop(counted, , x)<
        body = each (int64 n, bool go, float[] old) => (bool more, float[] left) {
        more = Identity(go)  end = Constant<value_ints = [-1]>()  at = Reshape(n, end)
        axis = Gather(over, at)  sums = ReduceSum(old, axis)  shape = Shape(sums)
        zeros = ConstantOfShape(shape)  dims = Shape(old)  dim = Gather(dims, axis)
        size = Squeeze(dim)  one = Constant<value_int = 1>()
        left = Loop(size, , zeros)<
            body = add (int64 term, bool on, float[] sum) => (bool again, float[] added) {
                again = Identity(on)  start = Reshape(term, end)  stop = Add(start, one)
                slice = Slice(old, start, stop, axis)  added = Add(sum, slice) }> }> }

MatMul_2 (x, w) => (y) {
    whole = MatMul(x, w)  shape = Shape(whole)  zeros = ConstantOfShape(shape)
    dims = Shape(x)  last = Constant<value_int = -1>()  size = Gather(dims, last)
    y = Loop(size, , zeros)<body = add (int64 n, bool go, float[] old) => (bool more, float[] new) {
        more = Identity(go)  end = Constant<value_ints = [-1]>()  at = Reshape(n, end)
        column = Gather<axis = -1>(x, at)  row = Gather<axis = -2>(w, at)
        product = Mul(column, row)  new = Add(old, product) }> }
"""

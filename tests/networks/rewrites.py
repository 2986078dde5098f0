"""Six small networks, and what simplifiers, converters and runtimes make of them."""

from __future__ import annotations

import copy
import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper, numpy_helper, shape_inference, version_converter
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    RuntimeException,
)

__all__ = ["NETWORKS", "REWRITES", "feeds", "feeds_of", "network", "plant", "rewritten"]

# The text of each network; a weight is a name in capitals with its shape.
NETWORKS = {
    # A residual network of convolutions and normalizations.
    "images": """(float[N,3,8,8] x) => (float[N,5] y) {
        c1 = Conv<pads = [1,1,1,1]>(x, W1_8x3x3x3, B1_8)
        n1 = BatchNormalization(c1, S1_8, H1_8, M1_8, V1_8)
        r1 = Relu(n1)
        c2 = Conv<pads = [1,1,1,1]>(r1, W2_8x8x3x3)
        n2 = BatchNormalization(c2, S2_8, H2_8, M2_8, V2_8)
        r2 = Relu(n2)
        c3 = Conv<pads = [1,1,1,1]>(r2, W3_8x8x3x3, B3_8)
        n3 = BatchNormalization(c3, S3_8, H3_8, M3_8, V3_8)
        a3 = Add(n3, r1)
        r3 = Relu(a3)
        p = GlobalAveragePool(r3)
        f = Flatten(p)
        y = Gemm<transB = 1>(f, G_5x8, K_5) }""",
    # An encoder and a decoder with a shortcut.
    "masks": """(float[N,3,8,8] x) => (float[N,2,8,8] y) {
        c1 = Conv<pads = [1,1,1,1]>(x, W1_6x3x3x3, B1_6)
        n1 = BatchNormalization(c1, S1_6, H1_6, M1_6, V1_6)
        r1 = LeakyRelu<alpha = 0.1>(n1)
        d1 = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r1)
        c2 = Conv<pads = [1,1,1,1]>(d1, W2_9x6x3x3, B2_9)
        n2 = BatchNormalization(c2, S2_9, H2_9, M2_9, V2_9)
        s2 = Sigmoid(n2)
        m2 = Mul(n2, s2)
        u2 = ConvTranspose<strides = [2,2]>(m2, W3_9x6x2x2, B3_6)
        j = Concat<axis = 1>(r1, u2)
        c4 = Conv(j, W4_2x12x1x1, B4_2)
        y = Sigmoid(c4) }""",
    # A block of a transformer.
    "words": """(float[N,6,12] x) => (float[N,6,7] y, float[N,3,6,6] w) {
        heads = Constant<value_ints = [0,0,3,4]>()
        joined = Constant<value_ints = [0,0,12]>()
        l1 = LayerNormalization<axis = -1>(x, S1_12, H1_12)
        q0 = MatMul(l1, Q_12x12)
        q1 = Add(q0, QB_12)
        k0 = MatMul(l1, K_12x12)
        k1 = Add(k0, KB_12)
        v0 = MatMul(l1, V_12x12)
        v1 = Add(v0, VB_12)
        q2 = Reshape(q1, heads)
        q3 = Transpose<perm = [0,2,1,3]>(q2)
        k2 = Reshape(k1, heads)
        k3 = Transpose<perm = [0,2,3,1]>(k2)
        v2 = Reshape(v1, heads)
        v3 = Transpose<perm = [0,2,1,3]>(v2)
        z0 = MatMul(q3, k3)
        z1 = Mul(z0, C_1)
        w = Softmax<axis = -1>(z1)
        o0 = MatMul(w, v3)
        o1 = Transpose<perm = [0,2,1,3]>(o0)
        o2 = Reshape(o1, joined)
        o3 = MatMul(o2, O_12x12)
        o4 = Mul(o3, OS_12)
        h1 = Add(o4, x)
        l2 = LayerNormalization<axis = -1>(h1, S2_12, H2_12)
        f0 = MatMul(l2, F_12x20)
        f1 = Add(f0, FB_20)
        f2 = Gelu(f1)
        f3 = MatMul(f2, E_20x12)
        h2 = Add(f3, h1)
        l3 = LayerNormalization<axis = -1>(h2, S3_12, H3_12)
        y = MatMul(l3, Y_12x7) }""",
    # A recurrent network.
    "series": """(float[T,2,4] x) => (float[T,2,3] y) {
        one = Constant<value_ints = [1]>()
        i0 = MatMul(x, I_4x6)
        i1 = Mul(i0, IS_6)
        i2 = Add(i1, IB_6)
        i3 = Tanh(i2)
        g0, g1 = GRU<hidden_size = 5>(i3, GW_1x15x6, GR_1x15x5, GB_1x30)
        g2 = Squeeze(g0, one)
        l = LayerNormalization<axis = -1>(g2, S_5, H_5)
        e = Elu<alpha = 0.7>(l)
        o0 = MatMul(e, O_5x3)
        o1 = Mul(o0, OS_3)
        y = Sub(OB_3, o1) }""",
    # Two heads of a detector.
    "boxes": """(float[N,3,8,8] x) => (float[N,128,4] boxes, float[N,128,3] scores) {
        by4 = Constant<value_ints = [0,-1,4]>()
        by3 = Constant<value_ints = [0,-1,3]>()
        c1 = Conv<pads = [1,1,1,1]>(x, W1_8x3x3x3)
        n1 = BatchNormalization(c1, S1_8, H1_8, M1_8, V1_8)
        r1 = Clip(n1, LOW_, HIGH_)
        d1 = Conv<pads = [1,1,1,1], group = 8>(r1, W2_8x1x3x3, B2_8)
        n2 = BatchNormalization(d1, S2_8, H2_8, M2_8, V2_8)
        h2 = HardSwish(n2)
        b0 = Conv(h2, W3_8x8x1x1, B3_8)
        b1 = Transpose<perm = [0,2,3,1]>(b0)
        b2 = Reshape(b1, by4)
        b3 = Exp(b2)
        boxes = Mul(b3, A_128x4)
        s0 = Conv(h2, W4_6x8x1x1, B4_6)
        s1 = Transpose<perm = [0,2,3,1]>(s0)
        s2 = Reshape(s1, by3)
        scores = Softmax<axis = -1>(s2) }""",
    # Layers of a table's columns, with weights that are computed from others.
    "columns": """(float[N,7,10] x) => (float[N,7,4] y) {
        w0 = Transpose<perm = [1,0]>(W_16x10)
        w1 = Mul(w0, WS_16)
        a0 = MatMul(x, w1)
        a1 = Mul(a0, AS_16)
        a2 = Add(a1, AB_16)
        a3, a4 = Split<axis = -1, num_outputs = 2>(a2)
        a5 = Sigmoid(a4)
        a6 = Mul(a3, a5)
        l = LayerNormalization<axis = -1>(a6, S_8, H_8)
        b0 = MatMul(l, B_8x8)
        b1 = Mul(b0, BS_8)
        b2 = Softplus(b1)
        m = ReduceMean<keepdims = 1>(b2, LAST_)
        b3 = Sub(b2, m)
        b4 = Gelu<approximate = "tanh">(b3)
        y = MatMul(b4, Y_8x4) }""",
}
_LONE = {"LOW_": np.float32(-1), "HIGH_": np.float32(2), "LAST_": np.int64([-1])}


def network(name: str) -> ModelProto:
    """Build a network with seeded weights; every node has a name."""
    model = parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {name} {NETWORKS[name]}')
    drawn = np.random.default_rng(sorted(NETWORKS).index(name))
    made = {x.name for x in model.graph.input}.union(*(node.output for node in model.graph.node))
    for node in model.graph.node:
        node.name = f"/{node.output[0]}/{node.op_type}"
        for weight in node.input:
            if weight not in made:
                made.add(weight)
                model.graph.initializer.append(
                    numpy_helper.from_array(_weight(weight, drawn), weight)
                )
    return shape_inference.infer_shapes(model)


def _weight(name: str, drawn: np.random.Generator) -> np.ndarray:
    if name in _LONE:
        return _LONE[name]
    shape = [int(size) for size in name.partition("_")[2].split("x")]
    values = drawn.normal(size=shape)
    if name[0] == "V" and len(shape) == 1:
        values = 0.5 + np.abs(values)
    elif len(shape) == 1:
        values = 1 + 0.5 * values
    else:
        values /= math.sqrt(np.prod(shape[1:]) / 2)
    return values.astype(np.float32)


def feeds(model: ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw arrays for a model's inputs; a size without a number is 3."""
    drawn = np.random.default_rng(100 + seed)
    arrays = {}
    for info in model.graph.input:
        shape = [dim.dim_value or 3 for dim in info.type.tensor_type.shape.dim]
        arrays[info.name] = drawn.normal(size=shape).astype(np.float32)
    return arrays


# ---- rewriting ---------------------------------------------------------------------------------


def _optimized(level: str) -> Callable[[ModelProto], ModelProto]:
    def rewrite(model: ModelProto) -> ModelProto:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        options.log_severity_level = 4
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return onnx.load(options.optimized_model_filepath)

    return rewrite


def _constants(model: ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _replace(
    model: ModelProto, nodes: list[NodeProto], weights: dict[str, np.ndarray]
) -> ModelProto:
    """Build a model of other nodes and weights, without the weights that no node reads."""
    read = {name for node in nodes for name in node.input}
    tensors = [
        numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items() if name in read
    ]
    graph = helper.make_graph(
        nodes, model.graph.name, model.graph.input, model.graph.output, tensors
    )
    other = helper.make_model(graph, opset_imports=model.opset_import)
    other.ir_version = model.ir_version
    return other


def _fold_constants(model: ModelProto) -> ModelProto:
    weights = _constants(model)
    nodes = []
    for node in model.graph.node:
        if all(name in weights for name in node.input):
            single = helper.make_graph(
                [node], "one", [], [helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in node.output],
                [numpy_helper.from_array(weights[name], name) for name in node.input],
            )  # fmt: skip
            results = ReferenceEvaluator(
                helper.make_model(single, opset_imports=model.opset_import)
            ).run(None, {})
            weights.update(zip(node.output, map(np.asarray, results), strict=True))
        else:
            nodes.append(node)
    return _replace(model, nodes, weights)


def _fold(naming: str) -> Callable[[ModelProto], ModelProto]:
    """Fold normalizations and factors into the node before them."""

    def rewrite(model: ModelProto) -> ModelProto:
        weights = _constants(model)
        nodes: list[NodeProto] = []
        renamed: dict[str, str] = {}
        for node in copy.deepcopy(list(model.graph.node)):
            node.input[:] = [renamed.get(name, name) for name in node.input]
            maker = next((n for n in nodes if node.input and n.output[0] == node.input[0]), None)
            if maker is None or not _fold_into(maker, node, weights):
                nodes.append(node)
                continue
            name = {
                "before": maker.output[0],
                "behind": node.output[0],
                "new": f"folded.{node.output[0]}",
            }[naming]
            renamed[node.output[0]] = renamed[maker.output[0]] = name
            maker.output[0] = name
        return _replace(model, nodes, weights)

    return rewrite


def _fold_into(maker: NodeProto, node: NodeProto, weights: dict[str, np.ndarray]) -> bool:
    """Fold a BatchNormalization into a Conv, or a Mul by columns into a MatMul."""
    if maker.op_type == "Conv" and node.op_type == "BatchNormalization":
        scale, shift, mean, variance = (weights[name] for name in node.input[1:])
        factor = scale / np.sqrt(variance + np.float32(1e-5))
        bias = weights[maker.input[2]] if len(maker.input) == 3 else 0
        weight = weights[maker.input[1]] * factor[:, None, None, None]
        added = (bias - mean) * factor + shift
        names = [f"{maker.input[1]}.folded", f"{maker.input[1]}.bias"]
        weights.update(
            zip(names, (weight.astype(np.float32), added.astype(np.float32)), strict=True)
        )
        maker.input[1:] = names
        return True
    is_scaled = (maker.op_type, node.op_type) == ("MatMul", "Mul")
    if not is_scaled or node.input[1] not in weights or maker.input[1] not in weights:
        return False
    name = f"{maker.input[1]}.folded"
    weights[name] = weights[maker.input[1]] * weights[node.input[1]]
    maker.input[1] = name
    return True


# The nodes in place of one, with the letters of its inputs, Y for its output and T for others.
_SPELLED = {
    "Gelu": """TA = Constant<value_float = 1.4142135>() TB = Div(A, TA) TC = Erf(TB)
        TD = Constant<value_float = 1.0>() TE = Add(TC, TD) TF = Mul(A, TE)
        TG = Constant<value_float = 0.5>() Y = Mul(TF, TG)""",
    "tanh Gelu": """TA = Constant<value_float = 3.0>() TB = Pow(A, TA) TC = Constant<value_float = 0.044715>()
        TD = Mul(TB, TC) TE = Add(A, TD) TF = Constant<value_float = 0.7978845608>() TG = Mul(TF, TE)
        TH = Tanh(TG) TI = Constant<value_float = 1.0>() TJ = Add(TH, TI)
        TK = Constant<value_float = 0.5>() TL = Mul(A, TK) Y = Mul(TL, TJ)""",
    "LayerNormalization": """TL = Constant<value_ints = [-1]>() TA = ReduceMean(A, TL) TB = Sub(A, TA)
        TC = Mul(TB, TB) TD = ReduceMean(TC, TL) TE = Constant<value_float = 0.00001>()
        TF = Add(TD, TE) TG = Sqrt(TF) TH = Div(TB, TG) TI = Mul(TH, B) Y = Add(TI, C)""",
    "HardSwish": """TA = Constant<value_float = 3.0>() TB = Add(A, TA) TC = Constant<value_float = 0.0>()
        TD = Constant<value_float = 6.0>() TE = Clip(TB, TC, TD) TF = Mul(A, TE) Y = Div(TF, TD)""",
    "Softmax": """TL = Constant<value_ints = [-1]>() TA = ReduceMax(A, TL) TB = Sub(A, TA) TC = Exp(TB)
        TD = ReduceSum(TC, TL) Y = Div(TC, TD)""",
    "Sigmoid": "TA = Neg(A) TB = Exp(TA) TC = Constant<value_float = 1.0>() TD = Add(TB, TC) Y = Div(TC, TD)",
    "Gemm": "TA = Transpose<perm = [1,0]>(B) TB = MatMul(A, TA) Y = Add(TB, C)",
    "Elu": """TA = Constant<value_float = 0.0>() TB = Max(A, TA) TC = Min(A, TA) TD = Exp(TC)
        TE = Constant<value_float = 1.0>() TF = Sub(TD, TE) TG = Constant<value_float = 0.7>()
        TH = Mul(TF, TG) Y = Add(TB, TH)""",
}


def _spell_out(model: ModelProto) -> ModelProto:
    """Write nodes as several simpler ones, as exporters do for older opsets."""
    nodes = []
    for node in model.graph.node:
        key = node.op_type
        if any(attribute.s == b"tanh" for attribute in node.attribute):
            key = "tanh Gelu"
        if key not in _SPELLED:
            nodes.append(node)
            continue
        parsed = parse_model(
            f'<ir_version: 10, opset_import: ["" : 20]> g (float[N] A) => (float[N] Y) {{ {_SPELLED[key]} }}'
        )
        names = dict(zip("ABC", node.input, strict=False)) | {"Y": node.output[0]}
        for part in parsed.graph.node:
            part.input[:] = [names.get(name, f"{node.output[0]}.{name}") for name in part.input]
            part.output[:] = [names.get(name, f"{node.output[0]}.{name}") for name in part.output]
            part.name = f"{node.name}/{part.output[0]}"
            nodes.append(part)
    return _replace(model, nodes, _constants(model))


def _turn(model: ModelProto) -> ModelProto:
    """Keep images as NHWC and sequences with the time first, as other frameworks do."""
    ranks = {}
    for info in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        ranks[info.name] = len(info.type.tensor_type.shape.dim)
    images = model.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 3
    rank = 4 if images else 3
    forth = [0, 2, 3, 1] if images else [1, 0, 2]
    back = [0, 3, 1, 2] if images else [1, 0, 2]
    free = {"Relu", "LeakyRelu", "Sigmoid", "Add", "Mul", "Clip", "HardSwish", "Tanh", "Gelu"}
    if not images:
        free |= {"MatMul", "LayerNormalization", "Softplus", "Sub", "Split", "ReduceMean", "Elu"}
    weights = _constants(model)
    outputs = {info.name for info in model.graph.output}
    nodes: list[NodeProto] = []
    turned: set[str] = set()  # the tensors that are in the other layout

    def transpose(x: str, y: str, perm: list[int]) -> None:
        nodes.append(helper.make_node("Transpose", [x], [y], name=f"turn.{y}", perm=perm))

    graph_input = copy.deepcopy(model.graph.input[0])
    dims = list(graph_input.type.tensor_type.shape.dim)
    del graph_input.type.tensor_type.shape.dim[:]
    graph_input.type.tensor_type.shape.dim.extend(dims[axis] for axis in forth)
    turned.add(graph_input.name)
    plain: dict[str, str] = {}
    for node in copy.deepcopy(list(model.graph.node)):
        data = [name for name in node.input if name and name not in weights]
        is_free = node.op_type in free and data and all(name in turned for name in data)
        if not is_free:
            for number, name in enumerate(node.input):
                if name in turned:
                    if name not in plain:
                        plain[name] = f"{name}.plain"
                        transpose(name, plain[name], back)
                    node.input[number] = plain[name]
        made = list(node.output)
        for number, name in enumerate(made):
            if is_free and name in outputs:
                node.output[number] = f"{name}.turned"
            elif not is_free and ranks.get(name) == rank and name not in outputs:
                node.output[number] = plain[name] = f"{name}.plain"
        nodes.append(node)
        for name, given in zip(made, list(node.output), strict=True):
            if name in outputs and given != name:
                transpose(given, name, back)
            elif given != name:
                transpose(given, name, forth)
                turned.add(name)
            elif is_free:
                turned.add(name)
    other = _replace(model, nodes, weights)
    other.graph.input[0].CopyFrom(graph_input)
    return other


def _with_tool(name: str) -> Callable[[ModelProto], ModelProto]:
    def rewrite(model: ModelProto) -> ModelProto:
        if name == "onnxsim":
            import onnxsim

            return onnxsim.simplify(model)[0]
        import onnxoptimizer

        return onnxoptimizer.optimize(model)

    return rewrite


REWRITES: dict[str, Callable[[ModelProto], ModelProto]] = {
    "ORT basic": _optimized("BASIC"),
    "ORT extended": _optimized("EXTENDED"),
    "ORT all": _optimized("ALL"),
    "layout": _turn,
    "constants": _fold_constants,
    "fold, new names": _fold("new"),
    "fold, names before": _fold("before"),
    "fold, names behind": _fold("behind"),
    "spelled out": _spell_out,
    "opset": lambda model: version_converter.convert_version(model, 21),
}
for tool in ("onnxsim", "onnxoptimizer"):
    if find_spec(tool) is not None:
        REWRITES[tool] = _with_tool(tool)


def rewritten(model: ModelProto, how: str) -> ModelProto:
    """Rewrite a network; every node has a name of its own."""
    other = REWRITES[how](model)
    seen = set()
    for number, node in enumerate(other.graph.node):
        if not node.name or node.name in seen:
            node.name = f"node{number}"
        seen.add(node.name)
    return other


def feeds_of(how: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Put the feeds of a network into the layout of its rewritten form."""
    if how != "layout":
        return arrays
    ((name, x),) = arrays.items()
    perm = [0, 2, 3, 1] if x.ndim == 4 else [1, 0, 2]
    return {name: np.ascontiguousarray(x.transpose(perm))}


# ---- faults ------------------------------------------------------------------------------------


def plant(
    model: ModelProto, at: float, kinds: Sequence[str], arrays: dict[str, Any]
) -> tuple[ModelProto, str]:
    """Plant a fault near a place between the first node (0) and the last (1).

    Returns
    -------
    tuple of ModelProto and str
        The faulty model, and the name of the node that is wrong.
    """
    expected = _run(model, arrays)
    count = len(model.graph.node)
    nearest = sorted(range(count), key=lambda n: abs(n - at * (count - 1)))
    for kind, number in itertools.product(kinds, nearest):
        for other in _wrong(model, number, kind):
            try:
                got = _run(other, arrays)
            except (Fail, InvalidArgument, InvalidGraph, RuntimeException):
                # The fault made no model that runs.
                continue
            if _differ(expected, got):
                return other, other.graph.node[number].name
    raise AssertionError("nothing to change")


def _differ(expected: list[np.ndarray], got: list[np.ndarray]) -> bool:
    pairs = list(zip(expected, got, strict=True))
    if any(x.shape != y.shape for x, y in pairs):
        return False
    return any(np.abs(x - y).max() > 5e-3 * np.abs(x).max() for x, y in pairs)


def _run(model: ModelProto, arrays: dict[str, Any]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def _wrong(model: ModelProto, number: int, kind: str) -> Iterator[ModelProto]:
    """Change one thing of a node, in all ways of a kind."""
    weights = _constants(model)
    node = model.graph.node[number]
    if kind in ("weight", "dtype"):
        for slot, name in enumerate(node.input):
            if name in weights and weights[name].dtype == np.float32 and weights[name].size > 1:
                other = copy.deepcopy(model)
                values = weights[name].copy()
                if kind == "weight":
                    values.reshape(-1)[: values.size // 2 + 1] += 0.5
                else:
                    scale = np.abs(values).max() / 7
                    values = np.round(values / scale).astype(np.int8).astype(np.float32) * scale
                other.graph.initializer.append(numpy_helper.from_array(values, f"{name}.wrong"))
                other.graph.node[number].input[slot] = f"{name}.wrong"
                yield other
    elif kind == "attribute":
        for place, attribute in enumerate(node.attribute):
            if attribute.name in (
                "alpha",
                "epsilon",
                "axis",
                "perm",
                "approximate",
                "transB",
                "pads",
            ):
                other = copy.deepcopy(model)
                wrong = other.graph.node[number].attribute[place]
                if attribute.type == attribute.FLOAT:
                    wrong.f = 0.3
                elif attribute.name == "perm":
                    wrong.ints[:] = [*wrong.ints[:-2], wrong.ints[-1], wrong.ints[-2]]
                elif attribute.name == "pads":
                    wrong.ints[:] = [2, 2, 0, 0]
                elif attribute.type == attribute.INT:
                    wrong.i = 1 - wrong.i if wrong.i in (0, 1) else -2
                else:
                    wrong.s = b"none" if wrong.s == b"tanh" else b"tanh"
                yield other
        if node.op_type in ("LayerNormalization", "BatchNormalization", "Elu", "Gemm"):
            other = copy.deepcopy(model)
            named = {"Elu": "alpha", "Gemm": "beta"}.get(node.op_type, "epsilon")
            wrong_node = other.graph.node[number]
            kept = [a for a in wrong_node.attribute if a.name != named]
            del wrong_node.attribute[:]
            wrong_node.attribute.extend([*kept, helper.make_attribute(named, 0.3)])
            yield other
        swaps = {"Relu": "Abs", "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Exp": "Neg", "Softplus": "Relu",
                 "MaxPool": "AveragePool", "GlobalAveragePool": "GlobalMaxPool", "HardSwish": "Relu",
                 "ReduceMean": "ReduceMax", "Add": "Sub", "Sub": "Add", "Mul": "Add"}  # fmt: skip
        if node.op_type in swaps:
            other = copy.deepcopy(model)
            other.graph.node[number].op_type = swaps[node.op_type]
            yield other
    elif kind == "order" and len(node.input) >= 2:
        other = copy.deepcopy(model)
        names = other.graph.node[number].input
        names[0], names[1] = names[1], names[0]
        yield other
        tensors = [x for n in model.graph.node[:number] for x in n.output]
        for name in tensors[::-1][:6]:
            if name != node.input[0]:
                other = copy.deepcopy(model)
                other.graph.node[number].input[0] = name
                yield other

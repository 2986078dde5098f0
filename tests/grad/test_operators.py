"""The gradients of plain ONNX operators, against differences of the eighth order in float64, or a refusal by name."""

from functools import partial

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from precise_differences import assert_gradients

import pyopnb
from pyopnb.errors import ModelError

# The tests judge the gradients themselves; what `grad` compares is the subject of test_verify.
grad = partial(pyopnb.grad, verify=False)

random = np.random.default_rng(0)
FEEDS = {
    "x": random.uniform(0.3, 0.9, (3, 4)),
    "w": random.uniform(0.3, 0.9, (4, 2)),
    "u": random.uniform(0.3, 0.9, (1, 4)),
    "i": random.uniform(-1, 1, (2, 2, 5, 5)),
    "k": random.uniform(-1, 1, (2, 2, 3, 3)),
    "c": random.uniform(0.3, 0.9, 2),
    "d": random.uniform(0.3, 0.9, 2),
}
INTEGERS = {
    "axes": np.array([1]),
    "axes0": np.array([0]),
    "rows": np.array([2, 0]),
    "table": np.array([[0, 2, 1, 0]]),
    "pads": np.array([1, 0, 2, 1]),
    "wide": np.array([2, 3, 4]),
    "shape": np.array([2, 6]),
    "begin": np.array([1]),
    "end": np.array([4]),
    "k2": np.array([2]),
    "parts": np.array([1, 3]),
}
WINDOW = "kernel_shape = [3, 3], strides = [2, 1], pads = [1, 0, 2, 1]"
UNARY = """Abs Acos Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Exp Floor HardSigmoid
        HardSwish Identity LeakyRelu Log LogSoftmax Mish Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softmax Softplus
        Softsign Sqrt Tan Tanh ThresholdedRelu Transpose Flatten"""
BINARY = "Add Sub Mul Div Pow Max Min Mean Sum PRelu"
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Sum SumSquare"
NODES = [
    *(f"{op}(x)" for op in UNARY.split()),
    *(f"{op}(x, u)" for op in BINARY.split()),
    *(f"Reduce{op}(x, axes)" for op in REDUCTIONS.split()),
    *(f"Reduce{op}<keepdims = 0>(x)" for op in ("Mean", "L2")),
    "MatMul(x, w)", "Gemm<alpha = 0.5, beta = 2.0>(x, w, c)", "Clip(x)", "Concat<axis = 0>(x, u)",
    "Gather(x, rows)", "GatherElements(x, table)", "Slice(x, begin, end, axes)", "Pad(x, pads)", "Expand(x, wide)",
    "Reshape(x, shape)", "Squeeze(u, axes0)", "Unsqueeze(x, axes)", "Tile(u, parts)", "CumSum(x, axes)",
    'Einsum<equation = "ij,jk->ik">(x, w)', "LayerNormalization(x, u)", "Where(b, x, u)", "Trilu(x)",
    f"Conv<{WINDOW}>(i, k)", "Conv<dilations = [2, 2], group = 1>(i, k)", f"AveragePool<{WINDOW}>(i)",
    f"AveragePool<{WINDOW}, count_include_pad = 1>(i)", "MaxPool<kernel_shape = [2, 2]>(i)", "GlobalAveragePool(i)",
    "InstanceNormalization(i, c, d)", "DepthToSpace<blocksize = 1>(i)",
]  # fmt: skip


def model_of(node, samples=True):
    inputs = [f"double[{','.join(map(str, a.shape))}] {name}" for name, a in FEEDS.items()]
    if samples:
        inputs = [text.replace("double[2,2,5,5]", "double[N,2,5,5]") for text in inputs]
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({", ".join(inputs)}, bool[3,4] b) => (double loss)
        {{ y = {node}  s = Sin(y)  t = Mul(s, y)  loss = ReduceSum<keepdims = 0>(t) }}""")
    for name, array in INTEGERS.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model, {**FEEDS, "b": random.integers(0, 2, (3, 4)).astype(bool)}


@pytest.mark.filterwarnings("ignore::pyopnb.onnx_reference.filling.Filled")
@pytest.mark.parametrize("node", NODES)
def test_each_gradient_is_right(node):
    model, feeds = model_of(node, samples="Pool" not in node)
    arguments = node.partition("(")[2].strip(")").split(", ")
    names = [name for name in arguments if name in feeds and feeds[name].dtype == np.float64]
    assert_gradients(model, feeds, names, tolerance=1e-7, step=5e-4, fill=True)


@pytest.mark.parametrize(
    "node",
    ["ReduceProd(x)", "LpPool<kernel_shape = [2, 2]>(i)", "Pad(x, cut)", "ReduceSum(x, none)"],
)  # fmt: skip
def test_what_onnx_ad_gets_wrong_is_refused(node):
    model, _ = model_of(node)
    for name, values in (("cut", [-1, 0, 0, 1]), ("none", [])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    with pytest.raises(
        ModelError, match=rf"\(::{node.partition('(')[0].partition('<')[0]}\), gradient"
    ):
        grad(model, "i" if "(i)" in node else "x")

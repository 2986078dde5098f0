"""Nets with ops in them, of an old opset and the newest: their gradients in float64, against differences of the eighth order."""

from functools import partial

import numpy as np
import onnx
import pytest
from precise_differences import differences
from small_gradients import SCALE, USER_RELU

import pyopnb
from pyopnb.models.ort_capabilities import newest_opset

# The tests judge the gradients themselves; what `grad` compares is the subject of test_verify.
grad = partial(pyopnb.grad, verify=False)

OPSETS = [17, newest_opset()]
LOSS = "square = Mul(y, y)  loss = ReduceMean<keepdims = 0>(square)"

PERCEPTRON = (
    """(double[N,4] x, double[4,5] v, double[5] b, double[5] g, double[5] s, double[5,2] w) => (double loss)""",
    """{ a = Gemm(x, v, b)  r = demo.UserRelu<slope = 0.2>(a)  n = LayerNormalization(r, g, s)
         m = demo.Scale(n, g)  y = MatMul(m, w) """,
    {"x": (3, 4), "v": (4, 5), "b": (5,), "g": (5,), "s": (5,), "w": (5, 2)},
)
ATTENTION = (
    """(double[2,3,4] x, double[4] g, double[4] s, double[4,12] mix, double[4,4] out) => (double loss)""",
    """{ n = LayerNormalization(x, g, s)  m = MatMul(n, mix)
         heads = Constant<value_ints = [2, 3, 3, 2, 2]>()  h = Reshape(m, heads)  t = Transpose<perm = [2, 0, 3, 1, 4]>(h)
         zero = Constant<value_int = 0>()  one = Constant<value_int = 1>()  two = Constant<value_int = 2>()
         q = Gather(t, zero)  k = Gather(t, one)  v = Gather(t, two)
         kt = Transpose<perm = [0, 1, 3, 2]>(k)  scores = MatMul(q, kt)  weights = Softmax<axis = -1>(scores)
         mixed = MatMul(weights, v)  back = Transpose<perm = [0, 2, 1, 3]>(mixed)
         flat = Constant<value_ints = [2, 3, 4]>()  f = Reshape(back, flat)  o = MatMul(f, out)
         r = demo.UserRelu<slope = 0.2>(o)  y = Add(x, r) """,
    {"x": (2, 3, 4), "g": (4,), "s": (4,), "mix": (4, 12), "out": (4, 4)},
)
CONVOLUTION = (
    """(double[2,1,6,6] x, double[2,1,3,3] k, double[2] c, double[4,2] w) => (double loss)""",
    """{ a = Conv<pads = [1, 1, 1, 1]>(x, k, c)
         p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)  m = AveragePool<kernel_shape = [2, 2]>(p)
         r = demo.UserRelu<slope = 0.2>(m)  rows = Constant<value_ints = [4, -1]>()  f = Reshape(r, rows)  t = Transpose<perm = [1, 0]>(f)  y = MatMul(t, w) """,
    {"x": (2, 1, 6, 6), "k": (2, 1, 3, 3), "c": (2,), "w": (4, 2)},
)
NETS = {"perceptron": PERCEPTRON, "attention": ATTENTION, "convolution": CONVOLUTION}


@pytest.mark.filterwarnings("ignore::pyopnb.onnx_reference.fill.Filled")
@pytest.mark.parametrize("net", NETS)
def test_gradients_in_float64(define, net):
    define(USER_RELU + SCALE)
    head, body, shapes = NETS[net]
    rng = np.random.default_rng(7)
    feeds = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    fill = net == "convolution"  # the runtime has it in float32 alone
    models = [
        pyopnb.parse(f'<opset_import: ["" : {opset}, "demo" : 1]> {head} {body} {LOSS} }}')
        for opset in OPSETS
    ]
    session = pyopnb.Session(models[0], fill=fill)  # they all compute the same

    def loss(name, value):
        return session.run(["loss"], {**feeds, name: value})[0]

    expected = {
        name: differences(partial(loss, name), value, step=5e-4) for name, value in feeds.items()
    }
    for opset, model in zip(OPSETS, models, strict=True):
        onnx.checker.check_model(model)
        result = pyopnb.Session(grad(model, list(feeds)), fill=fill)(feeds)
        for name, want in expected.items():
            apart = np.abs(result[f"grad_{name}"] - want).max()
            assert apart <= 1e-9 * np.abs(want).max(), (opset, name, apart)

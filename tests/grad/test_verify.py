"""`grad` compares its gradients with differences of the loss before it returns them."""

import warnings
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx_ad.rules import REVERSE

import pyopnb
from pyopnb.errors import InputError, ModelError

NET = """
    (float[N,4] x, float[4,3] w) => (float loss) {
        z = MatMul(x, w)
        a = Softplus(z)
        loss = ReduceSum<keepdims = 0>(a)
    }"""


def note(model):
    return {entry.key: entry.value for entry in model.metadata_props}["pyopnb.gradients"]


def test_what_was_compared_is_told():
    model = pyopnb.parse(NET)
    assert note(pyopnb.grad(model, ["x", "w"])).startswith("verified along ")
    assert note(pyopnb.grad(model, "x", verify=False)) == "not verified: verify=False"


@pytest.mark.parametrize("wrong", ["double", "drop rows", "nan"])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_wrong_rule_is_refused_and_the_input_named(monkeypatch, wrong, dtype):
    rule = REVERSE["Softplus"]

    def spoilt(ctx, node, grads):
        (grad,) = rule(ctx, node, grads)
        if wrong == "double":
            return [ctx.b.op("Add", [grad, grad])]
        kind = ctx.dtype(node.output[0])
        rows = ctx.constant([[[1.0], [0.0], [1.0]]], kind)
        if wrong == "nan":
            rows = ctx.constant([[[1.0], [np.nan], [1.0]]], kind)
        return [ctx.b.op("Mul", [grad, rows])]

    monkeypatch.setitem(REVERSE, "Softplus", spoilt)
    model = pyopnb.parse(NET.replace("float", dtype))
    with pytest.raises(
        ModelError,
        match=r"gradient in '[xw]': expected .* by differences of the loss, got",
    ):
        pyopnb.grad(model, ["x", "w"])
    pyopnb.grad(model, ["x", "w"], verify=False)


def test_an_op_whose_backward_means_to_differ(define):
    define("""
        @pyopnb.pyop("demo::Steps")
        class Steps:
            def compute(self, x: "float32[N]") -> "float32[N]": return np.round(x)
            def backward(self, inputs, outputs, grads): return grads[0]
        """)
    model = pyopnb.parse(
        "(float[N] x) => (float loss) { y = demo.Steps(x)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    with pytest.raises(ModelError, match="verify=False"):
        pyopnb.grad(model, "x")
    derived = pyopnb.grad(model, "x", verify=False)
    assert pyopnb.run(derived, x=[1.2, 3.4])["grad_x"].tolist() == [1, 1]


def test_the_users_example_is_compared_where_nothing_drawn_is_taken(define):
    define("""
        @pyopnb.pyop("demo::Picky")
        class Picky:
            def compute(self, x: "float32[N]", key: "int64[1]") -> "float32[N]":
                if key[0] != 77: raise ValueError("another key")
                return x * x
            def backward(self, inputs, outputs, grads): return 3 * inputs[0] * grads[0], None
        """)
    model = pyopnb.parse(
        "(float[N] x, int64[1] key) => (float loss) { y = demo.Picky(x, key)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    with pytest.warns(UserWarning, match="takes none of the inputs that were drawn"):
        assert note(pyopnb.grad(model, "x")).startswith("not verified")
    feeds = {"x": np.float32([1, 2]), "key": [77]}
    with pytest.raises(ModelError, match="gradient in 'x'"):
        pyopnb.grad(model, "x", feeds=feeds)
    with pytest.raises(InputError, match="key"):
        pyopnb.grad(model, "x", feeds={"x": feeds["x"]})


def test_a_gradient_that_is_wrong_for_one_sign_only(define):
    """Values of order one alone, or of one sign, would not tell."""
    define("""
        @pyopnb.pyop("demo::Half")
        class Half:
            def compute(self, x: "float32[N]") -> "float32[N]": return np.where(x < -10, 3 * x + 20, x)
            def backward(self, inputs, outputs, grads): return grads[0]
        """)
    model = pyopnb.parse(
        "(float[N] x) => (float loss) { y = demo.Half(x)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    with pytest.raises(ModelError, match="of order one times 10"):
        pyopnb.grad(model, "x", feeds={"x": np.linspace(-2, 2, 40, dtype=np.float32)})


def test_a_loss_that_is_drawn_is_not_called_verified(define):
    define("""
        @pyopnb.pyop("demo::Noise")
        class Noise:
            def compute(self, x: "float32[N]") -> "float32[N]": return x + np.random.default_rng().normal(size=x.shape).astype(x.dtype)
            def backward(self, inputs, outputs, grads): return grads[0]
        """)
    model = pyopnb.parse(
        "(float[N] x) => (float loss) { y = demo.Noise(x)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    with pytest.warns(UserWarning, match="another one each time"):
        pyopnb.grad(model, "x")


@pytest.mark.parametrize("seed", range(2))
def test_right_gradients_of_deep_nets_with_kinks_are_not_refused(seed):
    random = np.random.default_rng(seed)
    sizes = [12, 64, 64, 32, 1]
    shapes = [f"float[{a},{b}] w{n}" for n, (a, b) in enumerate(pairwise(sizes))]
    lines = [
        f"z{n} = MatMul({'x' if n == 0 else f'r{n - 1}'}, w{n})  r{n} = Relu(z{n})"
        for n in range(len(shapes))
    ]
    text = f"(float[N,12] x, {', '.join(shapes)}) => (float loss) {{ {'  '.join(lines)}  loss = ReduceSum<keepdims = 0>(z3) }}"
    feeds = {"x": random.normal(size=(32, 12)).astype(np.float32)}
    for n, (a, b) in enumerate(pairwise(sizes)):
        feeds[f"w{n}"] = (random.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        derived = pyopnb.grad(pyopnb.parse(text), ["x", "w0", "w1", "w2", "w3"], feeds=feeds)
    assert note(derived).startswith("verified")
    onnx.checker.check_model(derived)


@pytest.mark.parametrize("shape", ["3,3,3", "2,2,7"])
def test_kinks_that_make_up_for_each_other_are_no_wrong_gradient(shape):
    # Half of the values that are drawn lie on one of these bounds.
    model = pyopnb.parse(
        f"""(float[{shape}] x) => (float loss) {{ low = Constant<value_float = 0.5>()  high = Constant<value_float = 1.0>()
            c = Clip(x, low, high)  loss = ReduceSum<keepdims = 0>(c) }}"""
    )
    pyopnb.grad(model, "x")


@pytest.mark.parametrize("op", ["Erf", "Gelu"])
def test_kernels_that_compute_float64_in_float32_are_no_wrong_gradient(op):
    text = f"(double[N,3] x) => (double loss) {{ y = {op}(x)  z = Mul(y, y)  loss = ReduceSum<keepdims = 0>(z) }}"
    assert note(pyopnb.grad(pyopnb.parse(text), "x")).startswith("verified")

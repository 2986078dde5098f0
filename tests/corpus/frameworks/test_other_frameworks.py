"""The page on other tools: its code for JAX and TensorFlow, which are too large for the lanes of `make test`."""

import how_to
import numpy as np
import pytest

import pyopnb

PAGE = "other_frameworks"
X = np.float32([[-4, -1, 2, 3]])
# Both frameworks warn of their own future.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_jax2onnx(tmp_path):
    names = how_to.run(PAGE, ["", "jax2onnx"], tmp_path)
    to_onnx, expected = names["to_onnx"], 2 * np.tanh(X @ X.T / 2) + 1
    np.testing.assert_allclose(names["from_jax"], expected, rtol=1e-5)
    np.testing.assert_allclose(names["jax"].jit(names["distances"])(X), expected, rtol=1e-5)
    nodes = [
        (node.domain, node.op_type) for node in to_onnx(names["distances"], [("N", 4)]).graph.node
    ]
    assert ("demo", "SoftClip") in nodes
    in_ir = pyopnb.Session(to_onnx(names["distances"], [("N", 4)], return_mode="ir"))
    np.testing.assert_allclose(in_ir.run(None, {"in_0": X})[0], expected, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="pure_callback"):
        to_onnx(names["call"], [("N", 4)])


def test_tf2onnx(tmp_path):
    names = how_to.run(PAGE, ["", "tf2onnx"], tmp_path)
    np.testing.assert_allclose(names["from_tf"], names["i0e"](X) + np.maximum(X, 0), rtol=1e-5)
    assert [row.op for row in pyopnb.missing(names["incomplete"])] == ["::BesselI0e"]


def test_a_function_of_numpy_in_tensorflow(tmp_path):
    import tensorflow as tf
    import tf2onnx

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def doubled_sine(x):
        return tf.numpy_function(np.sin, [x], tf.float32) * 2

    @pyopnb.pyop("demo::Sine")
    class Sine:
        def __init__(self, **attrs):
            pass

        def compute(self, x):
            return np.sin(x)

    incomplete, _ = tf2onnx.convert.from_function(
        doubled_sine, input_signature=doubled_sine.input_signature, opset=18
    )
    model = pyopnb.replace(incomplete, "PyFunc", "demo::Sine")
    np.testing.assert_allclose(pyopnb.run(model, x=X)[0], 2 * np.sin(X), rtol=1e-6)

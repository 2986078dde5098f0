"""Models that onnxscript and spox write."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxscript
import spox
import spox.opset.ai.onnx.v17 as spox_op
from entries import entry
from onnx import ModelProto
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op

Made = tuple[ModelProto, dict[str, Any]]

_X = np.random.default_rng(3).standard_normal((3, 4), np.float32)
_OWN = onnxscript.values.Opset("corpus", 1)


@script(_OWN, default_opset=op)
def _scaled(x, by: float = 2.0):
    return op.Mul(x, op.Constant(value_float=by))


@script(_OWN, default_opset=op)
def _bent(x):
    return op.Selu(op.Add(_scaled(x, by=0.5), x))


@script(default_opset=op)
def _with_functions(x: FLOAT["N", 4]) -> FLOAT["N", 4]:
    return op.Softmax(_bent(x), axis=-1)


@script(default_opset=op)
def _with_branches(x: FLOAT["N", 4]) -> FLOAT["N", 4]:
    total = op.ReduceSum(x, keepdims=0)
    if total > op.Constant(value_float=0.0):
        y = op.Mul(x, op.Constant(value_float=3.0))
    else:
        y = op.Neg(x)
    return y


@script(default_opset=op)
def _with_loop(x: FLOAT["N", 4], n: INT64) -> FLOAT["N", 4]:
    y = op.Identity(x)
    for _ in range(n):
        y = op.Add(op.Mul(y, op.Constant(value_float=0.5)), op.Constant(value_float=1.0))
    return y


@script(default_opset=op)
def _with_strides(x: FLOAT["N", 4]) -> FLOAT["N", 4]:
    return op.CastLike(op.Clip(op.Round(op.Mul(x, op.Constant(value_float=10.0))), -8.0, 8.0), x)


@entry("onnxscript functions")
def _functions() -> Made:
    return _with_functions.to_model_proto(), {"x": _X}


@entry("onnxscript branches")
def _branches() -> Made:
    return _with_branches.to_model_proto(), {"x": _X}


@entry("onnxscript loop")
def _loop() -> Made:
    return _with_loop.to_model_proto(), {"x": _X, "n": np.array(3)}


@entry("onnxscript rounding")
def _rounding() -> Made:
    return _with_strides.to_model_proto(), {"x": _X}


def _built(outputs: dict[str, spox.Var], **inputs: spox.Var) -> ModelProto:
    return spox.build(inputs, outputs)


def _argument(dtype: Any = np.float32, shape: Any = ("N", 4)) -> spox.Var:
    return spox.argument(spox.Tensor(dtype, shape))


@entry("spox linear")
def _spox_linear() -> Made:
    x = _argument()
    weight = spox_op.constant(value=np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    y = spox_op.relu(
        spox_op.add(
            spox_op.matmul(x, weight), spox_op.constant(value=np.float32([0.5, -0.5, 0.25]))
        )
    )
    return _built({"y": y}, x=x), {"x": _X}


@entry("spox if")
def _spox_if() -> Made:
    x = _argument()
    positive = spox_op.greater(
        spox_op.reduce_sum(x, keepdims=False), spox_op.constant(value_float=0.0)
    )
    (y,) = spox_op.if_(
        positive, then_branch=lambda: [spox_op.exp(x)], else_branch=lambda: [spox_op.abs(x)]
    )
    return _built({"y": spox_op.mul(y, spox_op.constant(value=np.float32(0.5)))}, x=x), {"x": _X}


@entry("spox loop")
def _spox_loop() -> Made:
    x = _argument()
    half = spox_op.constant(value=np.float32(0.5))
    (y,) = spox_op.loop(
        spox_op.const(4),
        v_initial=[x],
        body=lambda i, going, value: [
            spox_op.const(True),
            spox_op.add(spox_op.mul(value, half), half),
        ],
    )
    return _built({"y": y}, x=x), {"x": _X}


@entry("spox statistics")
def _spox_statistics() -> Made:
    x = _argument()
    mean = spox_op.reduce_mean(x, axes=[-1])
    centered = spox_op.sub(x, mean)
    variance = spox_op.reduce_mean(spox_op.mul(centered, centered), axes=[-1])
    normal = spox_op.div(
        centered, spox_op.sqrt(spox_op.add(variance, spox_op.constant(value=np.float32(1e-5))))
    )
    values, places = spox_op.top_k(normal, spox_op.const(np.array([2])))
    return _built({"values": values, "places": places}, x=x), {"x": _X}


@entry("spox gather")
def _spox_gather() -> Made:
    x, places = _argument(), _argument(np.int64, ("M",))
    table = spox_op.mul(x, spox_op.constant(value=np.float32([1, 2, 3, 4])))
    return _built({"y": spox_op.gather(table, places, axis=0)}, x=x, places=places), {
        "x": _X,
        "places": np.int64([2, 0]),
    }

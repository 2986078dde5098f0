"""Small models, and the quantized ones that onnxruntime makes of them in each of its forms."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.capi._pybind_state import quantize_matmul_4bits

import pyopnb

FORMS = ("QDQ", "QOperator", "dynamic", "4 bits")
STATIC = FORMS[:2]

NET = """<ir_version: 9, opset_import: ["": 20]> net (float[N,3,8,8] x) => (float[N,5] y) {
    c0 = Conv<pads = [1,1,1,1]>(x, w0, b0)
    r0 = Relu(c0)
    c1 = Conv<pads = [1,1,1,1]>(r0, w1, b1)
    s = Add(c1, r0)
    r1 = Relu(s)
    m = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r1)
    g = GlobalAveragePool(m)
    f = Flatten(g)
    p = MatMul(f, w2)
    l = Add(p, b2)
    y = Softmax(l)
}"""
WEIGHTS = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 5), "b2": (5,)}
LAYERS = """<ir_version: 9, opset_import: ["": 20]> layers (float[N,48] x) => (float[N,16] y) {
    m0 = MatMul(x, w0)
    a0 = Add(m0, b0)
    r0 = Relu(a0)
    m1 = MatMul(r0, w1)
    a1 = Add(m1, b1)
    y = Sigmoid(a1)
}"""
LAYER_WEIGHTS = {"w0": (48, 32), "b0": (32,), "w1": (32, 16), "b1": (16,)}


def model_of(text: str, shapes: dict[str, tuple[int, ...]]) -> ModelProto:
    rng = np.random.default_rng(0)
    inputs, _, rest = text.partition(")")
    declared = [f"float[{','.join(map(str, shape))}] {name}" for name, shape in shapes.items()]
    model = pyopnb.parse(f"{', '.join([inputs, *declared])}){rest}")
    for name, shape in shapes.items():
        array = (rng.normal(size=shape) * 0.3).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    del model.graph.input[1:]
    for node in model.graph.node:
        node.name = f"node {node.output[0]}"
    return model


def float_model(form: str) -> ModelProto:
    return model_of(NET, WEIGHTS) if form in STATIC else model_of(LAYERS, LAYER_WEIGHTS)


def sample(form: str, seed: int = 1) -> np.ndarray:
    shape = (2, 3, 8, 8) if form in STATIC else (4, 48)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Samples(quantization.CalibrationDataReader):
    def __init__(self, *samples: np.ndarray, name: str = "x") -> None:
        self.samples, self.name = iter(samples), name

    def get_next(self) -> dict[str, np.ndarray] | None:
        x = next(self.samples, None)
        return None if x is None else {self.name: x}


def quantized(
    model: ModelProto,
    form: str,
    folder: Path,
    samples: Sequence[np.ndarray] = tuple(sample("QDQ", seed) for seed in range(6)),
    **options: Any,
) -> ModelProto:
    logging.getLogger().setLevel(logging.ERROR)
    before, after = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, before)
    if form in STATIC:
        calibration = Samples(*samples)
        format_ = getattr(quantization.QuantFormat, form)
        quantization.quantize_static(before, after, calibration, quant_format=format_, **options)
    elif form == "dynamic":
        quantization.quantize_dynamic(before, after, **options)
    else:
        onnx.save(in_four_bits(model), after)
    return onnx.load(after)


def in_four_bits(model: ModelProto, block: int = 16) -> ModelProto:
    """As MatMulNBitsQuantizer does, which needs a package that is not installed here."""
    model = ModelProto.FromString(model.SerializeToString())
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        name = node.input[1] if len(node.input) > 1 else ""
        if node.op_type != "MatMul" or name not in weights:
            continue
        rows, columns = weights[name].shape
        blocks = -(-rows // block)
        packed = np.zeros((columns, blocks, block // 2), np.uint8)
        scales = np.zeros(columns * blocks, np.float32)
        zeros = np.zeros(columns * ((blocks + 1) // 2), np.uint8)
        quantize_matmul_4bits(packed, weights[name], scales, zeros, block, columns, rows, False)
        for part, array in (("Q4", packed), ("scales", scales), ("zeros", zeros)):
            model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_{part}"))
        kept = [tensor for tensor in model.graph.initializer if tensor.name != name]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.input[1:] = [f"{name}_Q4", f"{name}_scales", f"{name}_zeros"]
        sizes = {"K": rows, "N": columns, "bits": 4, "block_size": block}
        node.attribute.extend(helper.make_attribute(key, size) for key, size in sizes.items())
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def scaled(model: ModelProto, name: str, factor: float) -> ModelProto:
    """A copy with another scale."""
    model = ModelProto.FromString(model.SerializeToString())
    for tensor in model.graph.initializer:
        if tensor.name == name:
            array = np.asarray(numpy_helper.to_array(tensor) * factor, np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    return model

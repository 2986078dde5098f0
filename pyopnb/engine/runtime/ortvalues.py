"""OrtValues, for dtypes and values that onnxruntime cannot exchange as arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from pyopnb.engine.ops.argument_checks import describe, is_text
from pyopnb.engine.ops.dtypes import DType, dtype
from pyopnb.engine.ops.types import TensorType
from pyopnb.errors import InputError

__all__ = [
    "RUNTIME_NAMES",
    "as_ortvalues",
    "checked_ortvalues",
    "from_ortvalue",
    "initializer_to_ortvalue",
    "needs_ml_dtypes",
    "to_ortvalue",
]

RUNTIME_NAMES = {"float": "float32", "double": "float64"}
"""The ONNX Runtime names of element types that NumPy names differently."""


def needs_ml_dtypes(kind: TensorType | None) -> bool:
    """Tell whether arrays of a type have a dtype of ml_dtypes, which onnxruntime does not take."""
    return kind is not None and kind.dtype is not None and kind.dtype.numpy.isbuiltin == 2


def checked_ortvalues(feeds: Any) -> dict[str, onnxruntime.OrtValue]:
    """Refuse feeds of ``run_with_ort_values`` other than a dict of OrtValues."""
    wrong = feeds
    if isinstance(feeds, Mapping):
        if all(isinstance(v, onnxruntime.OrtValue) and is_text(k) for k, v in feeds.items()):
            return dict(feeds)
        # Where all values are right, a name is not, and the message shows the dict.
        values = feeds.values()
        wrong = next((v for v in values if not isinstance(v, onnxruntime.OrtValue)), feeds)
    raise InputError(
        "run_with_ort_values, feeds",
        expected="a dict of name to OrtValue",
        got=describe(wrong),
        next='{"x": onnxruntime.OrtValue.ortvalue_from_numpy(x)}',
    )


def to_ortvalue(array: np.ndarray, kind: DType) -> onnxruntime.OrtValue:
    """Make an OrtValue of a dtype that only ml_dtypes has; pack 4- and 2-bit elements."""
    # NumPy makes an axis of one element of a contiguous scalar; the shape takes it away again.
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), kind.onnx)
    packed = contiguous
    if kind.bits < 8:
        packed = _packed(contiguous.view(np.uint8).ravel(), kind.bits)
    if packed.nbytes:
        ctypes.memmove(value.data_ptr(), packed.ctypes.data, packed.nbytes)
    return value


def texts_to_ortvalue(array: np.ndarray) -> onnxruntime.OrtValue:
    """Make an OrtValue of strings by running a constant.

    onnxruntime cannot make one from an array.
    """
    texts = [str(item).encode(errors="surrogateescape") for item in array.ravel()]
    tensor = TensorProto(
        name="texts", data_type=TensorProto.STRING, dims=array.shape, string_data=texts
    )
    output = helper.make_tensor_value_info("texts", TensorProto.STRING, array.shape)
    graph = helper.make_graph([], "constant", [], [output], [tensor])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run_with_ort_values(["texts"], {})[0]


def as_ortvalues(feeds: Mapping[str, Any]) -> dict[str, onnxruntime.OrtValue]:
    """Make OrtValues of arrays, and keep values that are OrtValues already.

    Numbers in C order are not copied.
    """
    values = {}
    for name, value in feeds.items():
        if not isinstance(value, np.ndarray):
            values[name] = value
        elif value.dtype.kind in "OUT":
            values[name] = texts_to_ortvalue(value)
        else:
            values[name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))
    return values


def initializer_to_ortvalue(tensor: TensorProto) -> onnxruntime.OrtValue:
    """Make an OrtValue over the memory of an array, which it keeps alive."""
    array = numpy_helper.to_array(tensor)
    if array.dtype.isbuiltin != 2:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    # onnxruntime takes an array of ml_dtypes as integers of the same size, with the
    # element type beside.
    integers = "uint8"
    if array.itemsize == 2:
        integers = "uint16"
    raw = array.view(integers)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, tensor.data_type)


def from_ortvalue(value: Any, kind: DType | None) -> Any:
    """Copy an OrtValue to an array, a sequence to a list, and an empty optional to None."""
    if not value.has_value():
        return None
    if value.is_tensor_sequence():
        return _items(value)
    if kind is None or kind.numpy.isbuiltin != 2:
        if value.is_tensor():
            return value.numpy()
        return value
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(-(-count * kind.bits // 8), np.uint8)
    if raw.nbytes:
        ctypes.memmove(raw.ctypes.data, value.data_ptr(), raw.nbytes)
    # Four or two elements share a byte, where ml_dtypes has one for each.
    if kind.bits < 8:
        raw = _unpacked(raw, count, kind.bits)
    return raw.view(kind.numpy).reshape(shape)


def _items(sequence: Any) -> list[np.ndarray]:
    """Read a sequence's arrays by running a model on it: onnxruntime has no other way."""
    element = sequence.data_type().removeprefix("seq(tensor(").removesuffix("))")
    # The dtypes of the ONNX sequences are all NumPy's own.
    number = dtype(RUNTIME_NAMES.get(element, element)).onnx
    inputs = [helper.make_tensor_sequence_value_info("s", number, None)]
    outputs = [helper.make_tensor_sequence_value_info("y", number, None)]
    identity = helper.make_node("Identity", ["s"], ["y"])
    graph = helper.make_graph([identity], "items", inputs, outputs)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(["y"], {"s": sequence})[0])


def _packed(each: np.ndarray, bits: int) -> np.ndarray:
    a_byte = 8 // bits
    # The first element of a byte is in its lowest bits; the last byte is filled up with zeros.
    padded = np.zeros(-(-each.size // a_byte) * a_byte, np.uint8)
    padded[: each.size] = each & ((1 << bits) - 1)
    shifts = np.arange(a_byte, dtype=np.uint8) * bits
    return np.asarray(np.bitwise_or.reduce(padded.reshape(-1, a_byte) << shifts, axis=1), np.uint8)


def _unpacked(raw: np.ndarray, count: int, bits: int) -> np.ndarray:
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    return np.ascontiguousarray(((raw[:, None] >> shifts) & ((1 << bits) - 1)).ravel()[:count])

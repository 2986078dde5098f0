"""Fields of a tensor in which its values can be: raw bytes, or numbers in a list of their type."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from pyopnb.models.external_data import is_external
from pyopnb.ops.dtypes import DTYPES

__all__ = ["has_numbers", "store_raw", "store_typed"]

_DATA = ("int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")
_TYPED = {"float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
          "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data"}  # fmt: skip


def has_numbers(tensor: TensorProto) -> bool:
    """Whether the values of a tensor are numbers that are in the model."""
    return not is_external(tensor) and any(row.onnx == tensor.data_type and row.bits for row in DTYPES)


def store_raw(tensor: TensorProto) -> None:
    """Put the values of a tensor of numbers into ``raw_data``. It is changed."""
    if has_numbers(tensor) and not tensor.HasField("raw_data"):
        try:
            data = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        except ValueError:  # too many or too few, which is told where everything is checked
            return
        for name in _DATA:
            tensor.ClearField(name)
        tensor.raw_data = data


def store_typed(tensor: TensorProto) -> None:
    """Put the values of a tensor of numbers into the field of their type. It is changed."""
    if not has_numbers(tensor) or not tensor.HasField("raw_data"):
        return
    row = next(row for row in DTYPES if row.onnx == tensor.data_type)
    if row.numpy.isbuiltin == 1 and row.name != "float16":
        values = np.frombuffer(tensor.raw_data, row.numpy)
        parts = {"b": np.uint8, "c": np.float32 if row.name == "complex64" else np.float64}
        values = values.view(parts.get(row.numpy.kind, row.numpy))
    else:  # as the integers that their bits are
        values = np.frombuffer(tensor.raw_data, np.uint16 if row.bits == 16 else np.uint8)
    tensor.ClearField("raw_data")
    getattr(tensor, _TYPED.get(row.name, "int32_data")).extend(values.tolist())

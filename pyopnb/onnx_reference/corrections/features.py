"""Operators of ai.onnx.ml that prepare features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["feature_vectorizer", "label_encoder", "label_encoder_1", "normalizer", "scaler"]


def normalizer(x: np.ndarray, *, norm: str) -> np.ndarray:
    """Divide each row by its maximum, its sum of absolute values, or its length."""
    values = x.astype(np.float32)
    if norm == "MAX":
        divisor = values.max(axis=-1, keepdims=True)
    elif norm == "L1":
        divisor = np.abs(values).sum(axis=-1, keepdims=True)
    else:
        divisor = np.sqrt(np.square(values).sum(axis=-1, keepdims=True))
    return np.where(divisor == 0, values, values / divisor)


def scaler(x: np.ndarray, *, offset: Sequence[float], scale: Sequence[float]) -> np.ndarray:
    """Subtract the offset and multiply by the scale."""
    factors = np.array(scale, np.float32)
    return (x.astype(np.float32) - np.array(offset, np.float32)) * factors


def feature_vectorizer(*inputs: np.ndarray, inputdimensions: Sequence[int]) -> np.ndarray:
    """Join the inputs, each cut or filled with zeros to its number of columns."""
    parts = []
    for x, columns in zip(inputs, inputdimensions, strict=True):
        rows = x.reshape(len(x), -1) if x.ndim > 1 else x.reshape(1, -1)
        part = np.zeros((len(rows), columns), np.float32)
        count = min(columns, rows.shape[1])
        part[:, :count] = rows[:, :count]
        parts.append(part)
    return np.concatenate(parts, axis=1)


def label_encoder_1(
    x: np.ndarray,
    *,
    classes_strings: Sequence[str],
    default_string: str,
    default_int64: int,
) -> np.ndarray:
    """Replace texts by their places among the classes, or places by the texts."""
    if x.dtype.kind in "iu":
        return _mapped(x, dict(enumerate(classes_strings)), default_string, object)
    places = {text: place for place, text in enumerate(classes_strings)}
    return _mapped(x, places, default_int64, np.int64)


def label_encoder(x: np.ndarray, **attrs: Any) -> np.ndarray:
    """Replace keys by values; a NaN among the keys matches every NaN."""
    keys = _list(next(attrs[name] for name in attrs if name.startswith("keys_")))
    name = next(name for name in attrs if name.startswith("values_"))
    kind = name.removeprefix("values_").removesuffix("s")
    dtype: Any = {"string": object, "int64": np.int64, "float": np.float32}.get(kind)
    default = attrs.get(f"default_{kind}")
    if dtype is None:
        dtype = _array(attrs[name]).dtype
        default = _default(attrs.get("default_tensor"), dtype)
    pairs: dict[Any, Any] = {}
    for key, value in zip(keys, _list(attrs[name]), strict=True):
        pairs["NaN" if key != key else key] = value
    return _mapped(x, pairs, default, dtype)


def _default(tensor: Any, dtype: np.dtype) -> Any:
    if tensor is not None:
        return _list(tensor)[0]
    return {"O": "_Unused", "f": -0.0}.get(dtype.kind, -1)


def _array(tensor: Any) -> np.ndarray:
    from onnx import numpy_helper

    array: np.ndarray = numpy_helper.to_array(tensor)
    return array


def _list(values: Any) -> list[Any]:
    """Return the items of an attr that is a list or a tensor."""
    if isinstance(values, list):
        return values
    return [item.decode() if isinstance(item, bytes) else item for item in _array(values).tolist()]


def _mapped(x: np.ndarray, pairs: dict[Any, Any], default: Any, dtype: Any) -> np.ndarray:
    found = np.empty(x.size, dtype)
    for place, item in enumerate(x.ravel().tolist()):
        found[place] = pairs.get("NaN" if item != item else item, default)
    return found.reshape(x.shape)

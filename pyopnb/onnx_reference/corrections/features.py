"""Operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["label_encoder_1", "normalizer"]


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


def label_encoder_1(
    x: np.ndarray,
    *,
    classes_strings: Sequence[str],
    default_string: str,
    default_int64: int,
) -> np.ndarray:
    """Replace texts by their places among the classes, or places by the texts."""
    pairs: dict[Any, Any] = dict(enumerate(classes_strings))
    default: Any = default_string
    dtype: Any = object
    if x.dtype == object:
        pairs = {text: place for place, text in pairs.items()}
        default, dtype = default_int64, np.int64
    values = [pairs.get(item, default) for item in x.ravel().tolist()]
    return np.array(values, dtype).reshape(x.shape)

"""What a function returned, in the dtypes that were declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.errors import InputError, ResultError
from pyopnb.ops.dtypes import DType, dtype
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.types import TensorType

__all__ = ["converted"]


def converted(returned: Any, outputs: Sequence[int], where: str) -> Any:
    """Convert numbers to the declared dtypes as onnxruntime-extensions does, where their values stay.

    Parameters
    ----------
    returned : array, or tuple of arrays
    outputs : sequence of int
        Numbers of ``onnx.TensorProto``; 0 for any.
    where : str
        The op, for errors.

    Returns
    -------
    array, or tuple of arrays

    Raises
    ------
    ResultError
        It is what onnxruntime-extensions would spoil, or end the process for: another number of arrays, or another dtype than
        declared, with values that it does not have.
    """
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(outputs):
        expected = (
            "one array" if len(outputs) == 1 else f"a tuple of {plural(len(outputs), 'array')}"
        )
        got = (
            f"a tuple of {len(returned)}"
            if isinstance(returned, tuple)
            else f"one {type(returned).__name__}"
        )
        next_ = "return a, b: as many as outputs= declares"
        raise ResultError(f"{where}, outputs", expected=expected, got=got, next=next_)
    return tuple(
        _converted(value, outputs[n], f"{where}, output {n}") for n, value in enumerate(values)
    )


def _converted(value: Any, number: int, where: str) -> Any:
    if not number:
        return value
    want = dtype(number)
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if want.name == "string":
        return _texts(array) if array.dtype.kind in "SO" else array
    if array.dtype == want.numpy:
        return array
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            cast = array.astype(want.numpy)
            if _keeps(array, cast, want):
                return cast
    got = (
        _named(array)
        if isinstance(value, (np.ndarray, np.generic))
        else f"{type(value).__name__} {sanitize(repr(value), 60)}"
    )
    reason = ", whose values it does not have" if array.dtype.kind in "biuf" else ""
    next_ = f"declare another dtype in outputs=, or return numbers that {want.name} has"
    raise ResultError(where, expected=str(TensorType(want, None)), got=f"{got}{reason}", next=next_)


def _named(array: np.ndarray) -> str:
    try:
        return str(TensorType(dtype(array.dtype), array.shape))
    except InputError:
        return f"an array of {array.dtype}"


def _keeps(value: np.ndarray, cast: np.ndarray, want: DType) -> bool:
    """Tell whether a conversion lost nothing but digits of a float."""
    if "float" in want.name:
        return bool((np.isfinite(cast.astype(np.float64)) == np.isfinite(value)).all())
    if value.dtype.kind == "f":
        if want.numpy.kind == "b":
            return bool(((value == 0) | (value == 1)).all())
        limits = np.iinfo(
            want.numpy
        )  # of which float64 has the smallest exactly, and the largest plus one
        inside = (value >= float(limits.min)) & (value < float(limits.max) + 1)
        return bool((inside & (value == np.trunc(value))).all())
    return bool((cast.astype(value.dtype) == value).all() and ((cast < 0) == (value < 0)).all())


def _texts(value: np.ndarray) -> np.ndarray:
    """Bytes as text, where they are UTF-8."""
    try:
        texts = [one.decode() if isinstance(one, bytes) else one for one in value.flat]
    except UnicodeDecodeError:
        return value
    made = np.empty(value.shape, object)
    for place, text in enumerate(texts):
        made.flat[place] = text
    return made

"""Convert what a function returned to the dtypes that were declared."""

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
        It is what onnxruntime-extensions would spoil, or end the process for: another number of arrays,
        or another dtype than declared, with values that it does not have.
    """
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(outputs):
        got = f"one {type(returned).__name__}"
        if isinstance(returned, tuple):
            got = f"a tuple of {len(returned)}"
        expected = "one array"
        if len(outputs) != 1:
            expected = f"a tuple of {plural(len(outputs), 'array')}"
        raise ResultError(
            f"{where}, outputs",
            expected=expected,
            got=got,
            next="return a, b: as many as outputs= declares",
        )
    results = []
    for position, (value, number) in enumerate(zip(values, outputs, strict=True)):
        # Any dtype will do where none was declared.
        result = (
            _converted(value, dtype(number), f"{where}, output {position}") if number else value
        )
        results.append(result)
    return tuple(results)


def _converted(value: Any, want: DType, where: str) -> Any:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if want.name == "string":
        return _texts(array) if array.dtype.kind in "SO" else array
    if array.dtype == want.numpy:
        return array
    is_number = array.dtype.kind in "biuf"
    if is_number:
        with np.errstate(all="ignore"):
            cast = array.astype(want.numpy)
            if _keeps_values(array, cast, want):
                return cast
    got = _type_text(array)
    if not isinstance(value, (np.ndarray, np.generic)):
        got = f"{type(value).__name__} {sanitize(repr(value), 60)}"
    if is_number:
        got += ", whose values it does not have"
    suggestion = f"declare another dtype in outputs=, or return numbers that {want.name} has"
    raise ResultError(where, expected=str(TensorType(want, None)), got=got, next=suggestion)


def _type_text(array: np.ndarray) -> str:
    try:
        return str(TensorType(dtype(array.dtype), array.shape))
    except InputError:
        # ONNX has no such dtype.
        return f"an array of {array.dtype}"


def _keeps_values(array: np.ndarray, cast: np.ndarray, want: DType) -> bool:
    """Tell whether a conversion lost nothing but digits of a float."""
    if "float" in want.name:
        return bool((np.isfinite(cast.astype(np.float64)) == np.isfinite(array)).all())
    if array.dtype.kind != "f":
        same = cast.astype(array.dtype) == array
        return bool((same & ((cast < 0) == (array < 0))).all())
    if want.numpy.kind == "b":
        return bool(((array == 0) | (array == 1)).all())
    limits = np.iinfo(want.numpy)
    # float64 has the smallest integer exactly, and the largest plus one.
    in_range = (array >= float(limits.min)) & (array < float(limits.max) + 1)
    return bool((in_range & (array == np.trunc(array))).all())


def _texts(array: np.ndarray) -> np.ndarray:
    """Decode bytes, where all of them are UTF-8."""
    texts = np.empty(array.shape, object)
    for position, text in enumerate(array.flat):
        try:
            texts.flat[position] = text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError:
            return array
    return texts

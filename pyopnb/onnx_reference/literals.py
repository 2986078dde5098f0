"""Values and names from a model as Python source, in which its text never becomes code."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto

from pyopnb.ops.attr_kinds import annotation_of
from pyopnb.ops.names import fresh_name

__all__ = ["attr_hint", "identifier", "literal"]

_MOST_ITEMS = 64  # items of a list or tensor that are written out; longer ones come from the node


def identifier(text: str, otherwise: str, taken: set[str]) -> str:
    """Return the text, changed as little as needed to be a new identifier, and take it."""
    name = re.sub(r"\W", "_", text[:40], flags=re.ASCII).lstrip("_") or otherwise
    if name[0].isdigit():
        name = f"x{name}"
    name = fresh_name(name, {*keyword.kwlist, *taken})
    taken.add(name)
    return name


def attr_hint(kind: int, values: Sequence[Any]) -> str:
    """Return the annotation of an attr.

    Parameters
    ----------
    kind : int
        Of `AttributeProto.AttributeType`.
    values : sequence
        What its nodes have.

    Returns
    -------
    str
        Empty for a kind that no annotation has, or where one would not hold for all values.
    """
    hint = annotation_of(kind)
    # A string that is not UTF-8 arrives as bytes.
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if any(isinstance(item, bytes) for item in flat):
        hint = "" if any(isinstance(item, str) for item in flat) else hint.replace("str", "bytes")
    return hint


def literal(value: Any, kind: int) -> tuple[str, str]:
    """Return a value as Python source.

    Parameters
    ----------
    value : object
    kind : int
        Of `AttributeProto.AttributeType`.

    Returns
    -------
    tuple of (str, str)
        The source, empty where the value must come from the node, and a remark on it.
    """
    if isinstance(value, float):
        return _number(value), ""
    if isinstance(value, (int, str, bytes)):
        return (
            (repr(value), "")
            if not isinstance(value, (str, bytes)) or len(value) <= 1000
            else ("", f"{len(value)} long")
        )
    if isinstance(value, list) and kind in (
        AttributeProto.INTS,
        AttributeProto.FLOATS,
        AttributeProto.STRINGS,
    ):
        if len(value) <= _MOST_ITEMS and all(
            len(item) <= 200 for item in value if isinstance(item, (str, bytes))
        ):
            return (
                f"[{', '.join(_number(item) if isinstance(item, float) else repr(item) for item in value)}]",
                "",
            )
        return "", f"{len(value)} values"
    if isinstance(value, np.ndarray):
        return _array(value)
    return "", ""


def _number(value: float) -> str:
    return repr(value) if np.isfinite(value) else f"float({str(value)!r})"


def _array(value: np.ndarray) -> tuple[str, str]:
    builtin = value.dtype.kind in "biuf" and value.dtype.isbuiltin != 2
    if value.size > _MOST_ITEMS or not (builtin or value.dtype == object):
        return (
            "",
            f"an array of {value.dtype.name}, {'×'.join(map(str, value.shape)) or 'a scalar'}",
        )
    items = ", ".join(
        _number(item) if isinstance(item, float) else repr(item) for item in value.ravel().tolist()
    )
    if value.dtype == object and any(
        not isinstance(item, (str, bytes)) or len(item) > 200 for item in value.ravel().tolist()
    ):
        return "", "an array of strings"
    kind = (
        "object"
        if value.dtype == object
        else f"np.{'bool_' if value.dtype.kind == 'b' else value.dtype.name}"
    )
    shape = "" if value.ndim == 1 else f".reshape({value.shape!r})"
    return f"np.array([{items}], dtype={kind}){shape}", ""

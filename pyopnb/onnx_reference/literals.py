"""Values and names from a model as Python source, in which its text never becomes code."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.engine import attr_kinds, op_names

__all__ = ["attr_hint", "identifier", "literal"]

# Items of a list or tensor that are written out; longer ones come from the node.
_MAX_ITEMS = 64
_LONGEST = 200


def identifier(text: str, otherwise: str, taken: set[str]) -> str:
    """Return the text, changed as little as needed to be a new identifier, and take it."""
    name = re.sub(r"\W", "_", text[:40], flags=re.ASCII).lstrip("_") or otherwise
    if name[0].isdigit():
        name = f"x{name}"
    name = op_names.fresh_name(name, {*keyword.kwlist, *taken})
    taken.add(name)
    return name


def attr_hint(number: int, values: Sequence[Any]) -> str:
    """Return the annotation of an attr, by its kind and the values that nodes have.

    The kind is a number of `AttributeProto.AttributeType`. The annotation is empty for a kind that
    no annotation has, or where one would not hold for all values.
    """
    hint = attr_kinds.annotation_of(number)
    items: list[Any] = []
    for value in values:
        items.extend(value if isinstance(value, list) else [value])
    # A string that is not UTF-8 arrives as bytes.
    if not any(isinstance(item, bytes) for item in items):
        return hint
    if any(isinstance(item, str) for item in items):
        return ""
    return hint.replace("str", "bytes")


def literal(value: Any) -> tuple[str, str]:
    """Return a value as Python source, and a remark on it.

    The source is empty where the value must come from the node.
    """
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, list):
        if _are_short(value):
            return f"[{', '.join(map(_item, value))}]", ""
        return "", f"{len(value)} values"
    # A long value would bury the cell, and comes from the node at run time.
    if _are_short([value]):
        return _item(value), ""
    return "", ""


def _are_short(values: list[Any]) -> bool:
    """Tell whether there are few values, each of which has a short literal."""
    for value in values:
        if isinstance(value, (str, bytes)):
            if len(value) > _LONGEST:
                return False
        elif not isinstance(value, (int, float)):
            return False
    return len(values) <= _MAX_ITEMS


def _item(value: Any) -> str:
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _array(array: np.ndarray) -> tuple[str, str]:
    is_text = array.dtype == object
    # bfloat16 and its like have no names in NumPy.
    has_name = is_text or (array.dtype.kind in "biuf" and array.dtype.isbuiltin != 2)
    items = array.ravel()[: _MAX_ITEMS + 1].tolist()
    if not has_name or not _are_short(items):
        shape = "×".join(map(str, array.shape)) or "a scalar"
        return "", f"an array of {'strings' if is_text else array.dtype.name}, {shape}"
    name = f"np.{array.dtype.name}"
    if is_text:
        name = "object"
    elif array.dtype.kind == "b":
        name = "np.bool_"
    source = f"np.array([{', '.join(map(_item, items))}], dtype={name})"
    if array.ndim != 1:
        source += f".reshape({array.shape!r})"
    return source, ""

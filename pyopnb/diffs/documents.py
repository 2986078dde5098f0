"""Dataclasses as strict JSON, and back: the types of their fields say what may be read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

__all__ = ["from_plain", "read_fields", "to_plain", "write_fields"]

_INFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any) -> Any:
    """Write a value as dicts, lists, texts and numbers that JSON has.

    Examples
    --------
    >>> to_plain((1, math.nan, {3: 4}))
    [1, 'NaN', {'3': 4}]
    """
    if hasattr(value, "_to_plain"):
        return value._to_plain()
    if is_dataclass(value):
        return write_fields(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no NaN and no infinities.
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def write_fields(value: Any) -> dict[str, Any]:
    """Write the fields of a dataclass that count when two are compared."""
    # Fields that do not count in a comparison hold models for drawing, which are not saved.
    return {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.compare}


def from_plain(hint: Any, value: Any) -> Any:
    """Read a value of a type from the output of `to_plain`.

    Raises
    ------
    TypeError, ValueError, KeyError
        The value does not have the type.

    Examples
    --------
    >>> from_plain(tuple[float, ...], [1, "NaN"]), from_plain(dict[int, int], {"3": 4})
    ((1.0, nan), {3: 4})
    """
    # The hints of the fields say what may be read. Nothing in the document chooses a class.
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin in (Union, UnionType):
        return _read_union(arguments, value)
    if origin is tuple:
        return _read_tuple(arguments, value)
    if origin is not None:
        key_hint, item_hint = arguments
        return {key_hint(key): from_plain(item_hint, item) for key, item in value.items()}
    if hasattr(hint, "_from_plain"):
        return hint._from_plain(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return read_fields(hint, value)
    if hint is float:
        return _read_float(value)
    if type(value) is not hint:
        raise TypeError(f"{hint.__name__} expected, not {type(value).__name__}")
    return value


def read_fields(cls: type, value: Any) -> Any:
    """Read a dataclass from its fields, with defaults for missing ones, as in older documents."""
    if type(value) is not dict:
        raise TypeError(f"an object expected, not {type(value).__name__}")
    hints = _hints(cls)
    read = {}
    for field in fields(cls):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if field.compare and (field.name in value or not has_default):
            read[field.name] = from_plain(hints[field.name], value[field.name])
    return cls(**read)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _read_union(hints: tuple[Any, ...], value: Any) -> Any:
    if value is None and NoneType in hints:
        return None
    if type(value) is int and int in hints:
        return value
    # Besides None and int there is one type at most.
    candidates = [hint for hint in hints if hint not in (NoneType, int)]
    return from_plain((*candidates, int)[0], value)


def _read_tuple(hints: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    # A text is no list, although its letters would do as one.
    if type(value) is not list:
        raise TypeError(f"a list expected, not {type(value).__name__}")
    if hints[-1] is ...:
        hints = hints[:1] * len(value)
    return tuple(from_plain(hint, item) for hint, item in zip(hints, value, strict=True))


def _read_float(value: Any) -> float:
    number = _INFINITE[value] if isinstance(value, str) else value
    if type(number) not in (int, float):
        raise TypeError(f"a number expected, not {type(value).__name__}")
    return float(number)

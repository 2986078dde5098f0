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
# No statistic of two arrays has more bits. Python takes minutes to print longer integers.
_MOST_BITS = 128


def to_plain(value: Any) -> Any:
    """Write a value as dicts, lists, texts and numbers that JSON has.

    Examples
    --------
    >>> to_plain((1, math.nan, {(0, 1): 2}))
    [1, 'NaN', [[0, 1, 2]]]
    """
    if hasattr(value, "_to_plain"):
        return value._to_plain()
    if is_dataclass(value):
        return write_fields(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no NaN and no infinities.
        texts = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return texts.get(value, "NaN")
    if isinstance(value, Mapping):
        # JSON has only texts as keys: a histogram in two dimensions becomes a list of rows.
        if any(isinstance(key, tuple) for key in value):
            return [[*key, to_plain(item)] for key, item in value.items()]
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def write_fields(value: Any) -> dict[str, Any]:
    """Write the fields of a dataclass that count when two are compared."""
    # Fields that do not count in a comparison hold models for drawing, which are not saved.
    compared = []
    for field in fields(value):
        if field.compare:
            compared.append(field.name)
    return {name: to_plain(getattr(value, name)) for name in compared}


def from_plain(hint: Any, value: Any) -> Any:
    """Read a value of a type from what `to_plain` wrote.

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
        return _read_mapping(arguments, value)
    if hasattr(hint, "_from_plain"):
        return hint._from_plain(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return read_fields(hint, value)
    if hint is float:
        return _read_float(value)
    if type(value) is not hint:
        raise TypeError(f"{hint.__name__} expected, not {type(value).__name__}")
    if hint is int and value.bit_length() > _MOST_BITS:
        raise ValueError(f"an integer of {value.bit_length()} bits")
    return value


def read_fields(cls: type, value: Any) -> Any:
    """Read a dataclass from its fields. One that is missing has its default, as in older documents."""
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
    if type(value) in hints:
        return from_plain(type(value), value)
    # Besides None there is one type, or a number is wanted and comes as a text.
    candidates = []
    for hint in hints:
        if hint not in (NoneType, int):
            candidates.append(hint)
    return from_plain(candidates[0] if candidates else int, value)


def _read_tuple(hints: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    # A text is no list, although its letters would do as one.
    if type(value) is not list:
        raise TypeError(f"a list expected, not {type(value).__name__}")
    if hints[-1] is ...:
        return tuple(from_plain(hints[0], item) for item in value)
    pairs = zip(hints, value, strict=True)
    return tuple(from_plain(hint, item) for hint, item in pairs)


def _read_mapping(hints: tuple[Any, ...], value: Any) -> dict[Any, Any]:
    key_hint, item_hint = hints
    if get_origin(key_hint) is tuple and value != {}:
        if type(value) is not list:
            raise TypeError(f"a list expected, not {type(value).__name__}")
        rows = []
        for row in value:
            rows.append((from_plain(key_hint, row[:-1]), row[-1]))
    else:
        rows = [(key_hint(key), item) for key, item in value.items()]
    return {key: from_plain(item_hint, item) for key, item in rows}


def _read_float(value: Any) -> float:
    if isinstance(value, str):
        number = _INFINITE[value]
    else:
        number = value
    if type(number) not in (int, float):
        raise TypeError(f"a number expected, not {type(value).__name__}")
    return float(number)

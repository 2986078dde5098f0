"""The parts of a diff as JSON, read with every number within what a comparison can give.

What is read here is displayed and judged like what was compared: a corner below 0 would be searched for without end, a
histogram of huge exponents drawn in as much memory, and an index beyond its axis be none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from pyopnb.diffs.arrays.parts import Part
from pyopnb.diffs.arrays.stats import ArrayStats, Axis, Place
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.base import checked_items, checked_text, checked_whole
from pyopnb.ops.types import tensor_type

__all__ = ["part_from_dict", "part_to_dict"]

_DEEPEST = 1000  # names and positions of a path
_MOST_CELLS = 256  # of a picture's row or column
_BINS = -1, 2**14 - 1  # eighths of an octave of a float64, and no difference
_EXPONENTS = -1023, 1024
_DIGITS = 128  # binary digits of a number of ULPs
_ELEMENTS = 2**63
_INFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def part_to_dict(part: Part) -> dict[str, Any]:
    """A part as strict JSON."""
    held = {name: getattr(part, name) for name in ("path", "verdict", "a", "b", "reason", "rtol", "atol", "stol")}
    facts = None if part.facts is None else asdict(replace(part.facts, spread={}))
    if facts is not None and part.facts is not None:
        facts["spread"] = [(*exponents, count) for exponents, count in part.facts.spread.items()]
    return {name: _strict(value) for name, value in {**held, "facts": facts}.items()}


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _strict(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(held) for held in value]
    return value


def part_from_dict(held: Mapping[str, Any]) -> Part:
    """What `part_to_dict` gave.

    Raises
    ------
    ValueError, TypeError, KeyError
        It is something else.
    """
    path = tuple(key if type(key) is int else checked_text(key) for key in checked_items(held["path"], _DEEPEST))
    a, b, reason = (checked_text(held[name]) for name in ("a", "b", "reason"))
    # What was written before there was a stol has none.
    rtol, atol, stol = (float(_number(value, 0.0)) for value in (held["rtol"], held["atol"], held.get("stol", 0.0)))
    if not all(map(math.isfinite, (rtol, atol, stol))):
        raise ValueError("a tolerance that is not finite")
    facts = None if held["facts"] is None else _facts(held["facts"], a)
    return Part(path, a, b, reason, rtol, atol, facts, stol)


def _facts(held: Mapping[str, Any], kind: str) -> ArrayStats:
    shape = tensor_type(kind).shape
    if shape is None or not all(type(size) is int for size in shape):
        raise ValueError(f"statistics of an array of type {kind}")
    count = checked_whole(held["count"], 0, _ELEMENTS)
    if count != math.prod(int(size) for size in shape if size is not None):
        raise ValueError(f"{count} elements of type {kind}")
    made: dict[str, Any] = {name: checked_whole(held[name], 0, count) for name in ("finite", "bits", "differing", "odd")}
    made["over"] = None if held["over"] is None else checked_whole(held["over"], 0, count)
    made["stride"] = checked_whole(held["stride"], 1, _ELEMENTS)
    made["ulp"] = None if held["ulp"] is None else checked_whole(held["ulp"], 0, 2**_DIGITS)
    made |= {name: _optional(held[name], 0.0) for name in ("largest", "mean", "rms", "peak")}
    made |= {name: _optional(held[name]) for name in ("bias", "cosine", "snr", "psnr")}
    made |= {name: read(held[name]) for name, read in _READ.items()}
    made["matrix"], made["grid"] = _picture(held["matrix"], held["grid"], count)
    sizes = [int(size) for size in shape if size is not None]
    made["worst"] = tuple(_place(place, sizes) for place in checked_items(held["worst"], _MOST_CELLS))
    if made["differing"] and not made["worst"]:
        raise ValueError("differences, and no element that has one")
    made["first"] = None if held["first"] is None else _index(held["first"], sizes)
    made["axes"] = tuple(_axis(axis, sizes) for axis in checked_items(held["axes"], len(sizes)))
    return ArrayStats(count, **made)


def _number(value: Any, least: float = -math.inf) -> Any:
    number = _INFINITE[value] if isinstance(value, str) else value
    if type(number) not in (int, float) or number < least or (type(number) is int and number.bit_length() > _DIGITS):
        raise ValueError(f"no number from {least} on: {str(value)[:40]}")
    return number


def _optional(value: Any, least: float = -math.inf) -> Any:
    return None if value is None else _number(value, least)


def _frontier(held: Mapping[str, Any]) -> Frontier:
    corners = tuple((float(_number(t, 0.0)), float(_number(d, 0.0))) for t, d in checked_items(held["corners"]))
    rising = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(corners))
    if not rising or not all(0 < t < math.inf and d < math.inf for t, d in corners):
        raise ValueError("corners that do not rise from above 0")
    at_zero = float(_number(held["at_zero"], 0.0))
    if not at_zero < math.inf:
        raise ValueError("at_zero is not finite")
    return Frontier(corners, at_zero)


def _histogram(held: Mapping[str, Any], least: int, most: int) -> dict[int, int]:
    return {checked_whole(int(key), least, most): checked_whole(count, 0, _ELEMENTS) for key, count in held.items()}


def _picture(matrix: Any, grid: Any, count: int) -> tuple[tuple[int, int] | None, tuple[tuple[int, ...], ...]]:
    fields = tuple(
        tuple(checked_whole(field, *_BINS) for field in checked_items(row, 4 * _MOST_CELLS))
        for row in checked_items(grid, _MOST_CELLS)
    )
    if matrix is None:
        return None, fields
    rows, columns = (checked_whole(size, 1, _ELEMENTS) for size in checked_items(matrix))
    widths = {len(row) for row in fields}
    if rows * columns != count or not 0 < len(fields) <= rows or len(widths) != 1 or not 0 < max(widths) <= columns:
        raise ValueError(f"a picture of {len(fields)} rows of a matrix of {rows} × {columns}")
    return (rows, columns), fields


def _index(held: Any, sizes: list[int]) -> tuple[int, ...]:
    return tuple(checked_whole(place, 0, size - 1) for place, size in zip(checked_items(held), sizes, strict=True))


def _place(held: Mapping[str, Any], sizes: list[int]) -> Place:
    absolute, relative = (_optional(held[name], 0.0) for name in ("absolute", "relative"))
    ulp = None if held["ulp"] is None else checked_whole(held["ulp"], 0, 2**_DIGITS)
    return Place(_index(held["index"], sizes), checked_text(held["a"]), checked_text(held["b"]), absolute, relative, ulp)


def _axis(held: Mapping[str, Any], sizes: list[int]) -> Axis:
    axis = checked_whole(held["axis"], 0, len(sizes) - 1)
    rest = {name: checked_whole(held[name], 0, _ELEMENTS) for name in ("size", "hit", "index", "most", "seen")}
    if set(held) != {"axis", *rest}:
        raise ValueError("an axis of other fields")
    return Axis(axis=axis, **rest)


_READ: dict[str, Any] = {
    "classes": lambda held: {checked_text(name): checked_whole(count, 0, _ELEMENTS) for name, count in held.items()},
    "frontier": _frontier,
    "parts": lambda held: None if held is None else tuple(_number(part, 0.0) for part in checked_items(held, 2, 2)),
    "sizes": lambda held: _histogram(held, *_BINS),
    "ulps": lambda held: _histogram(held, 0, _DIGITS),
    "spread": lambda held: {
        (checked_whole(b, *_EXPONENTS), checked_whole(d, *_EXPONENTS)): checked_whole(count, 0, _ELEMENTS)
        for b, d, count in checked_items(held)
    },
}

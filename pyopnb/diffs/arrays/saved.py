"""The parts of a diff as JSON, read with every number within what a comparison can give.

What is read here is displayed and judged like what was compared. A corner below 0 would be searched
for without end, a histogram of huge exponents drawn in as much memory, and an index beyond its axis
point nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
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
    """Write a part as strict JSON."""
    fields: dict[str, Any] = {name: getattr(part, name) for name in _PART_FIELDS}
    fields["facts"] = None
    if part.facts is not None:
        facts = asdict(replace(part.facts, spread={}))
        # Keys of JSON are texts, so pairs of exponents go into a list.
        facts["spread"] = [(*pair, count) for pair, count in part.facts.spread.items()]
        fields["facts"] = facts
    return {name: _strict(value) for name, value in fields.items()}


_PART_FIELDS = ("path", "verdict", "a", "b", "reason", "rtol", "atol", "stol")


def _strict(value: Any) -> Any:
    """Replace what JSON has not: NaN, infinities, tuples, and keys that are no texts."""
    if isinstance(value, float) and not math.isfinite(value):
        if value != value:
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value


def part_from_dict(fields: Mapping[str, Any]) -> Part:
    """Read what `part_to_dict` wrote.

    Raises
    ------
    ValueError, TypeError, KeyError
        The fields are something else.
    """
    path: list[str | int] = []
    for key in checked_items(fields["path"], _DEEPEST):
        path.append(key if type(key) is int else checked_text(key))
    a, b = checked_text(fields["a"]), checked_text(fields["b"])
    rtol, atol = _tolerance(fields["rtol"]), _tolerance(fields["atol"])
    # Files that were written before there was a stol have none.
    stol = _tolerance(fields.get("stol", 0.0))
    facts = None
    if fields["facts"] is not None:
        facts = _facts(fields["facts"], a)
    return Part(tuple(path), a, b, checked_text(fields["reason"]), rtol, atol, facts, stol)


def _tolerance(value: Any) -> float:
    number = float(_number(value, 0.0))
    if not math.isfinite(number):
        raise ValueError("a tolerance that is not finite")
    return number


def _facts(fields: Mapping[str, Any], array_type: str) -> ArrayStats:
    sizes = _sizes(array_type)
    count = _count(fields["count"])
    if count != math.prod(sizes):
        raise ValueError(f"{count} elements of type {array_type}")
    facts: dict[str, Any] = {}
    for name in ("finite", "bits", "differing", "odd"):
        facts[name] = checked_whole(fields[name], 0, count)
    facts["over"] = None
    if fields["over"] is not None:
        facts["over"] = checked_whole(fields["over"], 0, count)
    facts["stride"] = checked_whole(fields["stride"], 1, _ELEMENTS)
    facts["ulp"] = _ulp(fields["ulp"])
    for name in ("largest", "mean", "rms", "peak"):
        facts[name] = _optional(fields[name], 0.0)
    for name in ("bias", "cosine", "snr", "psnr"):
        facts[name] = _optional(fields[name])
    facts["classes"] = _classes(fields["classes"])
    facts["frontier"] = _frontier(fields["frontier"])
    facts["parts"] = _complex_parts(fields["parts"])
    facts["sizes"] = _histogram(fields["sizes"], *_BINS)
    facts["ulps"] = _histogram(fields["ulps"], 0, _DIGITS)
    facts["spread"] = _spread(fields["spread"])
    facts["matrix"], facts["grid"] = _picture(fields["matrix"], fields["grid"], count)
    worst = checked_items(fields["worst"], _MOST_CELLS)
    facts["worst"] = tuple(_place(element, sizes) for element in worst)
    if facts["differing"] and not worst:
        raise ValueError("differences, and no element that has one")
    facts["first"] = None
    if fields["first"] is not None:
        facts["first"] = _index(fields["first"], sizes)
    axes = checked_items(fields["axes"], len(sizes))
    facts["axes"] = tuple(_axis(axis, sizes) for axis in axes)
    return ArrayStats(count, **facts)


def _sizes(array_type: str) -> list[int]:
    """Read the lengths of the axes from the type of an array."""
    shape = tensor_type(array_type).shape
    sizes = []
    for size in (None,) if shape is None else shape:
        if type(size) is not int:
            raise ValueError(f"statistics of an array of type {array_type}")
        sizes.append(size)
    return sizes


def _count(value: Any) -> int:
    return checked_whole(value, 0, _ELEMENTS)


def _ulp(value: Any) -> int | None:
    return None if value is None else checked_whole(value, 0, 2**_DIGITS)


def _number(value: Any, least: float = -math.inf) -> Any:
    number = _INFINITE[value] if isinstance(value, str) else value
    is_number = type(number) in (int, float)
    if type(number) is int and number.bit_length() > _DIGITS:
        is_number = False
    if not is_number or number < least:
        raise ValueError(f"no number from {least} on: {str(value)[:40]}")
    return number


def _optional(value: Any, least: float = -math.inf) -> Any:
    return None if value is None else _number(value, least)


def _classes(fields: Mapping[str, Any]) -> dict[str, int]:
    return {checked_text(name): _count(count) for name, count in fields.items()}


def _complex_parts(values: Any) -> tuple[Any, ...] | None:
    if values is None:
        return None
    return tuple(_number(value, 0.0) for value in checked_items(values, 2, 2))


def _frontier(fields: Mapping[str, Any]) -> Frontier:
    corners: list[tuple[float, float]] = []
    for t, d in checked_items(fields["corners"]):
        corner = float(_number(t, 0.0)), float(_number(d, 0.0))
        before = corners[-1] if corners else (0.0, 0.0)
        if not before[0] < corner[0] < math.inf or not before[1] <= corner[1] < math.inf:
            raise ValueError("corners that do not rise from above 0")
        corners.append(corner)
    at_zero = float(_number(fields["at_zero"], 0.0))
    if not at_zero < math.inf:
        raise ValueError("at_zero is not finite")
    return Frontier(tuple(corners), at_zero)


def _histogram(fields: Mapping[str, Any], least: int, most: int) -> dict[int, int]:
    return {checked_whole(int(key), least, most): _count(value) for key, value in fields.items()}


def _spread(rows: Any) -> dict[tuple[int, int], int]:
    spread = {}
    for b, d, count in checked_items(rows):
        exponents = checked_whole(b, *_EXPONENTS), checked_whole(d, *_EXPONENTS)
        spread[exponents] = _count(count)
    return spread


def _picture(
    matrix: Any, grid: Any, count: int
) -> tuple[tuple[int, int] | None, tuple[tuple[int, ...], ...]]:
    fields = []
    for row in checked_items(grid, _MOST_CELLS):
        cells = checked_items(row, 4 * _MOST_CELLS)
        fields.append(tuple(checked_whole(cell, *_BINS) for cell in cells))
    if matrix is None:
        return None, tuple(fields)
    rows, columns = [checked_whole(size, 1, _ELEMENTS) for size in checked_items(matrix)]
    widths = {len(row) for row in fields}
    fits = rows * columns == count and 0 < len(fields) <= rows
    if not fits or len(widths) != 1 or not 0 < max(widths) <= columns:
        raise ValueError(f"a picture of {len(fields)} rows of a matrix of {rows} × {columns}")
    return (rows, columns), tuple(fields)


def _index(positions: Any, sizes: list[int]) -> tuple[int, ...]:
    pairs = zip(checked_items(positions), sizes, strict=True)
    return tuple(checked_whole(position, 0, size - 1) for position, size in pairs)


def _place(fields: Mapping[str, Any], sizes: list[int]) -> Place:
    return Place(
        _index(fields["index"], sizes),
        checked_text(fields["a"]),
        checked_text(fields["b"]),
        _optional(fields["absolute"], 0.0),
        _optional(fields["relative"], 0.0),
        _ulp(fields["ulp"]),
    )


def _axis(fields: Mapping[str, Any], sizes: list[int]) -> Axis:
    axis = checked_whole(fields["axis"], 0, len(sizes) - 1)
    counts = {name: _count(fields[name]) for name in ("size", "hit", "index", "most", "seen")}
    if set(fields) != {"axis", *counts}:
        raise ValueError("an axis of other fields")
    return Axis(axis=axis, **counts)

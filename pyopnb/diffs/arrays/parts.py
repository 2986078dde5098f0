"""Pair the values that models have as inputs and outputs: arrays, sequences, maps and None."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.stats import ArrayStats, LazyStats, quick_stats, scale_of
from pyopnb.diffs.documents import from_plain, read_fields, to_plain
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine.ops.coerce import foreign_array, is_foreign_array
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.messages import sanitize
from pyopnb.engine.ops.result import Result
from pyopnb.engine.ops.types import type_of
from pyopnb.errors import InputError

__all__ = ["VERDICTS", "Part", "largest_difference", "named", "parts"]

VERDICTS = ("bit-identical", "value-identical", "close", "different", "incomparable")
"""From the best to the worst."""

# Python would run out of stack in a structure that holds itself.
_DEEPEST = 64

_Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """A pair of values, and the statistics of their difference.

    Attributes
    ----------
    path : tuple of str and int
        Names and positions that lead to the arrays; empty if two arrays were compared directly.
    a, b : str
        Their types.
    reason : str
        Why they cannot be compared; empty where they can.
    rtol, atol, stol : float
        The tolerance that was applied: 0 where the dtype is exact.
    counted : ArrayStats or LazyStats or None
        None where there are no two arrays of the same type.
    """

    path: _Path
    a: str
    b: str
    reason: str = ""
    rtol: float = 0.0
    atol: float = 0.0
    counted: ArrayStats | LazyStats | None = None
    stol: float = 0.0

    @property
    def name(self) -> str:
        """Return the path as it would be typed."""
        return named(self.path)

    @property
    def facts(self) -> ArrayStats | None:
        """Return the statistics; None where there are no two arrays of the same type."""
        if isinstance(self.counted, LazyStats):
            # They are computed once, and no fact that equality looks at changes.
            # The dataclass is frozen for its users only.
            object.__setattr__(self, "counted", self.counted.make())
        return self.counted  # type: ignore[return-value]  # no longer lazy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self._to_plain() == other._to_plain()

    __hash__ = None  # type: ignore[assignment]  # facts hold dicts

    @property
    def verdict(self) -> str:
        """Return one of `VERDICTS`."""
        if self.reason:
            return "incomparable"
        facts = self.counted
        if facts is None or not facts.bits:
            return "bit-identical"
        if not facts.differing:
            return "value-identical"
        if facts.over is None or facts.over:
            return "different"
        return "close"

    @property
    def ok(self) -> bool:
        """Tell whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    @property
    def scale(self) -> float:
        """Return the largest finite ``|b|``, to which ``stol`` is relative."""
        if self.facts is None:
            return 0.0
        return self.facts.peak or 0.0

    @property
    def floor(self) -> float:
        """Return the tolerance at b = 0: ``atol + stol * scale``."""
        # The scale of short arrays is computed only on demand.
        if self.stol:
            return self.atol + self.stol * self.scale
        return self.atol

    def judged(self, tolerances: Tolerances) -> Part:
        """Judge the same statistics by another tolerance."""
        facts = self.facts
        if facts is None:
            return self
        rtol, atol, stol = tolerances.of(self.a.partition("[")[0])
        # The number of elements over this tolerance is known: keep it.
        if (rtol, atol, stol) == (self.rtol, self.atol, self.stol):
            return self
        judged = replace(self, rtol=rtol, atol=atol, stol=stol)
        over: int | None = None
        # Without the arrays, the number of elements over a new tolerance is
        # known in two cases only.
        if _passes(facts, rtol, atol, judged.floor):
            over = 0
        elif not (rtol or atol or stol):
            over = facts.differing
        return replace(judged, counted=replace(facts, over=over, axes=()))

    def _to_plain(self) -> dict[str, Any]:
        names = ("path", "verdict", "a", "b", "reason", "rtol", "atol", "stol", "facts")
        return {name: to_plain(getattr(self, name)) for name in names}

    @classmethod
    def _from_plain(cls, document: Any) -> Part:
        part: Part = read_fields(cls, {**document, "counted": None})
        Tolerances(part.rtol, part.atol, part.stol).check()
        if document["facts"] is None:
            return part
        facts: ArrayStats = from_plain(ArrayStats, document["facts"])
        # The search for a passing tolerance would not end.
        facts.frontier.check()
        return replace(part, counted=facts)


def _passes(facts: ArrayStats, rtol: float, atol: float, floor: float) -> bool:
    """Tell whether all elements are within a tolerance."""
    if facts.odd:
        return False
    frontier = facts.frontier
    if facts.largest is not None and not frontier.corners and not frontier.at_zero:
        # Integers have no hull: their largest difference is exact.
        return facts.largest <= atol
    return frontier.passes(rtol, floor)


def largest_difference(part: Part) -> float:
    """Return the largest ``|a - b|``; infinite for other types, NaN and text."""
    if part.verdict in VERDICTS[:2]:
        return 0.0
    facts = part.facts
    if facts is None or facts.odd or facts.largest is None:
        return math.inf
    return float(facts.largest)


def named(path: _Path) -> str:
    """Write a path as it would be typed.

    Examples
    --------
    >>> named(("scores", 2, "cat")), named((0,))
    ("scores[2]['cat']", '[0]')
    """
    head = ""
    if path and isinstance(path[0], str):
        head, path = sanitize(path[0], 80), path[1:]
    keys = []
    for key in path:
        keys.append(f"[{sanitize(repr(key), 80)}]")
    return head + "".join(keys)


def parts(a: Any, b: Any, tolerances: Tolerances) -> Iterator[Part]:
    """Pair the arrays of two values; an array without a partner also becomes a part.

    Raises
    ------
    InputError
        Something is neither an array nor a value that is made of arrays.
    """
    yield from _walk((), a, b, tolerances)


def _walk(path: _Path, a: Any, b: Any, tolerances: Tolerances) -> Iterator[Part]:
    # Tuples and lists are the same here, as are dicts and results, and the NumPy dtypes for text.
    value_a = _normalize(a, path, "a")
    value_b = _normalize(b, path, "b")
    types = _type_text(value_a), _type_text(value_b)
    if isinstance(value_a, np.ndarray) and isinstance(value_b, np.ndarray):
        yield _arrays(path, value_a, value_b, types, tolerances)
    elif type(value_a) is not type(value_b):
        yield Part(path, *types, reason=f"a is {types[0]}, b is {types[1]}")
    elif len(path) > _DEEPEST:
        yield Part(path, *types, reason=f"nested deeper than {_DEEPEST} levels")
    elif not value_a and not value_b:
        yield Part(path, *types)
    else:
        for key in dict.fromkeys([*value_a, *value_b]):
            member = (*path, key)
            if key in value_a and key in value_b:
                yield from _walk(member, value_a[key], value_b[key], tolerances)
                continue
            sides = ["missing", "missing"]
            for number, values in enumerate((value_a, value_b)):
                if key in values:
                    side = "ab"[number]
                    sides[number] = _type_text(_normalize(values[key], member, side))
                    reason = f"only in {side}: {sides[number]}"
            yield Part(member, sides[0], sides[1], reason=reason)


def _arrays(
    path: _Path, a: np.ndarray, b: np.ndarray, types: tuple[str, str], tolerances: Tolerances
) -> Part:
    for array, side in ((a, "a"), (b, "b")):
        refusal = _why_no_tensor(array)
        if refusal:
            return Part(path, *types, reason=f"{side} {refusal}")
    # A cast or a broadcast would hide the very mistake that the user is looking for.
    if types[0] != types[1]:
        return Part(path, *types, reason=f"a is {types[0]}, b is {types[1]}")
    rtol, atol, stol = tolerances.of(dtype(a.dtype).name)
    # With stol, the largest element of b sets how far off the others may be.
    floor = atol
    if stol:
        floor += stol * scale_of(b)
    counted = quick_stats(a, b, rtol, floor)
    return Part(path, *types, rtol=rtol, atol=atol, stol=stol, counted=counted)


def _why_no_tensor(array: np.ndarray) -> str:
    """Say why an array cannot be a tensor; empty if it can."""
    # The values under a mask are arbitrary, and comparing them would compare nothing.
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        return "has masked elements, which ONNX cannot represent"
    if array.dtype == object:
        for item in array.flat:
            if not isinstance(item, (str, bytes)):
                name = sanitize(type(item).__name__)
                return f"holds Python objects that are not strings: {name}"
        return ""
    try:
        dtype(array.dtype)
    except InputError:
        return f"is of dtype {sanitize(array.dtype)}, which ONNX does not have"
    return ""


def _normalize(value: Any, path: _Path, side: str) -> Any:
    """Turn a value into None, a dict or an array; a list becomes a dict by position."""
    if value is None:
        return None
    if isinstance(value, (Result, Mapping)):
        return {_key(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _Sequence(enumerate(value))
    if isinstance(value, (str, bytes)):
        return np.array(value, object)
    if not isinstance(value, (np.ndarray, bool, int, float, complex, np.generic)):
        where = f"diff, {side}"
        if path:
            where += f" at {named(path)}"
        expected = "an array, or a list, dict or Result of arrays"
        if not is_foreign_array(value):
            got = type(value).__name__
            raise InputError(where, expected=expected, got=got, next="np.asarray(…)")
        value = foreign_array(value, where, expected)
    if isinstance(value, np.ndarray):
        array = value
    else:
        array = np.asarray(value)
    # NumPy has several dtypes for strings, ONNX one; and a complex number is two
    # floats, along a last axis.
    if array.dtype.kind in "SUT":
        return array.astype(object)
    if array.dtype.kind == "c":
        floats = np.ascontiguousarray(array).view(array.real.dtype)
        return floats.reshape(*array.shape, 2)
    return array


class _Sequence(dict[Any, Any]):
    """A list as a dict by position."""


def _key(key: Any) -> str | int:
    if isinstance(key, str):
        return str(key)
    # A bool is an int to Python, and True is no position.
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int(key)
    return repr(key)


def _type_text(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, dict):
        noun = "map"
        if isinstance(value, _Sequence):
            noun = "sequence"
        return f"{noun} of {len(value)}"
    try:
        return str(type_of(value))
    except InputError:
        return f"{sanitize(value.dtype, 80)}[{','.join(map(str, value.shape))}]"

"""Pairs of values of the kinds that models have as inputs and outputs: arrays, sequences, maps, None."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.stats import ArrayStats, LazyStats, family, quick_stats, scale_of
from pyopnb.diffs.base import TOLERANCES
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import FeedError, NotationError, sanitize
from pyopnb.ops.result import Result
from pyopnb.ops.types import type_of

__all__ = ["VERDICTS", "Part", "elements", "largest_difference", "named", "parts", "tolerance"]

VERDICTS = ("bit-identical", "value-identical", "close", "different", "incomparable")
"""From the best to the worst."""

_DEEPEST = 64

_Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """A pair of values, and the statistics of their difference.

    Attributes
    ----------
    path : tuple of str and int
        Names and positions that lead there; empty where two arrays were compared.
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
        """The path as it would be typed."""
        return named(self.path)

    @property
    def facts(self) -> ArrayStats | None:
        """The statistics of the two arrays; None where there are no two arrays of the same type."""
        if isinstance(self.counted, LazyStats):
            object.__setattr__(self, "counted", self.counted.make())  # computed once; equality does not change
        return self.counted  # type: ignore[return-value]  # no longer lazy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        mine, theirs = (
            (part.path, part.a, part.b, part.reason, part.rtol, part.atol, part.stol, part.facts) for part in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]  # facts hold dicts

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.reason:
            return "incomparable"
        facts = self.counted
        if facts is None or not facts.bits:
            return "bit-identical"
        if not facts.differing:
            return "value-identical"
        return "different" if facts.over is None or facts.over else "close"

    @property
    def ok(self) -> bool:
        """Whether the verdict is one of the first three."""
        return VERDICTS.index(self.verdict) < 3

    @property
    def scale(self) -> float:
        """The largest finite ``|b|``, of which ``stol`` is a part."""
        return 0.0 if self.facts is None else self.facts.peak or 0.0

    @property
    def floor(self) -> float:
        """What ``|a - b|`` may be wherever b is 0: ``atol + stol * scale``."""
        return self.atol + self.stol * self.scale if self.stol else self.atol

    def judged(self, rtol: float | None, atol: float | None, stol: float | None = None) -> Part:
        """The same facts under another tolerance."""
        if self.facts is None:
            return self
        facts, (rtol, atol, stol) = self.facts, tolerance(self.a.partition("[")[0], rtol, atol, stol)
        if (rtol, atol, stol) == (self.rtol, self.atol, self.stol):
            return self
        judged = replace(self, rtol=rtol, atol=atol, stol=stol)
        passes = not facts.odd and facts.frontier.passes(rtol, judged.floor)
        if facts.largest is not None and not facts.frontier.corners and not facts.frontier.at_zero:
            passes = not facts.odd and facts.largest <= atol  # integers, whose largest difference is exact
        over = 0 if passes else facts.differing if not rtol and not atol and not stol else None
        return replace(judged, counted=replace(facts, over=over, axes=()))


def largest_difference(part: Part) -> float:
    """The largest ``|a - b|``; infinite if there is no such number: other types, NaN, text.

    Returns
    -------
    float
    """
    if part.verdict in VERDICTS[:2]:
        return 0.0
    facts = part.facts
    return math.inf if facts is None or facts.odd or facts.largest is None else float(facts.largest)


def named(path: _Path) -> str:
    """A path as it would be typed.

    Examples
    --------
    >>> named(("scores", 2, "cat")), named((0,))
    ("scores[2]['cat']", '[0]')
    """
    if path and isinstance(path[0], str):
        return sanitize(path[0], 80) + "".join(f"[{sanitize(repr(key), 80)}]" for key in path[1:])
    return "".join(f"[{sanitize(repr(key), 80)}]" for key in path)


def tolerance(name: str, rtol: float | None, atol: float | None, stol: float | None = None) -> tuple[float, float, float]:
    """The tolerance for a dtype. What is not given beside others is 0; a ``stol`` of True is the dtype's default ``rtol``.

    Examples
    --------
    >>> tolerance("float32", None, None), tolerance("float32", 1e-3, None), tolerance("float32", None, None, True)
    ((1e-05, 1e-05, 0.0), (0.001, 0.0, 0.0), (1e-05, 1e-05, 1e-05))
    >>> tolerance("int8", 1e-3, 1, 1e-3), tolerance("bool", 1, 1, 1)
    ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
    """
    if name in ("bool", "string"):
        return 0.0, 0.0, 0.0
    default = TOLERANCES.get(name, (0.0, 0.0))
    scaled = default[0] if stol is True else float(stol or 0.0)
    if rtol is None and atol is None and (stol is None or stol is True):
        return *default, scaled
    given = float(rtol or 0.0), float(atol or 0.0), scaled
    return (0.0, given[1], 0.0) if family(dtype(name).numpy) == "integer" else given


def elements(value: Any, depth: int = 0) -> int:
    """Count the elements of a value, nested ones included.

    Examples
    --------
    >>> import numpy as np
    >>> elements({"y": [np.zeros((2, 3)), None, "text"]}), elements(np.zeros(4))
    (6, 4)
    """
    if isinstance(value, np.ndarray):
        return value.size
    if depth > _DEEPEST:
        return 0
    if isinstance(value, (Result, Mapping)):
        return sum(elements(item, depth + 1) for _, item in value.items())
    return sum(elements(item, depth + 1) for item in value) if isinstance(value, (list, tuple)) else 0


def parts(a: Any, b: Any, rtol: float | None, atol: float | None, stol: float | None = None) -> Iterator[Part]:
    """Pair the arrays of two values; what has no partner is a part as well.

    Raises
    ------
    FeedError
        Something is neither an array nor a value that is made of arrays.
    """
    yield from _walk((), a, b, (rtol, atol, stol))


_Given = tuple[float | None, float | None, float | None]


def _walk(path: _Path, a: Any, b: Any, given: _Given) -> Iterator[Part]:
    one, two = _normalize(a, path, "a"), _normalize(b, path, "b")
    types = _type_texts(one, two)
    if len(path) > _DEEPEST:
        yield Part(path, *types, reason=f"nested deeper than {_DEEPEST} levels")
    elif one is None or two is None:
        yield Part(path, *types, reason="" if one is two else f"a is {types[0]}, b is {types[1]}")
    elif isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *(key for key in two if key not in one)]:
            yield from _member((*path, key), one, two, key, given)
        if not one and not two:
            yield Part(path, *types)
    elif isinstance(one, list) and isinstance(two, list):
        for index in range(max(len(one), len(two))):
            left, right = (dict(enumerate(values[index : index + 1])) for values in (one, two))
            yield from _member((*path, index), left, right, 0, given)
        if not one and not two:
            yield Part(path, *types)
    elif isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        yield _arrays(path, one, two, types, given)
    else:
        yield Part(path, *types, reason=f"a is {types[0]}, b is {types[1]}")


def _member(path: _Path, one: dict[Any, Any], two: dict[Any, Any], key: Any, given: _Given) -> Iterator[Part]:
    if key in one and key in two:
        yield from _walk(path, one[key], two[key], given)
    else:
        side, value = ("a", one[key]) if key in one else ("b", two[key])
        types = _type_text(_normalize(value, path, side))
        yield Part(path, *((types, "missing") if side == "a" else ("missing", types)), reason=f"only in {side}: {types}")


def _arrays(path: _Path, a: np.ndarray, b: np.ndarray, types: tuple[str, str], given: _Given) -> Part:
    for array, side in ((a, "a"), (b, "b")):
        if why := _why_no_tensor(array):
            return Part(path, *types, reason=f"{side} {why}")
    if types[0] != types[1]:
        return Part(path, *types, reason=f"a is {types[0]}, b is {types[1]}{_shape_hint(a.shape, b.shape)}")
    rtol, atol, stol = tolerance(dtype(a.dtype).name, *given)
    floor = atol + stol * scale_of(b) if stol else atol
    return Part(path, *types, rtol=rtol, atol=atol, stol=stol, counted=quick_stats(a, b, rtol, floor))


def _shape_hint(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    if a == b:
        return ""
    if sorted(a) == sorted(b):
        return ": the same lengths in another order, perhaps transposed"
    return ": as many elements, perhaps reshaped" if math.prod(a) == math.prod(b) else ""


def _why_no_tensor(array: np.ndarray) -> str:
    """Why an array cannot be a tensor; empty where it can."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        return "has masked elements, which ONNX cannot represent"
    if array.dtype == object:
        other = next((one for one in array.flat if not isinstance(one, (str, bytes))), None)
        if other is not None or any(one is None for one in array.flat):
            return f"holds Python objects that are not strings: {sanitize(type(other).__name__)}"
        return ""
    if array.dtype.kind == "S":
        return ""
    try:
        dtype(array.dtype)
    except NotationError:
        return f"is of dtype {sanitize(array.dtype)}, which ONNX does not have"
    return ""


def _normalize(value: Any, path: _Path, side: str) -> Any:
    """A value as None, a dict, a list or an array."""
    if value is None or isinstance(value, np.ndarray):
        return _as_objects(value)
    if isinstance(value, (Result, Mapping)):
        return {_key(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (str, bytes)):
        return np.array(value, object)
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return _as_objects(np.asarray(value))
    where = f"diff, {side}{named(path) and ' at ' + named(path)}"
    expected = "an array, or a list, dict or Result of arrays"
    raise FeedError(where, expected=expected, got=type(value).__name__, next="np.asarray(…)")


def _as_objects(value: np.ndarray | None) -> np.ndarray | None:
    # NumPy has several dtypes for strings, ONNX one.
    return value.astype(object) if value is not None and value.dtype.kind in "SUT" else value


def _key(key: Any) -> str | int:
    if isinstance(key, (bool, np.bool_)) or not isinstance(key, (int, str, np.integer)):
        return repr(key)
    return str(key) if isinstance(key, str) else int(key)


def _type_texts(a: Any, b: Any) -> tuple[str, str]:
    text = _type_text(a)
    alike = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
    return text, text if alike else _type_text(b)


def _type_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        try:
            return str(type_of(value))
        except NotationError:
            return f"{sanitize(value.dtype, 80)}[{','.join(map(str, value.shape))}]"
    if value is None:
        return "None"
    return f"{'map' if isinstance(value, dict) else 'sequence'} of {len(value)}"

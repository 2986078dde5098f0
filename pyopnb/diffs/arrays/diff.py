"""What sets two values apart: to be read, saved, judged and asserted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pyopnb.diffs.arrays import report
from pyopnb.diffs.arrays.parts import VERDICTS, Part, elements, parts
from pyopnb.diffs.arrays.stats import ArrayStats, Axis, Place
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.base import ToleranceDiff, check_tolerances
from pyopnb.ops.errors import FeedError
from pyopnb.ops.progress import tracking

__all__ = ["Diff", "compared"]

_LENGTHY = 2**20  # elements: fewer, and their diff cannot become long


@dataclass(frozen=True, repr=False)
class Diff(ToleranceDiff):
    """What `pyopnb.diff` found.

    It has no truth value: ``if diff(a, b)`` would be read as "if they differ" by one and as "if they agree" by another.

    Attributes
    ----------
    parts : tuple of Part
        One a pair of arrays, in the order in which they were met: ``path``, ``verdict``, types, tolerance and facts of each.
    """

    _FORMAT = "pyopnb.diff"

    parts: tuple[Part, ...]

    @property
    def worst(self) -> Part:
        """The part of the worst verdict, of equal ones the first."""
        return max(self.parts, key=lambda part: VERDICTS.index(part.verdict))

    @property
    def verdict(self) -> str:
        """That of the worst part: ``"bit-identical"`` … ``"incomparable"``."""
        return self.worst.verdict

    @property
    def ok(self) -> bool:
        """Whether the verdict is one of the first three."""
        return self.worst.ok

    def _headline(self) -> list[str]:
        return report.headline(self.parts, self.worst)

    def __str__(self) -> str:
        return report.text(self.parts, self.worst)

    def _judged(self, rtol: float | None, atol: float | None, stol: float | None) -> Diff:
        return Diff(tuple(part.judged(rtol, atol, stol) for part in self.parts))

    def _to_fields(self) -> dict[str, Any]:
        return {"parts": [_plain(part) for part in self.parts]}

    @classmethod
    def _from_fields(cls, fields: Any) -> Diff:
        parts = tuple(_part(part) for part in fields["parts"])
        if not parts:
            raise FeedError("Diff.from_json", expected="at least one part", got="none")
        return cls(parts)


def compared(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, stol: float | None = None) -> Diff:
    """What sets two arrays, or values made of them, apart; see `pyopnb.diff`.

    Raises
    ------
    FeedError
        Something is not made of arrays, or a tolerance is negative or not finite.
    """
    check_tolerances(rtol, atol, stol)
    total = elements(a)
    if total < _LENGTHY:
        return Diff(tuple(parts(a, b, rtol, atol, stol)))
    with tracking("elements", total):
        return Diff(tuple(parts(a, b, rtol, atol, stol)))


# ---- JSON --------------------------------------------------------------------------------------------------------------------


def _plain(part: Part) -> dict[str, Any]:
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


_INFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    return _INFINITE[value]


def _part(held: Mapping[str, Any]) -> Part:
    facts = None if held["facts"] is None else _facts(held["facts"])
    path = tuple(key if isinstance(key, int) else str(key) for key in held["path"])
    given = float(held["rtol"]), float(held["atol"])
    # What was written before there was a stol has none.
    return Part(path, str(held["a"]), str(held["b"]), str(held["reason"]), *given, facts, float(held.get("stol", 0.0)))


def _facts(held: Mapping[str, Any]) -> ArrayStats:
    numbers = {one.name: _number(held[one.name]) for one in fields(ArrayStats) if one.name not in _READ}
    return ArrayStats(**numbers, **{name: read(held[name]) for name, read in _READ.items()})


def _counts(held: Mapping[str, int]) -> dict[int, int]:
    return {int(key): int(count) for key, count in held.items()}


def _place(held: Mapping[str, Any]) -> Place:
    numbers = [_number(held[name]) for name in ("absolute", "relative", "ulp")]
    return Place(tuple(map(int, held["index"])), str(held["a"]), str(held["b"]), *numbers)


_READ: dict[str, Any] = {
    "classes": lambda held: {str(name): int(count) for name, count in held.items()},
    "frontier": lambda held: Frontier(tuple((_number(t), _number(d)) for t, d in held["corners"]), _number(held["at_zero"])),
    "parts": lambda held: None if held is None else (_number(held[0]), _number(held[1])),
    "sizes": _counts,
    "ulps": _counts,
    "spread": lambda held: {(int(b), int(d)): int(count) for b, d, count in held},
    "matrix": lambda held: None if held is None else (int(held[0]), int(held[1])),
    "grid": lambda held: tuple(tuple(map(int, row)) for row in held),
    "worst": lambda held: tuple(map(_place, held)),
    "first": lambda held: None if held is None else tuple(map(int, held)),
    "axes": lambda held: tuple(Axis(**{name: int(value) for name, value in one.items()}) for one in held),
}

"""What sets two values apart: to be read, saved, judged and asserted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pyopnb.diffs.arrays import report
from pyopnb.diffs.arrays.parts import VERDICTS, Part, elements, parts
from pyopnb.diffs.arrays.stats import Axis, Facts, Place
from pyopnb.diffs.arrays.tolerance import Frontier
from pyopnb.diffs.base import DiffBase, read_back, written
from pyopnb.ops.errors import FeedError, sanitize
from pyopnb.ops.progress import tracking

__all__ = ["Diff", "compared"]

_FORMAT, _VERSION = "pyopnb.diff", 1
_LENGTHY = 2**20  # elements: fewer, and their diff cannot become long


@dataclass(frozen=True, repr=False)
class Diff(DiffBase):
    """What `pyopnb.diff` found.

    It has no truth value: ``if diff(a, b)`` would be read as "if they differ" by one and as "if they agree" by another.

    Attributes
    ----------
    parts : tuple of Part
        One a pair of arrays, in the order in which they were met: ``path``, ``verdict``, types, tolerance and facts of each.
    """

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

    def __str__(self) -> str:
        return report.text(self.parts, self.worst)

    __repr__ = __str__

    def judged(self, *, rtol: float | None = None, atol: float | None = None) -> Diff:
        """The same facts under another tolerance, without the arrays.

        The verdict is exact. How many elements are over is known only for the tolerance of `diff`, for none at all, and where
        all pass; ``facts.over`` is None elsewhere.

        Raises
        ------
        FeedError
            A tolerance is negative or not finite.

        Examples
        --------
        >>> import numpy as np
        >>> found = compared(np.float32([1, 2]), np.float32([1, 2.5]))
        >>> found.verdict, found.judged(atol=0.5).verdict
        ('different', 'close')
        """
        _checked(rtol, atol)
        return Diff(tuple(part.judged(rtol, atol) for part in self.parts))

    def to_json(self) -> str:
        """All of it as strict JSON, with the texts ``"NaN"``, ``"Infinity"``, ``"-Infinity"`` where JSON has no number."""
        return written(self, _FORMAT, _VERSION, parts=[_plain(part) for part in self.parts])

    @classmethod
    def from_json(cls, text: str) -> Diff:
        """What `to_json` wrote.

        Raises
        ------
        FeedError
            The text is something else, or of a later version.
        """
        return read_back(text, _FORMAT, _VERSION, "Diff.from_json", _built)


def compared(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> Diff:
    """What sets two arrays, or values made of them, apart; see `pyopnb.diff`.

    Raises
    ------
    FeedError
        Something is not made of arrays, or a tolerance is negative or not finite.
    """
    _checked(rtol, atol)
    total = elements(a)
    if total < _LENGTHY:
        return Diff(tuple(parts(a, b, rtol, atol)))
    with tracking("elements", total):
        return Diff(tuple(parts(a, b, rtol, atol)))


def _checked(rtol: float | None, atol: float | None) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
            raise FeedError(f"diff, {name}", expected="a finite number that is not negative", got=sanitize(repr(value), 80))


# ---- JSON --------------------------------------------------------------------------------------------------------------------


def _plain(part: Part) -> dict[str, Any]:
    held = {name: getattr(part, name) for name in ("path", "verdict", "a", "b", "reason", "rtol", "atol")}
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
    return Part(path, str(held["a"]), str(held["b"]), str(held["reason"]), float(held["rtol"]), float(held["atol"]), facts)


def _facts(held: Mapping[str, Any]) -> Facts:
    numbers = {one.name: _number(held[one.name]) for one in fields(Facts) if one.name not in _READ}
    return Facts(**numbers, **{name: read(held[name]) for name, read in _READ.items()})


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


def _built(held: Mapping[str, Any]) -> Diff:
    read = tuple(_part(part) for part in held["parts"])
    if not read:
        raise FeedError("Diff.from_json", expected="at least one part", got="none")
    return Diff(read)

"""The table of a benchmark: one row a claim, the ratio beside its bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Row", "beside", "micro", "milli", "show", "timed"]


@dataclass(frozen=True)
class Row:
    """One claim and what was measured.

    Attributes
    ----------
    what, measured, peer : str
    ratio : float or None
        None where there is nothing to measure against.
    bar : float or None
        None where the row is there for information.
    least : bool
        The bar is a lower limit of the ratio; otherwise an upper one.
    """

    what: str
    measured: str
    peer: str
    ratio: float | None
    bar: float | None = None
    least: bool = False

    @property
    def reached(self) -> bool | None:
        if self.bar is None or self.ratio is None:
            return None
        return self.ratio >= self.bar if self.least else self.ratio <= self.bar

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        bar = "" if self.bar is None else f"{'≥' if self.least else '≤'} {self.bar:g}"
        reached = {None: "", True: "yes", False: "NO"}[self.reached]
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        return self.what, self.measured, self.peer, ratio, bar, reached


def beside(
    what: str,
    seconds: float,
    peer_seconds: float,
    peer: str,
    bar: float | None = None,
    *,
    least: bool = False,
    unit: Callable[[float], str] | None = None,
) -> Row:
    """Make the row of a time beside a peer's."""
    unit = unit or milli
    ratio = seconds / peer_seconds
    return Row(what, unit(seconds), f"{unit(peer_seconds)} {peer}", ratio, bar, least)


def show(rows: Iterable[Row]) -> list[Row]:
    """Print rows as a Markdown table, each as soon as it is measured; all of them together are returned."""
    widths = (64, 12, 44, 6, 6, 7)
    print(
        "| "
        + " | ".join(
            map(str.ljust, ("what", "measured", "peer", "ratio", "bar", "reached"), widths)
        )
        + " |"
    )
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    shown = []
    for row in rows:
        print("| " + " | ".join(map(str.ljust, row.cells(), widths)) + " |", flush=True)
        shown.append(row)
    return shown


def timed(
    calls: dict[str, Callable[[], object]], repeats: int, loops: dict[str, int] | int = 1
) -> dict[str, float]:
    """The fewest seconds that one call of each takes.

    Parameters
    ----------
    calls : dict
        By name. They take turns, so that a slow moment of the machine affects all of them.
    repeats : int
        How many turns each has.
    loops : int or dict
        How many calls make one turn; by name where it is a dict.

    Returns
    -------
    dict
        Seconds by name.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            count = loops if isinstance(loops, int) else loops[name]
            if count > 1:
                call()  # what the one before it put out of the caches
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / count)
    return best


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:.2f} µs"


def milli(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{seconds * 1e3:.2f} ms"

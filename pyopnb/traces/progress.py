"""How far a long look at a run has come: a callable that is told two numbers, and the bar that a front end makes of them.

A front end says once how it shows a bar, and nothing here knows it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["Progress", "Throttled", "bar", "bar_with"]

Progress = Callable[[int, int], object]
"""Called with how many there were, and of how many."""

_found: list[Callable[[], Progress]] = []
_INTERVAL = 0.1  # seconds: a front end that is told more often does nothing else


def bar_with(make: Callable[[], Progress] | None) -> None:
    """Say how a bar is made, one for each run; None says that it is text again."""
    _found[:] = [] if make is None else [make]


def bar() -> Progress:
    """A new bar: the front end's, or a line of text on stderr."""
    return _found[0]() if _found else Throttled(_write)


def _write(done: int, total: int) -> None:
    print(f"\r{done} of {total} tensors", end="\n" if done == total else "", file=sys.stderr, flush=True)


class Throttled:
    """Passes on what can be seen: the first, the last, and in between no more than ten a second."""

    def __init__(self, show: Progress) -> None:
        self._show, self._next = show, 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _INTERVAL
            self._show(done, total)

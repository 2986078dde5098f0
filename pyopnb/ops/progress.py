"""How far something long has come: a callable that is told two numbers, and the bar that a front end makes of them.

A front end says once how it shows a bar, and nothing here knows it. A trace shows a bar when it is asked to; what may take long
on its own, such as the diff of large arrays, shows one from the moment on at which it has become long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Progress", "Throttled", "advance", "bar", "progress_text", "set_bar", "text_bar", "tracking"]

Progress = Callable[[int, int], object]
"""Called with how many there were, and of how many."""

_found: list[Callable[[str], Progress]] = []
_INTERVAL = 0.1  # seconds: a front end that is told more often does nothing else
_PATIENCE = 1.0  # seconds after which something is long


def set_bar(make: Callable[[str], Progress] | None) -> None:
    """Say how a bar is made, one for each run, of what it counts; None says that it is text again."""
    _found[:] = [] if make is None else [make]


def bar(what: str = "tensors") -> Progress:
    """A new bar: the front end's, or a line of text on stderr."""
    return _found[0](what) if _found else text_bar(what)


def text_bar(what: str) -> Progress:
    """A bar that is a line of text on stderr."""
    # What is no terminal may keep every line of it, as a notebook does.
    interval = _INTERVAL if sys.stderr is not None and sys.stderr.isatty() else 10 * _INTERVAL
    return Throttled(lambda done, total: _write(progress_text(done, total, what), done == total), interval)


def progress_text(done: int, total: int, what: str) -> str:
    """What a bar says.

    Examples
    --------
    >>> progress_text(3, 31, "tensors"), progress_text(51380224, 100000000, "elements")
    ('3 of 31 tensors', '51,380,224 of 100,000,000 elements')
    """
    return f"{done:,} of {total:,} {what}"


def _write(text: str, last: bool) -> None:
    print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)


class Throttled:
    """Passes on what can be seen: the first, the last, and in between no more than ten a second, or as the interval is."""

    def __init__(self, show: Progress, interval: float = _INTERVAL) -> None:
        self._show, self._interval, self._next = show, interval, 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + self._interval
            self._show(done, total)


# ---- what becomes long -----------------------------------------------------------------------------------------------------


class _Lengthy:
    """A count that nobody sees before it has become long."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._since = time.monotonic()
        self._bar: Progress | None = None

    def add(self, count: int) -> None:
        self.done = min(self.total, self.done + count)
        if self._bar is None:
            # What is all but done when it has become long needs no bar any more.
            if time.monotonic() - self._since < _PATIENCE or self.done * 10 > self.total * 9 or not _watched():
                return
            self._bar = bar(self.what)
        self._bar(self.done, self.total)

    def end(self) -> None:
        if self._bar is not None and self.done < self.total:
            self.done = self.total
            self._bar(self.done, self.total)


_now: ContextVar[_Lengthy | None] = ContextVar("lengthy", default=None)


def _watched() -> bool:
    # Into a file that collects what is written to stderr, nobody looks while it grows. A kernel's stderr is shown at once.
    return bool(_found) or "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def tracking(what: str, total: int) -> Iterator[None]:
    """Let what may become long be seen, as `advance` tells how far it is; what is part of something long is not told again.

    Examples
    --------
    >>> with tracking("elements", 100):
    ...     advance("elements", 50)
    """
    if _now.get() is not None:
        yield
        return
    count = _Lengthy(what, total)
    token = _now.set(count)
    try:
        yield
        count.end()
    finally:
        _now.reset(token)


def advance(what: str, count: int) -> None:
    """Say that so many more are done, to whoever counts these."""
    counting = _now.get()
    if counting is not None and counting.what == what:
        counting.add(count)

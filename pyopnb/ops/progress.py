"""Progress of long work: callables that get two numbers, and the bars that a front end makes of them.

A front end sets once how it shows a bar. A trace shows one on request; other work, such as the diff of large arrays, shows one
once it has taken `_PATIENCE` seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "Panel",
    "Progress",
    "Throttled",
    "advance",
    "bar",
    "panel",
    "progress_text",
    "set_bar",
    "set_panel",
    "text_bar",
    "tracking",
]

Progress = Callable[[int, int], object]
"""Called with the number of items done and their total."""

_make_bar: list[Callable[[str], Progress]] = []
_INTERVAL = 0.1  # seconds between updates
_PATIENCE = 1.0  # seconds after which a bar appears


def set_bar(make: Callable[[str], Progress] | None) -> None:
    """Set how bars are made.

    Parameters
    ----------
    make : callable or None
        Called with what is counted (``"tensors"``), once for each bar; None goes back to text.
    """
    _make_bar[:] = [] if make is None else [make]


def bar(what: str = "tensors") -> Progress:
    """A new bar: the front end's, or a line of text on stderr.

    Parameters
    ----------
    what : str
        What is counted.

    Returns
    -------
    callable
    """
    return _make_bar[0](what) if _make_bar else text_bar(what)


Panel = Callable[[object, bool], object]
"""Called with a thing that changes, and whether it is done."""

_make_panel: list[Callable[[], Panel]] = []


def set_panel(make: Callable[[], Panel] | None) -> None:
    """Set how a thing that changes while it works is shown: a training, with its curves.

    Parameters
    ----------
    make : callable or None
        Called once for each; None goes back to a line of text.
    """
    _make_panel[:] = [] if make is None else [make]


def panel() -> Panel | None:
    """What shows a thing that changes: the front end's, or its repr as a line of stderr; None where nobody watches.

    Returns
    -------
    callable or None
    """
    if _make_panel:
        return _make_panel[0]()
    return _text_panel() if _has_viewer() else None


def _text_panel() -> Panel:
    after = 0.0

    def show(thing: object, done: bool) -> None:
        nonlocal after
        now = time.monotonic()
        if done or now >= after:
            after = now + _INTERVAL
            text = repr(thing)
            print(
                f"\r{text}\033[K" if sys.stderr.isatty() else f"\r{text}", end="\n" if done else "", file=sys.stderr, flush=True
            )

    return show


def text_bar(what: str) -> Progress:
    """A bar that is a line of text on stderr.

    Parameters
    ----------
    what : str

    Returns
    -------
    callable
    """
    # Whatever is not a terminal may keep every line, as a notebook does.
    interval = _INTERVAL if sys.stderr is not None and sys.stderr.isatty() else 10 * _INTERVAL
    return Throttled(lambda done, total: _write(progress_text(done, total, what), done == total), interval)


def progress_text(done: int, total: int, what: str) -> str:
    """The text of a bar.

    Parameters
    ----------
    done, total : int
    what : str

    Returns
    -------
    str

    Examples
    --------
    >>> progress_text(3, 31, "tensors"), progress_text(51380224, 100000000, "elements")
    ('3 of 31 tensors', '51,380,224 of 100,000,000 elements')
    """
    return f"{done:,} of {total:,} {what}"


def _write(text: str, last: bool) -> None:
    print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)


class Throttled:
    """Passes on the first and the last update, and others at most once an interval.

    Parameters
    ----------
    show : callable
    interval : float
        Seconds.
    """

    def __init__(self, show: Progress, interval: float = _INTERVAL) -> None:
        self._show, self._interval, self._next = show, interval, 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + self._interval
            self._show(done, total)


# ---- bars that appear late ---------------------------------------------------------------------------------------------------


class _Count:
    """A count that shows a bar once it has taken long."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._since = time.monotonic()
        self._bar: Progress | None = None

    def add(self, count: int) -> None:
        self.done = min(self.total, self.done + count)
        if self._bar is None:
            # What is nearly done by then needs no bar.
            if time.monotonic() - self._since < _PATIENCE or self.done * 10 > self.total * 9 or not _has_viewer():
                return
            self._bar = bar(self.what)
        self._bar(self.done, self.total)

    def end(self) -> None:
        if self._bar is not None and self.done < self.total:
            self.done = self.total
            self._bar(self.done, self.total)


_current: ContextVar[_Count | None] = ContextVar("count", default=None)


def _has_viewer() -> bool:
    # Nobody watches a file that collects stderr. A kernel's stderr is shown at once.
    return bool(_make_bar) or "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def tracking(what: str, total: int) -> Iterator[None]:
    """Show a bar for a block of work, should it take long; inside another such block it does nothing.

    Parameters
    ----------
    what : str
        What `advance` counts.
    total : int

    Examples
    --------
    >>> with tracking("elements", 100):
    ...     advance("elements", 50)
    """
    if _current.get() is not None:
        yield
        return
    count = _Count(what, total)
    token = _current.set(count)
    try:
        yield
        count.end()
    finally:
        _current.reset(token)


def advance(what: str, count: int) -> None:
    """Report items as done, if the current `tracking` block counts these.

    Parameters
    ----------
    what : str
    count : int
    """
    current = _current.get()
    if current is not None and current.what == what:
        current.add(count)

"""Report the progress of long work, as bars of a front end or as text.

A front end sets once how it shows a bar. A trace shows one on request; other work, such as the diff
of large arrays, shows one once it has taken `_PATIENCE` seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "LOADED",
    "Panel",
    "Progress",
    "Throttled",
    "advance",
    "bar",
    "panel",
    "phase",
    "progress_text",
    "set_bar",
    "set_panel",
    "text_bar",
    "tracking",
]

LOADED = "MB of weights loaded"
"""The noun that is counted while models are loaded and run."""

Progress = Callable[..., object]
"""Called with the number of items done, their total, and the name of the phase.

The total is 0 as long as it is unknown. A phase without a name may be left out.
"""

_make_bar: list[Callable[[str, float], Progress]] = []
_INTERVAL = 0.1  # seconds between updates
_PATIENCE = 1.0  # seconds after which a bar appears
_STEADY = 1.0  # seconds after which a rate says something


def set_bar(make: Callable[[str, float], Progress] | None) -> None:
    """Set how bars are made.

    Parameters
    ----------
    make : callable or None
        Called with the noun that is counted (``"tensors"``) and the `time.monotonic` at which the
        work began, once for each bar; None goes back to text.
    """
    _make_bar[:] = [] if make is None else [make]


def bar(what: str = "tensors", since: float | None = None) -> Progress:
    """Make a bar: the front end's, or a line of text on stderr.

    Parameters
    ----------
    what : str
        The noun that is counted.
    since : float, optional
        When the work began, by `time.monotonic`. Now if not given.
    """
    since = time.monotonic() if since is None else since
    return _make_bar[0](what, since) if _make_bar else text_bar(what, since)


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
    """Make a panel for an object that changes; return None if there is no viewer.

    The panel belongs to the front end, or writes lines to stderr.
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
            _write(repr(thing), done)

    return show


def text_bar(what: str, since: float) -> Progress:
    """Make a bar that is a line of text on stderr."""
    # Anything but a terminal may keep every line, as a notebook does.
    interval = _INTERVAL if _is_terminal() else 10 * _INTERVAL

    def show(done: int, total: int, phase: str = "") -> None:
        text = progress_text(done, total, what, time.monotonic() - since, phase)
        _write(text, done == total and not phase)

    return Throttled(show, interval)


def progress_text(done: int, total: int, what: str, seconds: float = 0.0, phase: str = "") -> str:
    """Write the text of a bar.

    Parameters
    ----------
    done, total : int
        A total of 0 is not known.
    seconds : float
        How long it took so far: after the first second the text has the rate and the time left.
    phase : str
        What is being done, if there are several things.

    Examples
    --------
    >>> progress_text(3, 31, "tensors"), progress_text(51380224, 100000000, "elements")
    ('3 of 31 tensors', '51,380,224 of 100,000,000 elements')
    >>> progress_text(3000, 10000, "batches", 7.5)
    '3,000 of 10,000 batches, 400 a second, 18 s left'
    >>> progress_text(10000, 10000, "batches", 25)
    '10,000 of 10,000 batches, 400 a second, in 25 s'
    >>> progress_text(3, 0, "batches", 7.5)  # of a generator
    '3 batches, 2.5 s each'
    >>> progress_text(2100, 8000, "MB of weights loaded", phase="loading")
    'loading: 2,100 of 8,000 MB of weights loaded'
    """
    text = f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}"
    if phase:
        text = f"{phase}: {text}" if done or total else phase
    if seconds < _STEADY or not done or (phase and done == total):
        return text
    rate = done / seconds
    if rate >= 10:
        text += f", {rate:,.0f} a second"
    elif rate >= 1:
        text += f", {rate:.1f} a second"
    else:
        text += f", {1 / rate:.1f} s each"
    if not total:
        return text
    if done == total:
        return f"{text}, in {_duration(seconds)}"
    return f"{text}, {_duration((total - done) / rate)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _write(text: str, last: bool) -> None:
    # The text can be shorter than the previous one, so the terminal clears the rest of the line.
    clear = "\033[K" if _is_terminal() else ""
    print(f"\r{text}{clear}", end="\n" if last else "", file=sys.stderr, flush=True)


class Throttled:
    """Passes on the first and the last update, and others at most once an interval.

    Parameters
    ----------
    interval : float
        Seconds.
    """

    def __init__(self, show: Progress, interval: float = _INTERVAL) -> None:
        self._show, self._interval, self._next = show, interval, 0.0

    def __call__(self, done: int, total: int, phase: str = "") -> None:
        now = time.monotonic()
        if now >= self._next or (done == total and not phase):
            self._next = now + self._interval
            self._show(done, total, phase)


# ---- bars that appear late -----------------------------------------------------------------------


class _Count:
    """A count that shows a bar once it has taken long.

    An unknown total is 0 until the end.
    """

    def __init__(self, what: str, total: int, parts: int, is_long: bool) -> None:
        self.what, self.total, self.parts = what, total, parts
        self.done, self.phase, self.is_long = 0, "", is_long
        self._since = time.monotonic()
        self._bar: Progress | None = None
        if is_long and _has_viewer():
            self._bar = bar(what, self._since)
            self._bar(0, total)

    def add(self, count: int) -> None:
        self.done = min(self.total or self.done + count, self.done + count)
        if self._bar is None:
            # Work that is nearly done by then needs no bar.
            is_nearly_done = 0 < self.total * 9 < self.done * 10 and not self.phase
            is_early = time.monotonic() - self._since < _PATIENCE or is_nearly_done
            if (is_early and not self.is_long) or not _has_viewer():
                return
            self._bar = bar(self.what, self._since)
        self._bar(self.done, self.total, self.phase)

    def end(self) -> None:
        is_shown_as_done = 0 < self.total == self.done and not self.phase
        if self._bar is not None and not is_shown_as_done:
            self.done = self.total = self.total or self.done
            self._bar(self.done, self.total)


_current: ContextVar[_Count | None] = ContextVar("count", default=None)


def _has_viewer() -> bool:
    # A file that collects stderr has no viewer. A kernel's stderr is shown at once.
    return bool(_make_bar) or "ipykernel" in sys.modules or _is_terminal()


def _is_terminal() -> bool:
    # A program without a console, as one of pythonw, has no stderr at all.
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def tracking(
    what: str, total: int | None, *, parts: int = 1, is_long: bool = False
) -> Iterator[None]:
    """Show a bar for a block of work that takes long.

    A block inside another one shows none. If both count the same, it is a part of the other one.

    Parameters
    ----------
    what : str
        The noun that `advance` counts.
    total : int or None
        None if it is unknown, as for a generator.
    parts : int
        How many parts of one size there are, if the first one tells the total.
    is_long : bool
        Whether the bar appears at once, before the first item, which can take many seconds.

    Examples
    --------
    >>> with tracking("elements", 100):
    ...     advance("elements", 50)
    """
    outer = _current.get()
    if outer is not None:
        end = outer.done + (total or 0)
        if outer.what == what:
            outer.total = outer.total or outer.parts * (total or 0)
            outer.is_long = outer.is_long or is_long
        yield
        if outer.what == what and outer.done < end:
            outer.add(end - outer.done)
        return
    count = _Count(what, total or 0, parts, is_long)
    token = _current.set(count)
    try:
        yield
        count.end()
    finally:
        _current.reset(token)


def phase(name: str) -> None:
    """Name the phase that begins, in the bar of the current `tracking` block."""
    current = _current.get()
    if current is not None:
        current.phase = name
        current.add(0)


def advance(what: str, count: int) -> None:
    """Report items as done, if the current `tracking` block counts these."""
    current = _current.get()
    if current is not None and current.what == what:
        current.add(count)

"""A progress bar in the output of a cell, which stays readable in the saved notebook."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyopnb.common import progress

__all__ = ["progress_bar", "progress_panel"]

# After an update nothing is drawn for this many times as long as it took.
_REST = 10
# A bar is not drawn more often than this, in seconds.
_INTERVAL = 0.25

_shown: MutableMapping[object, int] = WeakKeyDictionary()
"""The object in a panel's last state, and the number of the cell whose output has the panel."""


@dataclass(frozen=True, repr=False)
class _State:
    """How far something is, as text and as HTML."""

    done: int
    total: int
    what: str
    seconds: float
    phase: str

    def __repr__(self) -> str:
        return progress.progress_text(self.done, self.total, self.what, self.seconds, self.phase)

    def _repr_html_(self) -> str:
        # Without a value it is HTML's bar of unknown length.
        value = f' value="{self.done}" max="{self.total}"' if self.total else ""
        return f'<progress{value} aria-label="{self!r}"></progress> {self!r}'


def progress_bar(what: str, since: float) -> progress.Progress:
    """Make a progress bar, in an output of its own or as text if there is no shell.

    The output is displayed at the first update.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    # A script has no output that could be updated, but a terminal can overwrite its line.
    if get_ipython() is None:
        return progress.text_bar(what, since)
    handles: list[Any] = []

    def show(done: int, total: int, phase: str = "") -> None:
        state = _State(done, total, what, time.monotonic() - since, phase)
        if handles:
            handles[0].update(state)
        else:
            # IPython has no types there.
            handles.append(display(state, display_id=True))  # type: ignore[no-untyped-call]

    return progress.Throttled(show)


def progress_panel() -> progress.Panel:
    """Make an output that shows an object again and again.

    Its last state stays in the saved notebook. As the last expression of the same cell, the object
    is not displayed again.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    cell = 0 if shell is None else shell.execution_count
    handles: list[Any] = []
    after = 0.0

    def show(thing: object, done: bool) -> None:
        nonlocal after
        began = time.monotonic()
        # A picture of many runs takes long to draw. The longer it takes, the less often it is
        # drawn; the last state is always drawn.
        if began < after and not done:
            return
        data = _data_of(thing)
        if handles:
            handles[0].update(data, raw=True)
        else:
            # IPython has no types there.
            handles.append(display(data, raw=True, display_id=True))  # type: ignore[no-untyped-call]
        if done and shell is not None and shell.display_formatter is not None:
            _shown[thing] = cell
            shell.display_formatter.ipython_display_formatter.for_type(type(thing), _display_once)
        ended = time.monotonic()
        after = ended + max(_INTERVAL, _REST * (ended - began))

    return show


def _data_of(thing: Any) -> dict[str, str]:
    return {"text/plain": repr(thing), "text/html": str(thing._repr_html_())}


def _display_once(thing: Any) -> None:
    """Display an object, except in the cell whose output already has it."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None and _shown.get(thing) != shell.execution_count:
        shell.display_pub.publish(data=_data_of(thing))

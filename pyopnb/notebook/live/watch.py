"""``pyopnb.watch``: an output that runs itself again when an op that it uses is redefined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.notebook.live.following import Following
from pyopnb.notebook.live.output import Clock
from pyopnb.notebook.live.picture import as_html, as_text, changed_ops
from pyopnb.notebook.live.run import Run, refuse_other, run
from pyopnb.ops.errors import hide_internal_frames
from pyopnb.runtime.session import Session

__all__ = ["Watch", "watch"]


class Watch(Following):
    """An output that runs a session again whenever an op that it uses is redefined; made by `watch`.

    Attributes
    ----------
    result : Result or None
        Of the last run that ended well.
    error : BaseException or None
        What the last run raised.
    diff : Diff or None
        What sets the result apart from that of the versions before.
    seconds : float
        How long the last run took.
    runs : int
    paused, closed : bool
    """

    def __init__(self, session: Session, feeds: Mapping[str, Any], rtol: float | None, atol: float | None) -> None:
        super().__init__(session)
        self._feeds, self._tolerance = dict(feeds), (rtol, atol)
        self._before: Run | None = None  # the one that the last is held against
        self.diff: Diff | None = None
        self.runs, self.paused = 0, False
        self._stale = False
        self.beat()

    def _run(self) -> None:
        if self.paused:
            self._stale = True
            return
        with Clock(self._tick):
            now = run(self._session, self._feeds)
        self.runs += 1
        self._stale = False
        self._last = now
        if now.error is not None:
            self._before, self.diff = self._good, None
            return
        if changed_ops(self._good, now):
            self._before = self._good
        if self._before is not None and self._before.result is not None:
            rtol, atol = self._tolerance
            self.diff = diff(now.result, self._before.result, rtol=rtol, atol=atol)
        self._good = now

    def _told(self) -> tuple[str, str]:
        if self._last is None:
            return "", "Watch (not run)"
        held = self._last, self._before, self.diff, self._state
        return as_html(*held), as_text(*held)

    @property
    def _state(self) -> str:
        if self.closed:
            return "ended"
        return f"paused{', an op was redefined' if self._stale else ''}" if self.paused else ""

    def pause(self) -> None:
        """Run no more until `resume`."""
        self.paused = True
        self._show()

    def resume(self) -> None:
        """Run again when an op is redefined; at once, if one was meanwhile."""
        self.paused = False
        if self._stale:
            self.beat()
        else:
            self._show()


@hide_internal_frames
def watch(session: Session, /, *feeds: Any, rtol: float | None = None, atol: float | None = None, **named: Any) -> Watch:
    """An output that runs itself again when an op of the session is redefined.

    It shows the result, what sets it apart from that of the version before, the time, and the lines of the class that changed.
    What a run raises is shown in it, and not in the cell that redefined the op. It ends when its cell is deleted or run again;
    what it showed last stays in the saved notebook, as plain HTML.

    Parameters
    ----------
    session : Session
    *feeds, **named
        As for a call of the session. Arrays are copied.
    rtol, atol : float, optional
        As for `pyopnb.diff`.

    Returns
    -------
    Watch
        Shows itself as the last expression of a cell; ``pause()``, ``resume()`` and ``close()`` are its switches.

    Raises
    ------
    FeedError
        It is no session of pyopnb's, or the first run refuses the feeds.
    """
    refuse_other(session, "watch")
    return Watch(session, _copied(session, feeds, named), rtol, atol)


def _copied(session: Session, feeds: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The feeds by name, in memory that nobody else writes to."""
    given = {**dict(zip(session._feeds.types, feeds, strict=False)), **named}
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in session._feeds.checked(given).items()}

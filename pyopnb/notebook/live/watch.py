"""``pyopnb.watch``: an output that runs a session again whenever one of its ops is redefined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.notebook.live.output import LiveOutput
from pyopnb.notebook.live.report import Report
from pyopnb.notebook.live.run import Run, require_session
from pyopnb.ops.errors import hide_internal_frames
from pyopnb.runtime.session import Session

__all__ = ["Watch", "watch"]


class Watch(LiveOutput):
    """An output that runs a session again whenever one of its ops is redefined; created by `watch`.

    Attributes
    ----------
    result : Result or None
        Result of the last run without an error.
    error : BaseException or None
        What the last run raised.
    diff : Diff or None
        How the result differs from that of the previous versions.
    seconds : float
        Duration of the last run.
    runs : int
    paused, closed : bool
    """

    def __init__(self, session: Session, feeds: Mapping[str, Any], rtol: float | None, atol: float | None) -> None:
        super().__init__(session)
        self._feeds, self._tolerance = dict(feeds), (rtol, atol)
        self._before: Run | None = None  # the baseline of the last run
        self.diff: Diff | None = None
        self.runs, self.paused = 0, False
        self._stale = False
        self.refresh()

    def _run(self) -> None:
        if self.paused:
            self._stale = True
            return
        run = self._run_session(self._feeds)
        self.runs += 1
        self._stale = False
        self._last = run
        if run.error is not None:
            self._before, self.diff = self._last_good, None
            return
        if run.changed_ops(self._last_good):
            self._before = self._last_good
        if self._before is not None and self._before.result is not None:
            rtol, atol = self._tolerance
            self.diff = diff(run.result, self._before.result, rtol=rtol, atol=atol)
        self._last_good = run

    def _report(self, last: Run) -> Report:
        paused = "paused; an op was redefined" if self._stale else "paused" if self.paused else ""
        return Report(last, self._before, self.diff, state="ended" if self.closed else paused)

    def pause(self) -> None:
        """Do not run again until `resume`."""
        self.paused = True
        self._update()

    def resume(self) -> None:
        """Run again when an op is redefined; immediately if one was redefined in the meantime."""
        self.paused = False
        if self._stale:
            self.refresh()
        else:
            self._update()


@hide_internal_frames
def watch(session: Session, /, *feeds: Any, rtol: float | None = None, atol: float | None = None, **named: Any) -> Watch:
    """Run a session now, and again in the same output whenever one of its ops is redefined.

    The output shows the result, how it differs from that of the previous version, the time, and the changed lines of the class.
    An exception of the run is shown there, and not in the cell that redefined the op. The output ends when its cell is deleted
    or run again; its last state stays in the saved notebook, as plain HTML.

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
        Displays itself as the last expression of a cell. ``pause()``, ``resume()`` and ``close()`` control it.

    Raises
    ------
    FeedError
        The session is not a `pyopnb.Session`, or the feeds do not fit it.
    """
    require_session(session, "watch")
    return Watch(session, _copy_feeds(session, feeds, named), rtol, atol)


def _copy_feeds(session: Session, feeds: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The feeds by name, in memory that nobody else writes to."""
    by_name = {**dict(zip(session._feeds.types, feeds, strict=False)), **named}
    checked, _ = session._feeds.check(by_name)
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in checked.items()}

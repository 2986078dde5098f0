"""``pyopnb.watch``: an output that runs itself again when an op that it uses is redefined."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.compare.diffs import Diff
from pyopnb.diffs.diff import diff
from pyopnb.notebook.live.cells import Cells, here
from pyopnb.notebook.live.output import Clock, Output
from pyopnb.notebook.live.picture import as_html, as_text, changed_ops
from pyopnb.notebook.live.run import Run, refuse_other, run
from pyopnb.notebook.live.shell import cells
from pyopnb.ops.errors import briefly
from pyopnb.ops.registry import Version, registry
from pyopnb.runtime.session import Result, Session

__all__ = ["Watch", "watch"]


class Watch:
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
        self._session, self._feeds, self._tolerance = session, dict(feeds), (rtol, atol)
        self._output = Output()
        self._cells: Cells = cells()
        self._running = threading.RLock()  # a file that is saved can redefine an op on another thread
        self._last: Run | None = None
        self._good: Run | None = None  # the last that ended well
        self._before: Run | None = None  # the one that it is held against
        self.diff: Diff | None = None
        self.runs, self.paused, self.closed = 0, False, False
        self._stale = False
        me = weakref.ref(self)

        def defined(version: Version) -> None:
            watch = me()
            if watch is not None and version.op in watch._session._ops:
                watch._cells.soon(watch)

        self._leave = registry.subscribe(defined)
        weakref.finalize(self, self._leave)
        self.beat()

    # ---- what it knows -------------------------------------------------------------------------------------------------------

    @property
    def result(self) -> Result | None:
        return self._good.result if self._good else None

    @property
    def error(self) -> BaseException | None:
        return self._last.error if self._last else None

    @property
    def seconds(self) -> float:
        return self._last.seconds if self._last else 0.0

    def __repr__(self) -> str:
        if self._last is None:
            return "Watch (not run)"
        return as_text(self._last, self._before, self.diff, self._state)

    @property
    def _state(self) -> str:
        if self.closed:
            return "ended"
        return f"paused{', an op was redefined' if self._stale else ''}" if self.paused else ""

    # ---- running -------------------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Run again, and show what came; while it is paused, only that there is something new."""
        with self._running:
            if self.closed:
                return
            if self.paused:
                self._stale = True
            else:
                self._run()
            self._show()

    def _run(self) -> None:
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

    def _tick(self, seconds: float) -> None:
        if self._output.shown:
            said = f"running for {seconds:.1f} s; interrupt the kernel to stop it"
            self._output.put(f'<div><progress aria-label="{said}"></progress> {said}</div>', said)

    def _show(self) -> None:
        if self._output.shown and self._last is not None:
            held = self._last, self._before, self.diff, self._state
            self._output.put(as_html(*held), as_text(*held))

    def _ipython_display_(self) -> None:
        self._output.show_again()
        if not self.closed:
            self._cells.hold(self, here(), self.close)
        held = self._last, self._before, self.diff, self._state
        if held[0] is not None:
            self._output.put(as_html(*held), as_text(*held))  # type: ignore[arg-type]  # it has run

    # ---- what the user does with it ------------------------------------------------------------------------------------------

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

    def close(self) -> None:
        """Run never again. What is shown stays."""
        self._leave()
        self._cells.forget(self)
        with self._running:
            self.closed = True
            self._show()


@briefly
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

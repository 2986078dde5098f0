"""A cell output that runs a session again when its ops or attrs change, on a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import ipywidgets

from pyopnb.common import locks
from pyopnb.diffs import Diff, diff
from pyopnb.display import SteadyColors
from pyopnb.engine import Result, Session, Version, registry, runtime_options
from pyopnb.notebook.live.cells import current_run, live_cells, wait_for
from pyopnb.notebook.live.pane import Pane, weakly
from pyopnb.notebook.live.report import LiveState, report
from pyopnb.notebook.live.run import Run, run_session, set_attrs
from pyopnb.notebook.live.shown import ResultView, Shown, require_view
from pyopnb.notebook.live.worker import Worker

__all__ = ["LiveOutput"]

# A run of this many seconds is shown, with a button that stops it.
_LONG = 0.5

_session_locks: weakref.WeakKeyDictionary[Session, threading.RLock] = weakref.WeakKeyDictionary()


class LiveOutput:
    """An output that is refreshed whenever an op of its session is redefined.

    `Watch` and `Interact` are its subclasses. It lives while its cell shows it or a variable holds
    it.

    Attributes
    ----------
    session : Session
        The one that it runs.
    """

    # The run that the last one is compared with, as the report names it.
    _baseline_name = "the previous run"

    def __init__(
        self,
        session: Session,
        feeds: Mapping[str, Any],
        view: ResultView,
        tolerance: tuple[float | None, float | None] = (None, None),
    ) -> None:
        where = type(self).__name__.lower()
        require_view(view, where)
        self.session, self._feeds, self._view = session, dict(feeds), view
        self._tolerance, self._colors = tolerance, SteadyColors()
        self._cells = live_cells(where)
        self._worker = Worker(self._work)
        # The lock guards the fields below, which the worker changes.
        self._lock = threading.RLock()
        self._state = LiveState()
        self._runs = 0
        # Both belong to the run in flight.
        self._options: Any = None
        self._began = 0.0
        self.closed = False
        self._cells.outputs.add(self)
        reference = weakref.ref(self)

        def on_definition(version: Version) -> None:
            output = reference()
            # Other sessions' ops do not concern this output.
            if output is not None and version.op in output.session.state.ops:
                output._cells.refresh(output)

        self._unsubscribe = registry.subscribe(on_definition)
        weakref.finalize(self, self._unsubscribe)

    # ---- seen by users ---------------------------------------------------------------------------

    @property
    def result(self) -> Result | None:
        """Return the result of the last run without an error.

        This waits for a run in flight, as the other attributes do.
        """
        self.wait()
        return self._state.good.result if self._state.good else None

    @property
    def error(self) -> BaseException | None:
        """Return the exception of the last run."""
        self.wait()
        return self._state.run.error if self._state.run else None

    @property
    def diff(self) -> Diff | None:
        """Return how the result differs from the one that it is compared with."""
        self.wait()
        return self._state.diff

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        self.wait()
        return self._runs

    @property
    def seconds(self) -> float:
        """Return the duration of the last run."""
        self.wait()
        return self._state.run.seconds if self._state.run else 0.0

    @property
    def widget(self) -> ipywidgets.Widget:
        """Return the output as an ordinary widget.

        It is for other layouts, and for front ends without our extension.
        """
        self._show()
        return self._pane.widget

    def __repr__(self) -> str:
        return self._report().text

    def refresh(self) -> None:
        """Run again, and show the result.

        This returns when the result is there, or earlier if the page can show it later.
        """
        self.start()
        wait_for([self])

    def start(self) -> None:
        """Run again on a thread of its own.

        A run that has not ended is stopped, because its result would be obsolete.
        """
        # The worker runs once more after the current run, whose result is out of date.
        if not self.closed and self._worker.request():
            self._terminate()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the run in flight.

        Parameters
        ----------
        seconds : float, optional
            Wait no longer than this.

        Returns
        -------
        bool
            Whether it has ended.
        """
        return self._worker.wait(seconds)

    def stop(self) -> None:
        """Stop the run in flight: ONNX Runtime before its next node, Python code as Ctrl-C does."""
        locks.locked(self._lock, self._stop)

    def _stop(self) -> None:
        if self._options is not None:
            self._terminate()
            self._worker.interrupt()

    def close(self) -> None:
        """Never run again. The display stays, without controls."""
        self._unsubscribe()
        self._cells.release(self)
        locks.locked(self._lock, self._close)

    def _close(self) -> None:
        self.closed = True
        self._terminate()
        if "_pane" in vars(self):
            self._pane.close()
            self._show()

    def _follow(self) -> None:
        self._cells.refresh(self)

    # ---- for subclasses --------------------------------------------------------------------------

    def _current_feeds(self) -> dict[str, Any]:
        """Return the feeds of a run; an exception is shown as an error of the run."""
        return self._feeds

    def _settings(self) -> dict[str, str]:
        """Return the settings of the run that are not in the model."""
        return set_attrs(self.session)

    def _baseline(self, run: Run) -> Run | None:
        """Choose the run that this one is compared with."""
        raise NotImplementedError

    def _controls(self) -> Sequence[ipywidgets.Widget]:
        """Return the widgets above the result."""
        return ()

    def _controls_html(self) -> str:
        """Render the controls as HTML, for notebooks without widgets."""
        return ""

    # ---- one run ---------------------------------------------------------------------------------

    def _run(self) -> Run | None:
        """Run on the worker's thread, and record the outcome.

        Return None if the run was stopped for a newer one.
        """
        run: Run | None
        settings: dict[str, str] = {}
        try:
            # The model may have attrs that the new version has not.
            settings = self._settings()
            feeds = self._current_feeds()
        except (Exception, KeyboardInterrupt) as error:
            run = Run({}, settings, 0.0, None, error, time.time())
        else:
            run = self._run_session(feeds, settings)
        if run is None:
            return None
        before = self._baseline(run)
        difference = None
        if run.error is None and before is not None:
            rtol, atol = self._tolerance
            difference = diff(run.result, before.result, rtol=rtol, atol=atol)
        good = run if run.error is None else self._state.good
        locks.locked(self._lock, self._record, LiveState(run, good, before, difference))
        self._cells.update_panels(run.error)
        return run

    def _record(self, state: LiveState) -> None:
        self._runs += 1
        self._state = state

    def _run_session(self, feeds: Mapping[str, Any], settings: Mapping[str, str]) -> Run | None:
        """Run the session; return None if the run was stopped because a newer one is waiting."""
        options = locks.locked(self._lock, self._begin)
        try:
            # Outputs of one session take turns: its ops may keep state.
            turn = _session_locks.setdefault(self.session, threading.RLock())
            return locks.locked(turn, self._run_in_turn, feeds, settings, options)
        finally:
            locks.locked(self._lock, self._end)

    def _begin(self) -> Any:
        self._options, self._began = runtime_options.quiet_options(), time.time()
        return self._options

    def _run_in_turn(
        self, feeds: Mapping[str, Any], settings: Mapping[str, str], options: Any
    ) -> Run | None:
        # A run that takes long says so, once.
        timer = threading.Timer(_LONG, self._update)
        timer.daemon = True
        timer.start()
        try:
            run = run_session(self.session, feeds, settings, options, self._view)
        finally:
            timer.cancel()
            # Its thread holds this output until it ends.
            timer.join()
        # A run that was stopped for a newer one and not by the user has nothing to report.
        if run.interrupted and self._worker.requested:
            return None
        return run

    def _end(self) -> None:
        self._options = None
        self._began = 0.0

    # ---- running and showing ---------------------------------------------------------------------

    def _report(self) -> Shown:
        return report(
            self._state,
            self._baseline_name,
            ended=self.closed,
            running=self._began,
            colors=self._colors,
        )

    def _work(self) -> None:
        # It is one that `stop` sent as the run ended.
        with contextlib.suppress(KeyboardInterrupt):
            self._run()
        self._update()

    def _terminate(self) -> None:
        options = self._options
        if options is not None:
            options.terminate = True

    @cached_property
    def _pane(self) -> Pane:
        return Pane(self._controls(), weakly(self.stop))

    def _update(self) -> None:
        if "_pane" in vars(self):
            self._show()

    def _show(self, *, here: bool = False) -> None:
        """Show the current state wherever this is displayed, with ``here`` also below the cell."""
        locks.locked(self._lock, self._show_now, here)

    def _show_now(self, here: bool) -> None:
        # Everything is made under the lock, so that text, picture and controls are of one run.
        shown = self._report()
        content = shown.html, shown.text, self._controls_html()
        self._pane.show(*content, running=self._began > 0)
        if here:
            self._pane.display(*content)

    def _ipython_display_(self) -> None:
        if not self.closed:
            self._cells.hold(self, current_run())
        self._show(here=True)

"""A cell output that runs a session again when its ops change, and stays in the saved notebook as plain HTML and text."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from IPython.core.getipython import get_ipython

from pyopnb.notebook.live.cells import current_run, live_cells
from pyopnb.notebook.live.report import Report
from pyopnb.notebook.live.run import Run, run_session
from pyopnb.ops.registry import Version, registry
from pyopnb.ops.result import Result
from pyopnb.runtime.session import Session

__all__ = ["LiveOutput"]


class LiveOutput:
    """What watches and controls share: an output that is refreshed whenever an op of its session is redefined.

    It lives while its cell shows it or somebody holds a reference to it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cells = live_cells()
        self._display_id = uuid.uuid4().hex
        self._displayed = False
        self._lock = threading.RLock()  # the file watcher redefines ops on a thread of its own
        self._last: Run | None = None
        self._last_good: Run | None = None
        self.closed = False
        reference = weakref.ref(self)

        def on_definition(version: Version) -> None:
            output = reference()
            if output is not None and version.op in output._session._ops:
                output._cells.refresh(output)

        self._unsubscribe = registry.subscribe(on_definition)
        weakref.finalize(self, self._unsubscribe)

    @property
    def result(self) -> Result | None:
        return self._last_good.result if self._last_good else None

    @property
    def error(self) -> BaseException | None:
        return self._last.error if self._last else None

    @property
    def seconds(self) -> float:
        return self._last.seconds if self._last else 0.0

    def __repr__(self) -> str:
        return self._render()[1]

    def refresh(self) -> None:
        """Run again, and show the result."""
        with self._lock:
            if not self.closed:
                self._run()
                self._update()

    def close(self) -> None:
        """Never run again. What is displayed stays."""
        self._unsubscribe()
        self._cells.release(self)
        with self._lock:
            self.closed = True
            self._update()

    # ---- for subclasses ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        raise NotImplementedError

    def _report(self, last: Run) -> Report:
        raise NotImplementedError

    def _run_session(self, feeds: Mapping[str, Any]) -> Run:
        with _ticking(self._show_elapsed):
            return run_session(self._session, feeds)

    # ---- the display ---------------------------------------------------------------------------------------------------------

    def _render(self) -> tuple[str, str]:
        """HTML and text."""
        if self._last is None:
            return "", f"{type(self).__name__} (not run yet)"
        report = self._report(self._last)
        return report.html(), report.text()

    def _publish(self, html: str, text: str) -> None:
        """Display below the running cell the first time, and replace that output afterwards."""
        shell: Any = get_ipython()
        data, transient = {"text/html": html, "text/plain": text}, {"display_id": self._display_id}
        shell.display_pub.publish(data=data, metadata={}, transient=transient, update=self._displayed)
        self._displayed = True

    def _update(self) -> None:
        if self._displayed:
            self._publish(*self._render())

    def _show_elapsed(self, seconds: float) -> None:
        if self._displayed:
            text = f"running for {seconds:.1f} s; interrupt the kernel to stop it"
            self._publish(f'<div><progress aria-label="{text}"></progress> {text}</div>', text)

    def _ipython_display_(self) -> None:
        if not self.closed:
            self._cells.hold(self, current_run())
        self._displayed = False  # also below this cell; updates then reach all places
        self._publish(*self._render())


@contextmanager
def _ticking(tick: Callable[[float], None], interval: float = 0.5) -> Iterator[None]:
    """Call ``tick(seconds)`` at intervals while the block runs, on a thread of its own."""
    done = threading.Event()

    def run() -> None:
        seconds = 0.0
        while not done.wait(interval):
            seconds += interval
            tick(seconds)

    thread = threading.Thread(target=run, daemon=True, name="pyopnb progress")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()

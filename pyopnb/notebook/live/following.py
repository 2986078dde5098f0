"""What watches and controls share: an output that follows the ops of a session, until its cell is gone."""

from __future__ import annotations

import threading
import weakref

from pyopnb.notebook.live.cells import Cells, here
from pyopnb.notebook.live.output import Output
from pyopnb.notebook.live.run import Run
from pyopnb.notebook.live.shell import cells
from pyopnb.ops.registry import Version, registry
from pyopnb.ops.result import Result
from pyopnb.runtime.session import Session

__all__ = ["Following"]


class Following:
    """An output that is made anew whenever an op of the session is redefined.

    It lives while its cell shows it, or somebody holds it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._output = Output()
        self._cells: Cells = cells()
        self._running = threading.RLock()  # a file that is saved can redefine an op on another thread
        self._last: Run | None = None
        self._good: Run | None = None  # the last that ended well
        self.closed = False
        me = weakref.ref(self)

        def defined(version: Version) -> None:
            following = me()
            if following is not None and version.op in following._session._ops:
                following._cells.soon(following)

        self._leave = registry.subscribe(defined)
        weakref.finalize(self, self._leave)

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
        return self._told()[1]

    def beat(self) -> None:
        """Run again, and show what came."""
        with self._running:
            if not self.closed:
                self._run()
                self._show()

    def _run(self) -> None:
        raise NotImplementedError

    def _told(self) -> tuple[str, str]:
        """HTML and text of what there is to show."""
        raise NotImplementedError

    def _tick(self, seconds: float) -> None:
        if self._output.shown:
            said = f"running for {seconds:.1f} s; interrupt the kernel to stop it"
            self._output.put(f'<div><progress aria-label="{said}"></progress> {said}</div>', said)

    def _show(self) -> None:
        if self._output.shown:
            self._output.put(*self._told())

    def _ipython_display_(self) -> None:
        if not self.closed:
            self._cells.hold(self, here(), self.close)
        self._output.show_again()
        self._output.put(*self._told())

    def close(self) -> None:
        """Run never again. What is shown stays."""
        self._leave()
        self._cells.forget(self)
        with self._running:
            self.closed = True
            self._show()

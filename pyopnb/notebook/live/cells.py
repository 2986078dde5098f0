"""The cells that show live outputs: which one is running, and which were run again or deleted.

JupyterLab names the running cell in the metadata of each request, and the cells deleted since the
previous one. Other front ends send neither; a cell is then identified by its text.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from pyopnb.errors import InputError
from pyopnb.notebook.listeners import ShellListener

if TYPE_CHECKING:
    from pyopnb.notebook.live.output import LiveOutput
    from pyopnb.notebook.live.panel import Panel

__all__ = [
    "PATIENCE",
    "CellRun",
    "LiveCells",
    "current_run",
    "lacks_extension",
    "live_cells",
    "wait_for",
]


PATIENCE = 0.2
"""Seconds that a cell waits for the runs it caused; longer ones continue while other cells run.

Terminals, nbconvert and the like, which would never show a later result, wait to the end."""


@dataclass(frozen=True)
class CellRun:
    """One run of a cell.

    Attributes
    ----------
    cell : str
        The front end's id of the cell, or the cell's text.
    count : int
        The shell's execution count.
    """

    cell: str
    count: int


class LiveCells(ShellListener):
    """Close live outputs whose cell is run again or deleted, and refresh the others.

    An output that a running cell affects is refreshed once, at the end of the cell.
    """

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._outputs: dict[LiveOutput | Panel, CellRun] = {}
        # A watch in a layout of widgets is shown by no cell.
        self.outputs: weakref.WeakSet[Any] = weakref.WeakSet()
        self.panels: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pending: weakref.WeakSet[Any] = weakref.WeakSet()
        shell.events.register("post_run_cell", self._after_cell)

    def hold(self, output: LiveOutput | Panel, run: CellRun) -> None:
        """Keep an output alive while its cell shows it.

        Outputs of earlier runs of the cell are closed.
        """
        shown = self._outputs.items()
        self._close([old for old, at in shown if at.cell == run.cell and at.count != run.count])
        # The reference keeps the output alive while its cell shows it, even if no variable holds
        # it.
        self._outputs[output] = run

    def release(self, output: LiveOutput | Panel) -> None:
        """Forget an output that was closed."""
        self._outputs.pop(output, None)
        for known in (self._pending, self.outputs, self.panels):
            known.discard(output)

    def refresh(self, output: LiveOutput) -> None:
        """Refresh an output now, or at the end of the running cell.

        The cell may redefine several ops of the output's session, which then runs only once.
        """
        if _in_cell():
            self._pending.add(output)
        else:
            output.start()
            wait_for([output])

    def update_panels(self, error: BaseException | None = None) -> None:
        """Update the panels, now or at the end of the running cell, with the error of an output."""
        for panel in list(self.panels):
            panel.note(error)
            if not _in_cell():
                panel.update()

    def before_cell(self, info: Any) -> None:
        metadata = _metadata(self._shell)
        # A cell that runs again, or is deleted, no longer shows its old output.
        cells = [*(metadata.get("deletedCells") or []), metadata.get("cellId")]
        self._close([output for output, run in self._outputs.items() if run.cell in cells])

    def _after_cell(self, result: Any) -> None:
        # A cell may redefine several ops of one session, which then runs once and with all of
        # them.
        outputs = list(self._pending)
        self._pending.clear()
        for output in outputs:
            output.start()
        # The cell has ended, and each output says that its run was stopped.
        with contextlib.suppress(KeyboardInterrupt):
            wait_for(outputs, in_cell=True)
        self.update_panels(result.error_in_exec or result.error_before_exec)

    def _close(self, outputs: list[LiveOutput | Panel]) -> None:
        for output in outputs:
            self._outputs.pop(output, None)
            output.close()

    def close(self) -> None:
        """Close all outputs, and stop listening."""
        self._close(list(self._outputs))
        self._pending.clear()
        self._shell.events.unregister("post_run_cell", self._after_cell)
        super().close()


def wait_for(outputs: Sequence[LiveOutput], *, in_cell: bool | None = None) -> None:
    """Wait for runs together, for a short time.

    If a cell caused them and the front end cannot update its output later, wait until they end.

    Parameters
    ----------
    outputs : sequence of LiveOutput
        An interrupt stops their runs.
    in_cell : bool, optional
        Whether a cell caused the runs; by default, whether one is running on this thread.
    """
    causes = _in_cell() if in_cell is None else in_cell
    patience = None if causes and not _updates_later() else PATIENCE
    try:
        _wait(outputs, patience)
    except KeyboardInterrupt:
        for output in outputs:
            output.stop()
        _wait(outputs, patience)
        raise


def _wait(outputs: Sequence[LiveOutput], seconds: float | None) -> None:
    until = time.monotonic() + (seconds or 0.0)
    for output in outputs:
        output.wait(None if seconds is None else max(0.0, until - time.monotonic()))


def _updates_later() -> bool:
    """Tell whether the front end updates outputs of cells that have ended.

    Front ends that name the cell in a request do, and Colab.
    """
    return "cellId" in _metadata(get_ipython()) or lacks_extension()


def lacks_extension() -> bool:
    """Tell whether the front end has ipywidgets but cannot have our extension.

    Such a front end shows the saved HTML.
    """
    shell: Any = get_ipython()
    return "__vsc_ipynb_file__" in shell.user_ns or "google.colab" in sys.modules


_IN_MARIMO = {
    "watch": "session(x=x) in a cell that names the op's class",
    "interact": "session.with_attrs(limit=slider.value)(x=x) with a slider of mo.ui",
}


def live_cells(where: str) -> LiveCells:
    """Return the live cells of the running shell.

    Parameters
    ----------
    where : {"watch", "interact"}
        The function that makes the live output.

    Raises
    ------
    InputError
        There is no shell. A script has no outputs that could be live, and marimo runs
        cells again by itself.
    """
    shell = get_ipython()
    if shell is not None:
        return LiveCells.of(shell)
    # marimo has cells and no shell. It is looked for only if it was imported, and never imported
    # here.
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        raise InputError(where, expected="Jupyter or IPython", got="marimo", next=_IN_MARIMO[where])
    raise InputError(
        where, expected="a notebook or IPython", got="a script", next="session(x=x) runs it once"
    )


def current_run() -> CellRun:
    """Return the run of the calling cell."""
    shell: Any = get_ipython()
    cell = _metadata(shell).get("cellId")
    return CellRun(str(cell) if cell else _cell_text(shell), getattr(shell, "execution_count", 0))


def _metadata(shell: Any) -> dict[str, Any]:
    """Return the metadata of the running cell's request; {} in a terminal, without requests."""
    if not hasattr(shell, "get_parent"):
        return {}
    return (shell.get_parent() or {}).get("metadata") or {}


def _cell_text(shell: Any) -> str:
    for frame in _callers():
        if shell is not None and frame.f_globals is shell.user_global_ns:
            return "".join(linecache.getlines(frame.f_code.co_filename))
    return ""


def _in_cell() -> bool:
    """Tell whether a cell is running on this thread."""
    module = "IPython.core.interactiveshell"
    return any(
        frame.f_code.co_name == "run_code" and frame.f_globals.get("__name__") == module
        for frame in _callers()
    )


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back

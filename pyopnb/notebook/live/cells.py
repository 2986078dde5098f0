"""The cells of a notebook: which one runs, which were run again, and which are gone.

JupyterLab names the cell in the metadata of each request, and the cells that were deleted since the last one. Another front end
says nothing; then a cell is known by its text.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from IPython.core.getipython import get_ipython

__all__ = ["Cells", "Place", "here", "in_a_cell"]


@dataclass(frozen=True)
class Place:
    """A cell, and how often cells had run when it ran.

    Attributes
    ----------
    cell : str
    run : int
    """

    cell: str
    run: int


def here() -> Place:
    """The cell that runs."""
    shell: Any = get_ipython()
    cell = _metadata(shell).get("cellId")
    return Place(str(cell) if cell else _text_of_cell(shell), getattr(shell, "execution_count", 0))


def _metadata(shell: Any) -> dict[str, Any]:
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    held = parent.get("metadata") if isinstance(parent, dict) else None
    return held if isinstance(held, dict) else {}


def _text_of_cell(shell: Any) -> str:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if shell is not None and frame.f_globals is shell.user_global_ns:
            return "".join(linecache.getlines(frame.f_code.co_filename))
        frame = frame.f_back
    return ""


def in_a_cell() -> bool:
    """Whether this is called from a cell that runs on this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run_code" and frame.f_globals.get("__name__") == "IPython.core.interactiveshell":
            return True
        frame = frame.f_back
    return False


class Cells:
    """Tells its owners when their cell is run again or deleted, and calls what was put off when a cell has ended.

    One for a shell. It listens to the shell's events from its first use until `close`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._leavers: dict[int, tuple[Place, Callable[[], None]]] = {}
        self._pending: weakref.WeakSet[Any] = weakref.WeakSet()
        shell.events.register("pre_run_cell", self._begins)
        shell.events.register("post_run_cell", self._ended)

    def close(self) -> None:
        """End everything that cells hold, and stop listening."""
        self._leave([place.cell for place, _ in self._leavers.values()])
        self._pending.clear()
        self._shell.events.unregister("pre_run_cell", self._begins)
        self._shell.events.unregister("post_run_cell", self._ended)

    def hold(self, owner: object, place: Place, leave: Callable[[], None]) -> None:
        """Call ``leave()`` when that cell is run again or deleted. What an earlier run of the cell held leaves now."""
        for key, (held, former) in list(self._leavers.items()):
            if held.cell == place.cell and held.run != place.run:
                self._leavers.pop(key, None)
                former()
        self._leavers[id(owner)] = place, leave

    def forget(self, owner: object) -> None:
        """Call nothing of that owner's any more."""
        self._leavers.pop(id(owner), None)
        self._pending.discard(owner)

    def soon(self, owner: Any) -> None:
        """Call ``owner.beat()`` once: now, or when the cell has ended that runs."""
        if in_a_cell():
            self._pending.add(owner)
        else:
            owner.beat()

    def _begins(self, info: Any) -> None:
        metadata = _metadata(self._shell)
        gone = [str(cell) for cell in metadata.get("deletedCells") or []]
        if metadata.get("cellId"):
            gone.append(str(metadata["cellId"]))
        self._leave(gone)

    def _leave(self, cells: list[str]) -> None:
        leaving = [(key, leave) for key, (place, leave) in self._leavers.items() if place.cell in cells]
        for key, leave in leaving:
            self._leavers.pop(key, None)
            leave()

    def _ended(self, result: Any) -> None:
        owners = list(self._pending)
        self._pending.clear()
        for owner in owners:
            owner.beat()

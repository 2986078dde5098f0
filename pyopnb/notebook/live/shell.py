"""The cells of the shell that runs, known from the first live output until the extension is unloaded."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython

from pyopnb.notebook.live.cells import Cells
from pyopnb.ops.errors import FeedError

__all__ = ["cells", "end"]

_of_shell: dict[int, tuple[Any, Cells]] = {}


def cells() -> Cells:
    """The cells of this shell.

    Raises
    ------
    FeedError
        There is no shell: a script has no outputs that could live.
    """
    shell = get_ipython()
    if shell is None:
        raise FeedError("live output", expected="a notebook or IPython", got="a script", next="session(x=x) runs it once")
    held = _of_shell.get(id(shell))
    if held is None:
        held = _of_shell[id(shell)] = shell, Cells(shell)
    return held[1]


def end(shell: Any) -> None:
    """End all live outputs of a shell."""
    held = _of_shell.pop(id(shell), None)
    if held is not None:
        held[1].close()

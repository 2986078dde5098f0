"""Display a `PyopError` with the user's line and the message, without frames inside pyopnb."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyopnb.errors import PyopError

__all__ = ["cell_of", "install", "one_line_errors", "uninstall"]

_PACKAGE = str(Path(__file__).parents[1])


def install(shell: Any) -> None:
    """Make the shell end the traceback of a `PyopError` at the last frame outside pyopnb."""

    def render(error: PyopError) -> list[str]:
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), error, _user_frames(error.__traceback__)
        )
        return lines

    PyopError._render_traceback_ = render  # type: ignore[attr-defined]  # the IPython protocol


def cell_of(shell: Any, filename: str) -> str:
    """Name the cell that was compiled under a file name, ``Cell In[3]``; empty for a real file."""
    return " ".join(shell.compile.format_code_name(filename) or ())


def uninstall() -> None:
    """Undo `install`."""
    if "_render_traceback_" in vars(PyopError):
        del PyopError._render_traceback_  # type: ignore[attr-defined]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Display a `PyopError` as one line.

    No line of the user raised it: a magic refused its cell.
    """
    __tracebackhide__ = True
    try:
        yield
    except PyopError as error:
        text = f"{type(error).__name__}: {error}"
        # IPython calls it to display the error.
        error._render_traceback_ = lambda: [text]  # type: ignore[attr-defined]
        raise


def _user_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Cut a traceback after the last frame outside pyopnb; keep it whole where there is none."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    # Frames inside pyopnb at the end of the traceback say nothing to the user, who called one
    # function.
    end = len(frames)
    while end and frames[end - 1].tb_frame.f_code.co_filename.startswith(_PACKAGE):
        end -= 1
    cut = None
    # A traceback cannot be shortened in place, so a shorter one is built from its end.
    for frame in reversed(frames[: end or len(frames)]):
        cut = types.TracebackType(cut, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return cut

"""What pyopnb refuses, shown without the frames inside pyopnb: the user's line and the message, which names the place."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from pyopnb.ops.errors import PyopError

__all__ = ["show_briefly", "show_fully"]

_PACKAGE = str(Path(__file__).parents[1])


def show_briefly(shell: Any) -> None:
    """From now on the shell shows a `PyopError` from the user's line on, and what led on from there is left out."""

    def rendered(error: PyopError) -> list[str]:
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, _trimmed(error.__traceback__))
        return lines

    PyopError._render_traceback_ = rendered  # type: ignore[attr-defined]  # IPython's protocol


def show_fully() -> None:
    """The end of that."""
    if "_render_traceback_" in vars(PyopError):
        del PyopError._render_traceback_  # type: ignore[attr-defined]


def _trimmed(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback that ends with the last frame outside pyopnb; all of it where there is none."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    last = len(frames)
    while last and frames[last - 1].tb_frame.f_code.co_filename.startswith(_PACKAGE):
        last -= 1
    made = None
    for frame in reversed(frames[: last or len(frames)]):
        made = types.TracebackType(made, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return made

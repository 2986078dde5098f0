"""Why a line of an op does not become ONNX operators, and where that line is."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType
from typing import NamedTuple, NoReturn

import numpy as np

from pyopnb.common import sanitize

__all__ = ["Refusal", "SourceLine", "current_line", "line_of", "noting", "refuse"]

# The files of this room and of NumPy, and code without a file, are between a call
# and the user's line.
_NOT_THE_USERS = (
    str(Path(__file__).parent),
    str(Path(np.__file__).parent),
    "<frozen",
    "<__array_function__",
)


class SourceLine(NamedTuple):
    """A user's line, as text: ``line 7 of compute (return float(x))``."""

    number: int
    code: CodeType

    def __str__(self) -> str:
        text = sanitize(linecache.getline(self.code.co_filename, self.number).strip())
        shown = ""
        if text:
            shown = f" ({text})"
        return f"line {self.number} of {sanitize(self.code.co_name)}{shown}"


class Refusal(Exception):  # it is not an error before it leaves the room
    """A line that does not become ONNX operators.

    Attributes
    ----------
    next : str or None
        The advice.
    """

    def __init__(self, line: SourceLine | None, expected: str, got: str, next: str | None) -> None:
        super().__init__(f"{line}: expected {expected}, got {got}")
        self.line = line
        self.expected = expected
        self.got = got
        self.next = next


def refuse(
    got: str, next: str | None = None, expected: str = "NumPy that ONNX has operators for"
) -> NoReturn:
    """Refuse the user's current line.

    Raises
    ------
    Refusal
    """
    refusal = Refusal(current_line(), expected, got, next)
    # Noted before it is raised, as the user's code may catch it.
    _noted.get([]).append(refusal)
    raise refusal


@contextmanager
def noting() -> Iterator[list[Refusal]]:
    """Collect every refusal, including refusals that the user's code catches."""
    refusals: list[Refusal] = []
    token = _noted.set(refusals)
    try:
        yield refusals
    finally:
        _noted.reset(token)


_noted: ContextVar[list[Refusal]] = ContextVar("noted")


def line_of(error: BaseException) -> SourceLine | None:
    """Return the innermost line of user code in a traceback."""
    line = None
    # The last frame that is the user's is the innermost.
    for frame, number in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
            line = SourceLine(number, frame.f_code)
    return line


def current_line() -> SourceLine | None:
    """Return the innermost line of user code on the stack."""
    for frame, number in traceback.walk_stack(sys._getframe(1)):
        if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
            return SourceLine(number, frame.f_code)
    return None

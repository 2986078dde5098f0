"""Why a line of an op does not become ONNX operators, and where that line is."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn

import numpy as np

from pyopnb.ops.messages import sanitize

__all__ = ["NeedsValue", "Refusal", "current_line", "describe", "line_of", "noting", "refuse"]

_OURS = (str(Path(__file__).parent), str(Path(np.__file__).parent))


class Refusal(Exception):  # it is not an error before it leaves the room
    """A line that does not become ONNX operators.

    Attributes
    ----------
    line : str
    expected, got : str
    next : str or None
        What to write instead.
    """

    def __init__(self, line: str, expected: str, got: str, next: str | None) -> None:
        super().__init__(f"{line}: expected {expected}, got {got}")
        self.line, self.expected, self.got, self.next = line, expected, got, next


class NeedsValue(BaseException):
    """A line needs the value of an attr, not a name for it. What catches errors in an op must not catch this.

    Attributes
    ----------
    attrs : frozenset of str
    """

    def __init__(self, attrs: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(attrs)))
        self.attrs = attrs


def refuse(
    got: str, next: str | None = None, expected: str = "NumPy that ONNX has operators for"
) -> NoReturn:
    """Refuse the user's current line.

    Raises
    ------
    Refusal
    """
    refusal = Refusal(current_line(), expected, got, next)
    for listener in _listeners.get():
        listener.append(refusal)
    raise refusal


@contextmanager
def noting() -> Iterator[list[Refusal]]:
    """Collect all refusals, also those that the user's code catches."""
    refusals: list[Refusal] = []
    token = _listeners.set((refusals,))
    try:
        yield refusals
    finally:
        _listeners.reset(token)


_listeners: ContextVar[tuple[list[Refusal], ...]] = ContextVar("listeners", default=())


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's in a traceback."""
    match, at = "", error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith((*_OURS, "<frozen", "<__array_function__")):
            match = describe(code.co_filename, at.tb_lineno, code.co_name)
        at = at.tb_next
    return match


def current_line() -> str:
    """Return the innermost line of the user's: ``line 7 of compute (return float(x))``."""
    at = sys._getframe(1)
    while at is not None and at.f_code.co_filename.startswith(
        (*_OURS, "<frozen", "<__array_function__")
    ):
        at = at.f_back  # type: ignore[assignment]
    return describe(at.f_code.co_filename, at.f_lineno, at.f_code.co_name) if at is not None else ""


def describe(file: str, line: int, function: str) -> str:
    """Write a line of a file as messages have it."""
    text = sanitize(linecache.getline(file, line).strip())
    return f"line {line} of {sanitize(function)}{f' ({text})' if text else ''}"

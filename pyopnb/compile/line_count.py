"""Limit the work of Python code by the lines that it runs.

A limit in seconds would make a verdict depend on how busy the machine is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["LineCount", "TooManyLines", "count_lines"]


class TooManyLines(BaseException):
    """Stop Python code that ran too many lines.

    It is no `Exception`, because the code's own ``except Exception`` must not catch it.
    """


class LineCount:
    """The lines that Python code ran so far.

    Parameters
    ----------
    most : int
        A line more raises `TooManyLines`.
    """

    def __init__(self, most: int) -> None:
        self.most, self.lines = most, 0

    def watch(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Count an event, as ``sys.settrace`` calls it for calls and lines."""
        self.lines += 1
        if self.lines > self.most:
            raise TooManyLines
        return self.watch


@contextmanager
def count_lines(most: int) -> Iterator[LineCount]:
    """Count the lines that run in a block, and stop it at a limit."""
    count = LineCount(most)
    if sys.gettrace() is not None:  # a debugger or a coverage tool is there, and stays
        yield count
        return
    sys.settrace(count.watch)
    try:
        yield count
    finally:
        sys.settrace(None)

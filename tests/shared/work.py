"""How much Python a call runs, counted: time says as much of the machine as of the code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyopnb

__all__ = ["work"]

_HOUSE = str(Path(pyopnb.__file__).parent)


def work(function: Callable[[], object]) -> int:
    """The number of bytecode instructions of pyopnb that a call runs on this thread.

    Parameters
    ----------
    function : callable

    Returns
    -------
    int
        A loop in Python counts with each turn. One in C, such as ``name in a_list``, does not.
    """
    count = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return step

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_HOUSE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = (
        True  # Python 3.12 heeds the frames' own only if settrace finds that one had it before
    )
    sys.settrace(enter)
    try:
        function()
    finally:
        sys.settrace(before)
    return count

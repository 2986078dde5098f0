"""Where in the user's source an op was called."""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pyopnb.ops.messages import one_line

__all__ = ["line_in", "line_of"]

_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in \S+')
_OTHERS = [str(Path(torch.__file__).parent), str(Path(__file__).parents[1])]
_PYTHON = str(Path(contextlib.__file__).parent)


def line_of(*nodes: Any) -> str:
    """``model.py:5, `y = torch.inverse(x)```: the line that called an op; empty where it is not known.

    Parameters
    ----------
    *nodes : torch.fx.Node
        The op, and the calls around the body that it is in.

    Returns
    -------
    str
    """
    traces = (_FRAME.finditer(node.meta.get("stack_trace") or "") for node in nodes)
    lines = (line_in([(frame["file"], int(frame["line"])) for frame in trace]) for trace in traces)
    return next(filter(None, lines), "")


def line_in(frames: Sequence[tuple[str, int]]) -> str:
    """The innermost of these lines that is the user's; empty where none is.

    Parameters
    ----------
    frames : sequence of (str, int)
        Files and lines.

    Returns
    -------
    str
    """
    for file, line in reversed(frames):
        if _is_users(file):
            text = linecache.getline(file, line).strip()
            return one_line(f"{Path(file).name}:{line}{f', `{text}`' if text else ''}")
    return ""


def _is_users(file: str) -> bool:
    installed = file.startswith(_PYTHON) and "site-packages" not in file
    return not (installed or file.startswith((*_OTHERS, "<eval_with_key>")))

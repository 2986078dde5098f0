"""Find the line of the user's source that called a torch op."""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pyopnb.common import messages, sanitize

__all__ = ["line_in", "line_of", "path_of", "submodule_of"]

_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in \S+')
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]), "<eval_with_key>")
_PYTHON = str(Path(contextlib.__file__).parent)


def line_of(node: Any) -> str:
    """Name the line that called an op: ``model.py:5, `y = torch.inverse(x)```.

    A line of a notebook is named as in the IPython tracebacks: ``Cell In[3], line 10``.

    Parameters
    ----------
    node : torch.fx.Node

    Returns
    -------
    str
        Empty where the line is not known.
    """
    trace = node.meta.get("stack_trace") or ""
    return line_in([(frame["file"], int(frame["line"])) for frame in _FRAME.finditer(trace)])


def submodule_of(call: Any) -> str:
    """Name the innermost submodule that made a call; return an empty text for the module itself."""
    stack = list((call.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return ""
    path, module_type = stack[-1]
    name = str(module_type).rpartition(".")[2]
    if isinstance(module_type, type):
        name = module_type.__name__
    return sanitize(f"{path} ({name})") if path else ""


def path_of(call: Any) -> str:
    """Return the path of the innermost submodule that made a call, as `get_submodule` takes it."""
    stack = list((call.meta.get("nn_module_stack") or {}).values())
    # A submodule that is called again has a number there: ``layer@1``.
    return re.sub(r"@\d+", "", stack[-1][0]) if stack else ""


def line_in(frames: Sequence[tuple[str, int]]) -> str:
    """Name the innermost of some lines that is the user's; return an empty text if none is."""
    for file, number in reversed(frames):
        if not _is_users(file):
            continue
        text = linecache.getline(file, number).strip()
        cell, name = _cell(file), f"{Path(file).name}:{number}"
        if cell:
            name = f"{cell}, line {number}"
        return messages.one_line(f"{name}, `{text}`" if text else name)
    return ""


def _is_users(file: str) -> bool:
    # Packages from pip are also in the Python folder, and may be a library of the user.
    is_python = file.startswith(_PYTHON) and "site-packages" not in file
    return not is_python and not file.startswith(_LIBRARIES)


def _cell(file: str) -> str:
    """Name the notebook cell that IPython compiled under a file name.

    The text is empty for a file.
    """
    # Where there is a shell, IPython has been imported, and not by pyopnb.torch.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return ""
    return " ".join(shell.compile.format_code_name(file) or ())

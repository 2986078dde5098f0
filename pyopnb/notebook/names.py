"""A model as a line of a notebook names it: a name of the notebook, or a path."""

from __future__ import annotations

import os
from typing import Any

from IPython.core.getipython import get_ipython
from onnx import ModelProto

__all__ = ["files", "model_of", "models"]


def model_of(text: str) -> Any:
    """The notebook's value of that name where it is a model or a path, or else the text, a path."""
    value = _notebook().get(text)
    return value if isinstance(value, (ModelProto, bytes, str, os.PathLike)) else text


def models(fragment: str) -> list[tuple[str, str]]:
    """What may stand for a model after these characters: names of the notebook, folders, and files that end in ``.onnx``."""
    names = [(name, "instance") for name, value in _notebook().items() if isinstance(value, ModelProto) and name[0] != "_"]
    return files(fragment, ".onnx") if os.sep in fragment else [*names, *files(fragment, ".onnx")]


def files(fragment: str, ending: str) -> list[tuple[str, str]]:
    """Folders, and files of that ending, whose path begins with these characters."""
    folder, _, start = fragment.rpartition(os.sep)
    if folder or fragment.startswith(os.sep):
        folder = f"{folder}{os.sep}"
    try:
        with os.scandir(folder or os.curdir) as entries:
            found = [(f"{folder}{e.name}{os.sep if e.is_dir() else ''}", e.name) for e in entries]
    except OSError:  # there is no such folder, or it cannot be read: nothing to offer from it
        found = []
    return [(path, "path") for path, name in sorted(found) if path.endswith((os.sep, ending)) and (start or name[0] != ".")]


def _notebook() -> dict[str, Any]:
    shell = get_ipython()
    return shell.user_ns if shell is not None else {}

"""Find the text of a class or function: its lines in a file, or the whole cell of a notebook.

A text in a file counts only if it is the code that runs; see `pyopnb.engine.ops.running_text`.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from pyopnb.engine.ops.op_run import written_class
from pyopnb.engine.ops.running_text import functions_of, is_text_of, module_text, texts_of

__all__ = ["class_source", "function_source", "is_importable", "was_changed"]


def is_importable(module: str) -> bool:
    """Tell whether a fresh process can import a module; the notebook itself cannot be imported."""
    if module == "__main__" or module not in sys.modules:
        return False
    return getattr(sys.modules[module], "__spec__", None) is not None


def class_source(cls: type) -> str | None:
    """Return the text of a class, or of the whole cell that defines it.

    Returns
    -------
    str or None
        None where no file and no cell has the text that runs.
    """
    cls = written_class(cls)
    # The methods know where they were compiled. This comes before the module's file, because a
    # cell's class says that it is from __main__, which has none.
    for file, namespace in _homes(cls):
        for text, is_cell in texts_of(file, namespace):
            if f"class {cls.__name__}" not in text:
                continue
            if is_cell:
                return text
            module = module_text(text)
            statement = None if module is None else module.class_of(cls)
            if module is not None and statement is not None:
                return module.text_of(statement)
    if getattr(sys.modules.get(cls.__module__), "__file__", None) is None:
        return _text_in_cells(cls.__name__)
    return None


def _homes(cls: type) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files that may have the text of a class, with the globals of their code."""
    seen = set()
    for attribute in (getattr(cls, "compute", None), *vars(cls).values()):
        for function in functions_of(attribute):
            if function.__code__.co_filename not in seen:
                seen.add(function.__code__.co_filename)
                yield function.__code__.co_filename, function.__globals__
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and file not in seen:
        yield file, vars(module)


def was_changed(cls: type, source: str | None) -> bool:
    """Tell whether a class no longer matches its text, as after ``%autoreload``.

    Parameters
    ----------
    source : str or None
        Where nothing is known of the class, it counts as unchanged.
    """
    cls = written_class(cls)
    _, namespace = next(_homes(cls), ("", {}))
    return source is not None and is_text_of(cls, textwrap.dedent(source), namespace) is False


_FILES: set[str] = set()
"""Names of files whose lines somebody has asked for."""


def _text_in_cells(name: str) -> str | None:
    """Return the text of a class without methods, if all cells with a class of that name agree."""
    texts = set()
    for file in list(linecache.cache):
        # Asking the disk for hundreds of files at each definition takes long.
        if file in _FILES:
            continue
        if os.path.exists(file):
            _FILES.add(file)
            continue
        for text, _ in texts_of(file, {}):
            module = module_text(text) if f"class {name}" in text else None
            if module is None:
                continue
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    texts.add(module.text_of(node))
    # If two texts differ, nothing tells which of them made the class.
    return texts.pop() if len(texts) == 1 else None


def function_source(function: FunctionType) -> str | None:
    """Return the statement of a module that made a function: ``def``, or one with a lambda.

    Returns
    -------
    str or None
        None where no file and no cell has the text that runs.
    """
    for text, _ in texts_of(function.__code__.co_filename, function.__globals__):
        module = module_text(text)
        statement = None if module is None else module.statement_of(function)
        if module is not None and statement is not None:
            return module.text_of(statement)
    return None

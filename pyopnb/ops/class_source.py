"""Find the text of a class: its lines in a file, or the whole cell of a notebook."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

__all__ = ["class_source", "is_importable"]


def is_importable(module: str) -> bool:
    """Tell whether a fresh process can import a module, which excludes the notebook and its cells.

    Parameters
    ----------
    module : str

    Returns
    -------
    bool
    """
    if module == "__main__" or module not in sys.modules:
        return False
    return getattr(sys.modules[module], "__spec__", None) is not None


def class_source(cls: type) -> str | None:
    """Return the text of a class, or of the whole cell that defines it.

    Parameters
    ----------
    cls : type

    Returns
    -------
    str or None
        None where no file and no cell has it.
    """
    # The methods know where they were compiled. This comes before the module's file, because a
    # cell's class says that it is from __main__, which has none.
    for code in _codes(cls):
        text = _text_around(cls.__name__, code.co_filename, code.co_firstlineno)
        if text is not None:
            return text
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return _text_in_cells(cls.__name__)
    return _text_around(cls.__name__, file, None)


def _text_in_cells(name: str) -> str | None:
    """Return the text of a class without methods, if all cells with a class of that name agree."""
    texts = set()
    for file in list(linecache.cache):
        if os.path.exists(file):
            continue
        text = "".join(linecache.getlines(file))
        for span in _class_spans(text):
            if span.name == name:
                texts.add("".join(text.splitlines(True)[span.first - 1 : span.last]))
    # If two texts differ, nothing tells which of them made the class.
    return texts.pop() if len(texts) == 1 else None


def _codes(cls: type) -> Iterator[CodeType]:
    """Yield the code of compute and of the other methods of a class."""
    for method in (getattr(cls, "compute", None), *vars(cls).values()):
        function = getattr(method, "__func__", method)
        if callable(function):
            function = inspect.unwrap(function)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _text_around(name: str, file: str, line: int | None) -> str | None:
    """Return the text of the class of that name around a line of a file, or of a whole cell."""
    lines = linecache.getlines(file)
    text = "".join(lines)
    if f"class {name}" not in text:
        return None
    if not os.path.exists(file):
        return text
    innermost = None
    for span in _class_spans(text):
        if span.name == name and (line is None or span.first <= line <= span.last):
            innermost = span
    if innermost is None:
        return None
    return "".join(inspect.getblock(lines[innermost.first - 1 :]))


class _ClassSpan(NamedTuple):
    """The lines of a class, from its first decorator to its last statement."""

    name: str
    first: int
    last: int


@lru_cache(maxsize=8)  # a file that defines many ops is parsed once
def _class_spans(text: str) -> tuple[_ClassSpan, ...]:
    """List the classes of a text, outer ones before inner ones."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # the file has changed since it was imported
        return ()
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            decorators = [decorator.lineno for decorator in node.decorator_list]
            first = min([node.lineno, *decorators])
            spans.append(_ClassSpan(node.name, first, node.end_lineno or first))
    return tuple(spans)

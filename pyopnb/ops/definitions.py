"""Classes made ops: the decorator, and the text that a class was written in."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, overload

from pyopnb.errors import DefinitionError
from pyopnb.ops.arguments import describe
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import check_opset, split_name
from pyopnb.ops.registry import Registry, registry
from pyopnb.ops.signature import schema_of

__all__ = ["Definition", "class_source", "collect_definitions", "define_op", "pyop"]

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Definition:
    """A definition that `pyop` has checked and not carried out, as `Registry.define` takes it."""

    cls: type
    name: str
    opset: int
    module: str | None
    source: str | None


# With the thread that collects: without the GIL, a new thread begins with the context of the one that starts it.
_collecting: ContextVar[tuple[int, list[Definition]] | None] = ContextVar(
    "collecting", default=None
)


def _collected() -> list[Definition] | None:
    collecting = _collecting.get()
    return (
        collecting[1] if collecting is not None and collecting[0] == threading.get_ident() else None
    )


@contextmanager
def collect_definitions() -> Iterator[list[Definition]]:
    """Let `pyop` and its like check definitions and collect them, so that a file that fails half-way defines nothing.

    Yields
    ------
    list of Definition
    """
    definitions: list[Definition] = []
    token = _collecting.set((threading.get_ident(), definitions))
    try:
        yield definitions
    finally:
        _collecting.reset(token)


@overload
def pyop(name: _Class) -> _Class: ...
@overload
def pyop(
    name: str | None = None,
    *,
    opset: int = 1,
    module: str | None = None,
    into: Registry | None = None,
) -> Callable[[_Class], _Class]: ...
def pyop(
    name: Any = None, *, opset: int = 1, module: str | None = None, into: Registry | None = None
) -> Any:
    """Make a class an op; the class comes back unchanged.

    Parameters
    ----------
    name : str, optional
        ``domain::OpType``. The default domain is ``pyopnb``, the default op type the class's name.
    opset : int
        First version of the domain that has the op.
    module : str, optional
        Also serve the retired PyOp's nodes that ask for this module and the class's name.
    into : Registry, optional
        Another registry than `pyopnb.registry`.

    Returns
    -------
    type, or a decorator of classes

    Raises
    ------
    DefinitionError
        The class cannot be an op, or the name is no text.

    Examples
    --------
    >>> mine = Registry()
    >>> @pyop("demo::Twice", into=mine)
    ... class Twice:
    ...     def compute(self, x):
    ...         return x * 2
    >>> Twice().compute(4), mine["demo::Twice"].current.number
    (8, 1)
    """
    if not (name is None or isinstance(name, (str, type))):
        got = f"{type(name).__name__} {sanitize(repr(name), 60)}"
        raise DefinitionError(
            "pyop",
            expected="a name, domain::OpType, or a class",
            got=got,
            next='@pyopnb.pyop("demo::SoftClip")',
        )

    if not (into is None or isinstance(into, Registry)):
        raise DefinitionError(
            "pyop, into", expected="a Registry, or None", got=describe(into), next="into=None"
        )

    def define(cls: _Class) -> _Class:
        source = class_source(cls) if isinstance(cls, type) else None  # it is refused
        define_op(
            cls,
            name if isinstance(name, str) else None,
            opset=opset,
            module=module,
            source=source,
            into=into,
        )
        return cls

    return define(name) if isinstance(name, type) else define


def define_op(
    cls: type,
    name: str | None,
    *,
    opset: int,
    source: str | None,
    module: str | None = None,
    into: Registry | None = None,
) -> None:
    """Define an op in a registry; in a file whose definitions are collected, check it and add it to these.

    Parameters
    ----------
    cls : type
    name : str or None
        The class's name in the default domain if None.
    opset : int
    source : str or None
        Where the class's text is known.
    module : str, optional
        As for `pyop`.
    into : Registry, optional
        It gets the op at once. `pyopnb.registry` if not given.

    Raises
    ------
    DefinitionError
        As for `pyop`.
    """
    collected = _collected() if into is None else None
    if collected is None:
        (registry if into is None else into).define(
            cls, name, opset=opset, module=module, source=source
        )
    else:
        key = "::".join(split_name(cls.__name__ if name is None else name))
        check_opset(opset, f"op {key}")
        schema_of(cls)
        collected.append(Definition(cls, key, opset, module, source))


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
    methods = [getattr(cls, "compute", None), *vars(cls).values()]
    code = next((method.__code__ for method in methods if hasattr(method, "__code__")), None)
    # Only its methods know that a class is from a notebook cell or a doctest. This comes before inspect, which since Python
    # 3.13 takes the lines of the same numbers from the file of whatever module the class names.
    if (
        code is not None
        and not os.path.exists(code.co_filename)
        and (lines := linecache.getlines(code.co_filename))
    ):
        return "".join(lines)
    try:
        every, begin = _found(cls)
    except (OSError, TypeError, SyntaxError):  # made by exec, or its file is no module any more
        return None
    lines = inspect.getblock(every[begin - 1 :])
    if (
        code is not None
        and "compute" in vars(cls)
        and not begin <= code.co_firstlineno < begin + len(lines)
    ):
        lines = _class_around(
            "".join(every), cls.__name__, code.co_firstlineno
        )  # another class has the same name
    text = "".join(lines)
    return text if re.search(rf"\bclass\s+{re.escape(cls.__name__)}\b", text) else None


class _ClassLines(NamedTuple):
    """Where a text has a class: from its first decorator to its last statement."""

    qualname: str
    begin: int
    end: int


def _found(cls: type) -> tuple[list[str], int]:
    """Return the lines of a class's file, and the number of the class's first line."""
    every, _ = (
        inspect.findsource(sys.modules[cls.__module__])
        if cls.__module__ in sys.modules
        else ([], 0)
    )
    if "__firstlineno__" in vars(
        Definition
    ):  # since Python 3.13; before, inspect parses the whole file for each class
        begin = vars(cls).get("__firstlineno__", len(every) + 1)
    else:
        begin = next(
            (
                found.begin
                for found in _classes("".join(every))
                if found.qualname == cls.__qualname__
            ),
            len(every) + 1,
        )
    if begin > len(every):
        raise OSError(f"no class {cls.__qualname__} in its file")
    return every, begin


def _class_around(text: str, name: str, line: int) -> list[str]:
    """Return the lines of the class of that name around a line."""
    for found in _classes(text):
        if found.qualname.rpartition(".")[2] == name and found.begin <= line <= found.end:
            return text.splitlines(keepends=True)[found.begin - 1 : found.end]
    return []


@lru_cache(maxsize=8)  # a file that defines many ops is parsed once
def _classes(text: str) -> tuple[_ClassLines, ...]:
    """List all classes of a text, outer ones before inner ones."""
    return tuple(_classes_in(ast.parse(text), ""))


def _classes_in(node: ast.AST, prefix: str) -> Iterator[_ClassLines]:
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, ast.ClassDef):
            begin = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield _ClassLines(prefix + child.name, begin, child.end_lineno or child.lineno)
            inside = f"{prefix}{child.name}."
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = f"{prefix}{child.name}.<locals>."
        if isinstance(
            child, (ast.stmt, ast.excepthandler, ast.match_case)
        ):  # no expression has a class in it
            yield from _classes_in(child, inside)

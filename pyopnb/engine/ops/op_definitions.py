"""The decorator that makes a class an op, and definitions that wait until a whole file ran."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, overload

from pyopnb.common import sanitize
from pyopnb.engine.ops.argument_checks import check_arguments
from pyopnb.engine.ops.class_texts import class_source
from pyopnb.engine.ops.op_names import check_opset, split_name
from pyopnb.engine.ops.op_run import as_op, name_of
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.signature import schema_of
from pyopnb.errors import DefinitionError

__all__ = ["Definition", "collect_definitions", "define_op", "pyop"]

_Class = TypeVar("_Class", bound=type)


class Definition(NamedTuple):
    """A definition that `pyop` has checked but not made: the arguments of `Registry.define`."""

    cls: type
    name: str
    opset: int
    module: str | None
    source: str | None


# With the thread that collects: without the GIL, a new thread begins with the context of
# the one that starts it.
_collecting: ContextVar[tuple[int, list[Definition]] | None] = ContextVar(
    "collecting", default=None
)


def _collected() -> list[Definition] | None:
    collecting = _collecting.get()
    if collecting is None or collecting[0] != threading.get_ident():
        return None
    return collecting[1]


@contextmanager
def collect_definitions() -> Iterator[list[Definition]]:
    """Let `pyop` and similar decorators only check and collect definitions.

    A file that fails half-way then defines nothing.
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
) -> Callable[[_Class], _Class]: ...
@functools.partial(check_arguments, advice={"domain": '"domain::OpType"'})
def pyop(name: Any = None, *, opset: int = 1, module: str | None = None) -> Any:
    """Make a class an op; the class comes back unchanged.

    Parameters
    ----------
    name : str, optional
        ``domain::OpType``. The default domain is ``pyopnb``, the default op type the class's name.
    opset : int
        First version of the domain that has the op.
    module : str, optional
        Also serve the retired PyOp's nodes that ask for this module and the class's name.

    Returns
    -------
    type, or a decorator of classes
        The class itself under a plain ``@pyop``; a decorator if there are arguments.

    Raises
    ------
    DefinitionError
        The class cannot be an op, or the name is no text.

    Examples
    --------
    >>> from pyopnb import registry
    >>> @pyop("doctest::Fourfold")
    ... class Fourfold:
    ...     def compute(self, x):
    ...         return x * 4
    >>> Fourfold().compute(4), registry["doctest::Fourfold"].current.number
    (16, 1)
    """
    if not (name is None or isinstance(name, (str, type))):
        got = f"{type(name).__name__} {sanitize(repr(name), 60)}"
        raise DefinitionError(
            "pyop",
            expected="a name, domain::OpType, or a class",
            got=got,
            next='@pyopnb.pyop("demo::SoftClip")',
        )

    def define(cls: _Class) -> _Class:
        source = class_source(cls) if isinstance(cls, type) else None  # define_op refuses others
        define_op(
            cls,
            name if isinstance(name, str) else None,
            opset=opset,
            module=module,
            source=source,
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
) -> None:
    """Define an op, or only check and collect it while a file runs.

    Parameters
    ----------
    name : str or None
        The class's name in the default domain if None.
    source : str or None
        Where the class's text is known.
    module : str, optional
        As for `pyop`.

    Raises
    ------
    DefinitionError
        As for `pyop`.
    """
    collected = _collected()
    if collected is None:
        registry.define(cls, name, opset=opset, module=module, source=source)
    else:
        # A fault of the class itself is refused at its line, while the file runs.
        key = "::".join(split_name(name_of(cls) if name is None else name))
        check_opset(opset, f"op {key}")
        schema_of(as_op(cls))
        collected.append(Definition(cls, key, opset, module, source))

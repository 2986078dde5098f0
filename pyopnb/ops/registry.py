"""The registry: ops under their names, each with its versions.

Redefining replaces one reference and tells the listeners; the magics, the sessions and the views know this small object in
the middle and not each other. A new version is built and checked whole before the swap, so a definition that fails leaves
the last good one in place.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from pyopnb.ops.displayable import Displayable
from pyopnb.ops.errors import DefinitionError, UnknownOp, sanitize, suggest
from pyopnb.ops.schema import Schema
from pyopnb.ops.signature import schema_of

__all__ = [
    "DEFAULT_DOMAIN",
    "MAX_VERSIONS",
    "Definition",
    "Op",
    "Registry",
    "Version",
    "canonical_domain",
    "check_opset",
    "class_source",
    "collect_definitions",
    "pyop",
    "registry",
    "split_name",
]

DEFAULT_DOMAIN = "pyopnb"
MAX_VERSIONS = 100
"""Versions of an op that history and rollback reach back to; older ones are let go: redefining all day costs nothing."""

_LISTED = 50  # ops in the text of the registry

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOMAIN = re.compile(r"[\w.\-]*", re.ASCII)


@dataclass(frozen=True, repr=False)
class Version(Displayable):
    """The n-th definition of an op under one name.

    Attributes
    ----------
    op : str
        ``domain::OpType``.
    number : int
        1 for the first.
    cls : type
        The class, as it was given.
    schema : Schema
    opset : int
        Version of the domain from which on the op is there (ONNX's since_version).
    source : str or None
        Text of the cell or class, where it is known.
    defined : float
        Seconds since the epoch, as `time.time` gives them.
    epoch : int
        The registry's epoch that began with this version.
    restored : int or None
        Number of the version that a rollback brought back as this one.
    """

    op: str
    number: int
    cls: type
    schema: Schema
    opset: int
    source: str | None
    defined: float
    epoch: int
    restored: int | None = None

    def __str__(self) -> str:
        return f"{self.op}, version {self.number}"

    def __repr__(self) -> str:
        return f"{self}: {self.schema}"


@dataclass(repr=False)
class Op(Displayable):
    """A name and the versions that stood under it, the newest last.

    Attributes
    ----------
    name : str
        ``domain::OpType``.
    versions : tuple of Version
        Replaced whole by each definition, so that a run in another thread can walk through it meanwhile.
    lock : threading.RLock
        Held around ``compute`` where the class says ``serial = True``. Reentrant, because a run inside ``compute`` works.
    """

    name: str
    versions: tuple[Version, ...] = ()
    lock: Any = field(default_factory=threading.RLock, repr=False)

    def __repr__(self) -> str:
        return f"{self.current!r}" if self.versions else f"{self.name}, no version"

    @property
    def current(self) -> Version:
        return self.versions[-1]

    @property
    def domain(self) -> str:
        return split_name(self.name)[0]

    @property
    def op_type(self) -> str:
        return split_name(self.name)[1]

    def at(self, epoch: int) -> Version:
        """The version that was current in that epoch; the oldest kept one where that is gone."""
        for version in reversed(self.versions):
            if version.epoch <= epoch:
                return version
        return self.versions[0]


def split_name(name: str) -> tuple[str, str]:
    """``"demo::SoftClip"`` as ``("demo", "SoftClip")``; without ``::`` in the default domain; ``"::Relu"`` is ONNX's Relu.

    Raises
    ------
    DefinitionError
        The op type is no identifier, or the domain has other characters than letters, digits, ``.``, ``-`` and ``_``.
    """
    domain, found, op_type = name.rpartition("::")
    domain = domain if found else DEFAULT_DOMAIN
    if not _IDENTIFIER.fullmatch(op_type) or not _DOMAIN.fullmatch(domain):
        raise DefinitionError("op name", expected="domain::OpType", got=sanitize(repr(name)), next='"demo::SoftClip"')
    return canonical_domain(domain), op_type


def canonical_domain(domain: str) -> str:
    """The domain as models mostly have it: ``""`` for ``"ai.onnx"``, ONNX's other name for its own."""
    return "" if domain == "ai.onnx" else domain


def check_opset(opset: object, where: str) -> None:
    """Raise `DefinitionError` unless an op can be there from that version of its domain on."""
    if type(opset) is not int or not 1 <= opset <= 1000:
        raise DefinitionError(f"{where}, opset", expected="a number from 1 to 1000", got=sanitize(repr(opset)))


class Registry(Displayable):
    """Ops by name. `pyopnb.registry` is the one that sessions use; tests make their own.

    Examples
    --------
    >>> registry = Registry()
    >>> class Twice:
    ...     def compute(self, x): return x * 2
    >>> str(registry.define(Twice, "demo::Twice"))
    'demo::Twice, version 1'
    >>> [op.name for op in registry]
    ['demo::Twice']
    """

    def __init__(self) -> None:
        self._ops: dict[str, Op] = {}
        # For the sessions that still use them, and no longer than these do.
        self._removed: weakref.WeakValueDictionary[str, Op] = weakref.WeakValueDictionary()
        self._modules: dict[tuple[str, str], Op] = {}
        self._listeners: dict[object, tuple[Callable[[Version], None], Callable[[str], None] | None]] = {}
        self._lock = threading.RLock()
        self.epoch = 0

    def __repr__(self) -> str:
        ops = list(self)
        if not ops:
            return "no op is defined. Try: %%pyop in a cell"
        return "\n".join([repr(op) for op in ops[:_LISTED]] + [f"and {len(ops) - _LISTED} more"] * (len(ops) > _LISTED))

    def define(
        self,
        cls: type,
        name: str | None = None,
        *,
        opset: int = 1,
        module: str | None = None,
        source: str | None = None,
        restored: int | None = None,
    ) -> Version:
        """Put a class under a name, as its next version, and tell the listeners.

        Parameters
        ----------
        cls : type
            See `schema_of`.
        name : str, optional
            ``domain::OpType``; the class's own name in the default domain if not given.
        opset : int
            Version of the domain from which on the op is there.
        module : str, optional
            Also serve the retired PyOp's nodes that ask for this module and the class's name.
        source : str, optional
            Its text, for `history`.

        Raises
        ------
        DefinitionError
            The class cannot be an op; the registry is as it was.
        """
        domain, op_type = split_name(name or cls.__name__)
        key = f"{domain}::{op_type}"
        check_opset(opset, f"op {key}")
        schema = schema_of(cls)
        with self._lock:
            # A removed op that comes back is the same op to the sessions that still use it: its numbers go on.
            op = self._ops.get(key) or self._removed.pop(key, None) or Op(key)
            number = op.current.number + 1 if op.versions else 1
            version = Version(key, number, cls, schema, opset, source, time.time(), self.epoch + 1, restored)
            op.versions = (*op.versions, version)[-MAX_VERSIONS:]
            self._ops[key] = op
            if module is not None:
                self._modules[module, cls.__name__] = op
            self.epoch += 1
        self._tell([(listener, version) for listener, _ in list(self._listeners.values())])
        return version

    def begin_epoch(self) -> int:
        """Begin an epoch without a definition: what runs from now on can be told from the runs before."""
        with self._lock:
            self.epoch += 1
            return self.epoch

    def _tell_of_removal(self, names: Iterable[str]) -> None:
        listeners = [removed for _, removed in list(self._listeners.values()) if removed]
        self._tell([(removed, name) for name in names for removed in listeners])

    def _tell(self, calls: Iterable[tuple[Callable[[Any], None], Any]]) -> None:
        failures: list[Exception] = []
        for listener, what in calls:  # a list made before: a listener may subscribe or leave while it is told
            try:
                listener(what)
            except Exception as error:  # it has happened already: the others must hear of it all the same
                failures.append(error)
        if failures:
            raise failures[0]

    def subscribe(
        self, listener: Callable[[Version], None], *, removed: Callable[[str], None] | None = None
    ) -> Callable[[], None]:
        """Call ``listener(version)`` after each definition; returns what ends that.

        ``removed(name)`` is called after an op is forgotten, by `remove` or by `clear`. All listeners are told, then the first
        exception that one of them raised is raised.
        """
        key = object()
        self._listeners[key] = listener, removed

        def leave() -> None:
            self._listeners.pop(key, None)

        return leave

    def __getitem__(self, name: str) -> Op:
        domain, op_type = split_name(name)
        op = self._ops.get(f"{domain}::{op_type}")
        if op is None:
            found = self._by_type(name)
            if found is None:
                raise UnknownOp(
                    f"op {sanitize(name)}",
                    expected="an op of the registry",
                    got=sanitize(name),
                    next=suggest(f"{domain}::{op_type}", self._ops) if self._ops else "define it: %%pyop",
                )
            return found
        return op

    def _by_type(self, name: str) -> Op | None:
        # Typing %pyop history SoftClip should work while only one domain has a SoftClip.
        same = [op for op in self._ops.values() if op.op_type == name]
        return same[0] if len(same) == 1 else None

    def find(self, domain: str, op_type: str) -> Op | None:
        """The op of exactly that domain and type, or None."""
        return self._ops.get(f"{'' if domain == 'ai.onnx' else domain}::{op_type}")

    def find_class(self, module: str, class_name: str) -> Op | None:
        """The op that serves the retired PyOp's ``module`` and ``class_name``, or None."""
        return self._modules.get((module, class_name))

    def modules_of(self, name: str) -> tuple[str, ...]:
        """The modules that an op stands in for, for the retired PyOp's nodes."""
        return tuple(module for (module, _), op in self._modules.items() if op.name == name)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self[name])
        except (UnknownOp, DefinitionError):
            return False

    def __iter__(self) -> Iterator[Op]:
        return iter(sorted(self._ops.values(), key=lambda op: op.name))

    def __len__(self) -> int:
        return len(self._ops)

    def history(self, name: str) -> tuple[Version, ...]:
        """The versions of an op, oldest first, the last `MAX_VERSIONS` of them."""
        return self[name].versions

    def rollback(self, name: str, number: int | None = None) -> Version:
        """Make an earlier version current again, as a new version.

        Parameters
        ----------
        name : str
        number : int, optional
            The version to bring back; the one before the current if not given.

        Raises
        ------
        UnknownOp
            There is no such op or no such version.
        """
        op = self[name]
        with self._lock:
            wanted = op.current.number - 1 if number is None else number
            old = next((v for v in op.versions if v.number == wanted), None)
            if old is None:
                kept = ", ".join(str(v.number) for v in op.versions)
                raise UnknownOp(f"op {op.name}, rollback", expected=f"one of versions {kept}", got=str(wanted))
        return self.define(old.cls, op.name, opset=old.opset, source=old.source, restored=old.number)

    def remove(self, name: str) -> None:
        """Forget an op. Sessions that use it keep the version that they have, and follow if the name is defined again."""
        op = self[name]
        with self._lock:
            if self._ops.pop(op.name, None):  # another thread may have been faster
                self._removed[op.name] = op
            self._modules = {key: held for key, held in self._modules.items() if held is not op}
        self._tell_of_removal([op.name])

    def clear(self) -> None:
        """Forget every op, and that there was any: numbers begin at 1 again."""
        with self._lock:
            names = list(self._ops)
            self._ops.clear()
            self._removed.clear()
            self._modules.clear()
        self._tell_of_removal(names)


_Class = TypeVar("_Class", bound=type)

registry = Registry()
"""The registry that sessions use."""


@dataclass(frozen=True)
class Definition:
    """What `pyop` was asked for, as `Registry.define` takes it."""

    cls: type
    name: str
    opset: int
    module: str | None
    source: str | None


_gathering: ContextVar[list[Definition] | None] = ContextVar("gathering", default=None)


@contextmanager
def collect_definitions() -> Iterator[list[Definition]]:
    """What `pyop` is asked for meanwhile, checked and not yet defined: a file that fails half-way has then defined nothing."""
    definitions: list[Definition] = []
    token = _gathering.set(definitions)
    try:
        yield definitions
    finally:
        _gathering.reset(token)


@overload
def pyop(name: _Class) -> _Class: ...
@overload
def pyop(
    name: str | None = None, *, opset: int = 1, module: str | None = None, into: Registry | None = None
) -> Callable[[_Class], _Class]: ...
def pyop(name: Any = None, *, opset: int = 1, module: str | None = None, into: Registry | None = None) -> Any:
    """Make a class an op; the class comes back unchanged.

    Parameters
    ----------
    name : str, optional
        ``domain::OpType``. The default domain is ``pyopnb``, the default op type the class's name.
    opset : int
        Version of the domain from which on the op is there.
    module : str, optional
        Also serve the retired PyOp's nodes that ask for this module and the class's name.
    into : Registry, optional
        Another registry than `pyopnb.registry`.

    Raises
    ------
    DefinitionError
        The class cannot be an op.

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

    def define(cls: _Class) -> _Class:
        held = _gathering.get() if into is None else None
        if held is None:
            target = registry if into is None else into
            target.define(cls, name if isinstance(name, str) else None, opset=opset, module=module, source=class_source(cls))
        else:
            key = "::".join(split_name(name if isinstance(name, str) else cls.__name__))
            check_opset(opset, f"op {key}")
            schema_of(cls)
            held.append(Definition(cls, key, opset, module, class_source(cls)))
        return cls

    return define(name) if isinstance(name, type) else define


def class_source(cls: type) -> str | None:
    """The text of a class, or of the whole cell that defines it.

    Parameters
    ----------
    cls : type

    Returns
    -------
    str or None
        None where no file and no cell has it.
    """
    code = getattr(getattr(cls, "compute", None), "__code__", None)
    # A class of a notebook cell or a doctest, which only its methods can name. Before inspect is asked: since Python 3.13 that
    # takes the lines of the same numbers from the file of whatever module the class says it is in.
    if code is not None and not os.path.exists(code.co_filename) and (lines := linecache.getlines(code.co_filename)):
        return "".join(lines)
    try:
        lines, begin = inspect.getsourcelines(cls)
        every, _ = inspect.findsource(cls)
    except (OSError, TypeError):  # made by exec
        return None
    if code is not None and "compute" in vars(cls) and not begin <= code.co_firstlineno < begin + len(lines):
        lines = _around("".join(every), cls.__name__, code.co_firstlineno)  # of several of that name it is not the right one
    text = "".join(lines)
    return text if re.search(rf"\bclass\s+{re.escape(cls.__name__)}\b", text) else None


def _around(text: str, name: str, line: int) -> list[str]:
    """The class of a name that a line is in."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == name and node.lineno <= line <= (node.end_lineno or line):
            begin = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            return text.splitlines(keepends=True)[begin - 1 : node.end_lineno]
    return []

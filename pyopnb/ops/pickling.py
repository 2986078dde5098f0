"""Pickles of classes, ops and their versions, which other processes open under the same names.

A class that another process can import goes by name, as with any pickle. All others, such as those of a notebook, go by value,
as cloudpickle writes them. A class has a key that travels with it, so that a process which has the class already keeps its own:
opening a pickle twice, or where it was made, defines nothing anew.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from pyopnb.errors import DefinitionError
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import split_name
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import registry
from pyopnb.ops.source import is_importable

__all__ = ["dumps", "open_op", "open_version", "reduce_op", "reduce_version"]

_keys: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
_opening = (
    threading.RLock()
)  # two threads that open one pickle at once must get one class and one op


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
    """Writes the classes that no other process can import by value, each beside its key."""

    def __init__(
        self, file: Any, inside: frozenset[type], buffer_callback: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)
        self._inside = inside  # classes whose own pickle this is a part of

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value not in self._inside and not _has_home(value):
            return _open_class, (_key_of(value), _dump_class(value, self._inside))
        return super().reducer_override(value)


def dumps(value: object, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Pickle an object, with the classes of the notebook by value.

    Parameters
    ----------
    value : object
    buffer_callback : callable, optional
        As `pickle.dumps` takes it: called with each large buffer that the pickle leaves out.

    Returns
    -------
    bytes
    """
    return _dumps(value, frozenset(), buffer_callback)


def _dumps(
    value: object, inside: frozenset[type], buffer_callback: Callable[[Any], Any] | None = None
) -> bytes:
    file = io.BytesIO()
    _Pickler(file, inside, buffer_callback).dump(value)
    return file.getvalue()


def _has_home(cls: type) -> bool:
    """Tell whether another process can import a class."""
    if not is_importable(cls.__module__):
        return False
    if cls.__module__ in cloudpickle.list_registry_pickle_by_value():
        return False  # as the user asked
    value: Any = sys.modules[cls.__module__]
    for name in cls.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is cls


def _key_of(cls: type) -> str:
    with _opening:
        key = _keys.setdefault(cls, uuid.uuid4().hex)
        _classes[key] = cls
        return key


def _dump_class(cls: type, inside: frozenset[type]) -> bytes:
    # What a class wraps may belong to this process, as the address of compiled code does: it says how to make it anew.
    reduce_class = getattr(cls, "__pyopnb_reduce__", None)
    if reduce_class is not None:
        return pickle.dumps(reduce_class())
    return _dumps(cls, inside | {cls})


def _open_class(key: str, data: bytes) -> type:
    with _opening:
        cls = _classes.get(key)
        if cls is None:
            cls = pickle.loads(data)  # noqa: S301  # whoever opens a pickle runs it
            if isinstance(cls, tuple):
                (module, function), arguments = cls
                cls = getattr(importlib.import_module(module), function)(*arguments)
            _classes[key] = cls
            _keys[cls] = key
        return cls


# ---- versions and ops --------------------------------------------------------------------------


def reduce_version(version: Version) -> tuple[Any, ...]:
    """Take a version apart for a pickle.

    Parameters
    ----------
    version : Version

    Returns
    -------
    tuple

    Raises
    ------
    DefinitionError
        Its class uses what cannot be pickled.
    """
    fields = {
        "op": version.op,
        "number": version.number,
        "cls": version.cls,
        "schema": version.schema,
        "opset": version.opset,
        "source": version.source,
        "defined": version.defined,
        "epoch": 0,
        "gradient": version.gradient,
        "gradient_of": version.gradient_of,
    }
    try:
        return open_version, (dumps(fields),)
    except DefinitionError:
        raise
    except Exception as error:  # a user's class can raise anything here
        raise DefinitionError(
            f"op {version.op}",
            expected="a class that can be pickled, with all that its methods use",
            got=sanitize(f"{type(error).__name__}: {error}", 160),
            next="make what cannot be pickled in __init__, or in a module that the other process imports",
        ) from error


def open_version(data: bytes) -> Version:
    """Open a version: this process's own where it has it.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    Version
    """
    version = Version(**pickle.loads(data))  # noqa: S301  # as above
    op = registry.find(*split_name(version.op))
    for known in () if op is None else op.versions:
        if known.cls is version.cls and known.number == version.number:
            return known
    return version


def reduce_op(op: Op) -> tuple[Any, ...]:
    """Take an op apart for a pickle: its current version, and the modules whose retired nodes it serves.

    Parameters
    ----------
    op : Op

    Returns
    -------
    tuple
    """
    version = op.current
    definer = registry.defining(version)
    is_gradient = definer is not version
    return open_op, (definer, registry.modules_of(definer.op), is_gradient)


def open_op(version: Version, modules: tuple[str, ...] = (), is_gradient: bool = False) -> Op:
    """Open an op: the registry's where that has the class, else one that is registered if its name is free.

    Parameters
    ----------
    version : Version
    modules : tuple of str
        Modules under which it serves the retired PyOp's nodes.
    is_gradient : bool
        Whether the version's gradient op is meant.

    Returns
    -------
    Op
    """
    with _opening:
        op = registry.find(*split_name(version.op))
        if op is None or op.current.cls is not version.cls:
            op = registry.admit(version, modules)
    gradient = registry.gradient_of(op) if is_gradient else None
    return gradient or op

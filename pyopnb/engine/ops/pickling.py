"""Pickles of classes, ops and their versions, which other processes open under the same names.

A class that another process can import goes by name, as with any pickle. All others, such as
classes of a notebook, go by value, as cloudpickle writes them. A class has a key that travels with
it, so that a process which has the class already keeps it: opening a pickle twice, or where it was
made, defines nothing again.

Importing this module registers how ops and versions are pickled; `pyopnb` does so.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import io
import pickle
import sys
import threading
import uuid
import weakref
from typing import Any

from pyopnb.common import sanitize
from pyopnb.engine.ops.class_texts import is_importable
from pyopnb.engine.ops.op import Op, Version
from pyopnb.engine.ops.op_names import split_name
from pyopnb.engine.ops.op_run import as_op, written_class
from pyopnb.engine.ops.registry import registry
from pyopnb.errors import DefinitionError

__all__ = ["dumps", "open_op", "open_op_run"]

_keys: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
_classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()

# Two threads that open one pickle at once must get one class and one op.
_lock = threading.RLock()


def dumps(value: object) -> bytes:
    """Pickle an object, with the classes of the notebook by value."""
    return _dumps(value, frozenset())


def _dumps(
    value: object,
    enclosing: frozenset[type],
) -> bytes:
    file = io.BytesIO()
    _pickler_class()(file, enclosing).dump(value)
    return file.getvalue()


@functools.cache
def _pickler_class() -> Any:
    """Define the pickler at its first use, because importing cloudpickle takes 15 ms."""
    import cloudpickle  # type: ignore[import-untyped]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
        """Writes the classes that no other process can import by value, each beside its key."""

        def __init__(
            self,
            file: Any,
            enclosing: frozenset[type],
        ) -> None:
            super().__init__(file, protocol=5)
            # The classes whose pickle this one is a part of. They are written by cloudpickle
            # itself; a key for them would lead back to here forever.
            self._enclosing = enclosing
            self._by_value = cloudpickle.list_registry_pickle_by_value()

        def reducer_override(self, value: Any) -> Any:
            is_new_class = isinstance(value, type) and value not in self._enclosing
            if is_new_class and not _can_be_imported(value, self._by_value):
                return _open_class, (_key_of(value), _dump_class(value, self._enclosing))
            return super().reducer_override(value)

    return Pickler


def _can_be_imported(cls: type, modules_by_value: set[str]) -> bool:
    """Tell whether another process finds a class under its name."""
    if cls.__module__ in modules_by_value or not is_importable(cls.__module__):
        return False
    value: Any = sys.modules[cls.__module__]
    for name in cls.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is cls


def _key_of(cls: type) -> str:
    with _lock:
        key = _keys.setdefault(cls, uuid.uuid4().hex)
        _classes[key] = cls
        return key


def _dump_class(cls: type, enclosing: frozenset[type]) -> bytes:
    # A class may wrap something of this process, such as the address of compiled code. Such a
    # class says how to make it again.
    written = written_class(cls)
    if written is not cls:
        data = _dumps(written, enclosing | {cls})
        return pickle.dumps(((__name__, open_op_run.__name__), (data,)))
    reduce_class = getattr(cls, "__pyopnb_reduce__", None)
    if reduce_class is not None:
        return pickle.dumps(reduce_class())
    return _dumps(cls, enclosing | {cls})


def _open_class(key: str, data: bytes) -> type:
    with _lock:
        cls = _classes.get(key)
        if cls is None:
            cls = pickle.loads(data)  # noqa: S301  # opening a pickle runs it
            if isinstance(cls, tuple):
                (module, function), arguments = cls
                cls = getattr(importlib.import_module(module), function)(*arguments)
            _classes[key] = cls
            _keys[cls] = key
        return cls


def open_op_run(data: bytes) -> type:
    """Make the op of an ``OpRun`` class that another process pickled."""
    return as_op(pickle.loads(data))  # noqa: S301  # as above


# ---- versions and ops ----------------------------------------------------------------------------


def _reduce_version(version: Version) -> tuple[Any, ...]:
    """Take a version apart for a pickle."""
    # The epoch of this process means nothing in another one.
    fields = {**vars(version), "epoch": 0}
    try:
        return _open_version, (dumps(fields),)
    except DefinitionError:
        raise  # of its gradient op, which was named already
    except Exception as error:  # a user's class can raise anything here
        raise DefinitionError(
            f"op {version.op}",
            expected="a class that can be pickled, with all that its methods use",
            got=sanitize(f"{type(error).__name__}: {error}", 160),
            next=(
                "make what cannot be pickled in __init__, "
                "or in a module that the other process imports"
            ),
        ) from error


def _open_version(data: bytes) -> Version:
    """Open a version; prefer the one of this process where it has the same class and number."""
    version = Version(**pickle.loads(data))  # noqa: S301  # as above
    op = registry.find(*split_name(version.op))
    if op is not None:
        for local in op.versions:
            if local.cls is version.cls and local.number == version.number:
                return local
    return version


def _reduce_op(op: Op) -> tuple[Any, ...]:
    """Take an op apart for a pickle: its current version, without the history."""
    # A gradient op travels with the op that it belongs to.
    modules = registry.modules_of(op.definer.name)
    return open_op, (op.definer.current, modules, op.base is not None)


def open_op(version: Version, modules: tuple[str, ...] = (), is_gradient: bool = False) -> Op:
    """Open an op that another process pickled.

    If the registry has an op of that name and class, it is that one. Otherwise the version becomes
    an op, which is registered if its name is free.

    Parameters
    ----------
    modules : tuple of str
        Modules under which it serves the retired PyOp's nodes.
    is_gradient : bool
        Whether the version's gradient op is meant.
    """
    with _lock:
        op = registry.find(*split_name(version.op))
        if op is None or op.current.cls is not version.cls:
            op = registry.admit(version, modules)
    if is_gradient:
        return op.gradient or op
    return op


copyreg.pickle(Version, _reduce_version)
copyreg.pickle(Op, _reduce_op)

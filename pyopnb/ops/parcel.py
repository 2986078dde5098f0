"""Ops packed for another process, where they are defined under the same name and number.

An op of a module that the other process has with the same source goes by name. Any other goes by value: its source and what
that uses, as `pyopnb.save_module` writes them, and those values beside it that are no plain constants. A class that no text can
define, as it was made in a function, goes through cloudpickle where that is installed. Opening a parcel runs what is in it, as
unpickling anything does.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import io
import pickle
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyopnb.ops.backward import gradient_class, gradient_name, gradient_schema
from pyopnb.ops.definitions import class_source
from pyopnb.ops.errors import DefinitionError, sanitize
from pyopnb.ops.exec_module import exec_source
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import registry
from pyopnb.ops.signature import schema_of
from pyopnb.ops.source import SourceClosure, is_importable, portable_closure

__all__ = ["InstanceParcel", "OpParcel", "open_op", "open_version", "pack_instance", "pack_op"]

_PROTOCOL = 5
_CLASS = ""  # by which an instance names the op's own class; no definition has that name


@dataclass(frozen=True)
class OpParcel:
    """A version of an op, packed.

    Attributes
    ----------
    name : str
        ``domain::OpType``.
    number, opset, defined
        As `Version` has them.
    modules : tuple of str
        Under which it serves the retired PyOp's nodes.
    home : tuple of (str, str) or None
        Module and qualified name of the class, where a module has it.
    source : str or None
        The text of a module that defines the op; None where its home does, or ``values`` is the class.
    values : bytes
        A pickle of the globals which that module needs beforehand, or of the class itself.
    digest : str
        Of the source and the values; of the class's text where there are none.
    gradient : int or None
        The number of its gradient op's version, if it has one.
    is_gradient : bool
        Whether that one is meant.
    """

    name: str
    number: int
    opset: int
    defined: float
    modules: tuple[str, ...]
    home: tuple[str, str] | None
    source: str | None
    values: bytes
    digest: str
    gradient: int | None = None
    is_gradient: bool = False

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"{sanitize(self.name)}, version {self.number}"


_opened: weakref.WeakKeyDictionary[type, OpParcel] = weakref.WeakKeyDictionary()
"""The parcels of classes that came from other processes: they are sent on as they are, and known again."""


def pack_op(version: Version) -> OpParcel:
    """Pack a version of an op.

    Parameters
    ----------
    version : Version

    Returns
    -------
    OpParcel

    Raises
    ------
    DefinitionError
        It uses what cannot come along, which the message names with its type.
    """
    if (definer := registry.defining(version)) is not version:
        return replace(pack_op(definer), is_gradient=True)
    known = _opened.get(version.cls)
    gradient = version.gradient.number if version.gradient else None
    if known is not None:
        return replace(known, number=version.number, opset=version.opset, defined=version.defined, gradient=gradient)
    home = _home(version.cls)
    closure: SourceClosure | None
    try:
        closure = portable_closure(version)
        if home is not None and closure.values:  # those of a module may be anything, and belong to it
            closure = None
    except DefinitionError as error:
        closure = None
        values = b"" if home is not None else _packed_class(version, error)
    else:
        values = b"" if closure is None else _packed_values(closure, version)
    text = class_source(version.cls) or "" if closure is None else closure.text
    return OpParcel(
        name=version.op,
        number=version.number,
        opset=version.opset,
        defined=version.defined,
        modules=registry.modules_of(version.op),
        home=home,
        source=None if closure is None else closure.text,
        values=values,
        digest=hashlib.sha256(text.encode() + b"\0" + values).hexdigest(),
        gradient=gradient,
    )


def _home(cls: type) -> tuple[str, str] | None:
    """Where a module that another process can import has the class."""
    value: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        value = getattr(value, name, None)
    return (cls.__module__, cls.__qualname__) if value is cls and is_importable(cls.__module__) else None


def _packed_values(closure: SourceClosure, version: Version) -> bytes:
    for name, value in closure.values.items():
        try:
            _dump(value, {})
        except Exception as error:  # a user's class can raise anything here
            raise DefinitionError(
                f"op {version.op}, global {sanitize(name)}",
                expected="a value that can be pickled",
                got=f"{_article(value)}: {sanitize(error, 120)}",
                next="make it inside the class, or in a module that the other process imports",
            ) from error
    return bytes(_dump(dict(closure.values), {})[0]) if closure.values else b""


def _packed_class(version: Version, error: DefinitionError) -> bytes:
    """A class as cloudpickle writes it; where it cannot, or is not there, the error that no text can define it."""
    try:
        dumps: Callable[[object], bytes] = importlib.import_module("cloudpickle").dumps
    except ImportError:
        error.add_note("cloudpickle, once installed, may pickle it")
        raise error from None
    try:
        return dumps(version.cls)
    except Exception as reason:  # a user's class can raise anything here
        name, value = next(_unpicklable_names(version.cls, dumps), (version.cls.__name__, version.cls))
        raise DefinitionError(
            f"op {version.op}, {sanitize(name)}",
            expected="a value that can be pickled",
            got=f"{_article(value)}: {sanitize(reason, 120)}",
            next="make it inside the class, or in a module that the other process imports",
        ) from reason


def _unpicklable_names(cls: type, dumps: Callable[[object], bytes]) -> Iterator[tuple[str, object]]:
    for function in filter(inspect.isfunction, vars(cls).values()):
        used = inspect.getclosurevars(function)
        for name, value in [*used.nonlocals.items(), *used.globals.items()]:
            try:
                dumps(value)
            except Exception:  # as above
                yield name, value


def _article(value: object) -> str:
    kind = type(value)
    return f"an object of {kind.__name__ if kind.__module__ == 'builtins' else f'{kind.__module__}.{kind.__qualname__}'}"


# ---- opening -----------------------------------------------------------------------------------------------------------------


def open_op(parcel: OpParcel) -> Op:
    """The op of a parcel: the registry's where that has the same, else defined now.

    Parameters
    ----------
    parcel : OpParcel

    Returns
    -------
    Op
        Where the registry has another op of that name, it keeps it, and this one is beside it: see `Registry.admit`.

    Raises
    ------
    DefinitionError
        The op is that of a module which this process lacks, or has with another source.
    Exception
        What its source raises.
    """
    op = _defined(parcel)
    gradient = registry.gradient_of(op) if parcel.is_gradient else None
    return gradient or op


def _defined(parcel: OpParcel) -> Op:
    known = registry.serving(parcel.name, parcel.number, lambda version: _is_same(version, parcel))
    if known is not None:
        return known
    cls, source = _from_home(parcel) or _from_source(parcel)
    again = registry.serving(parcel.name, parcel.number, lambda version: version.cls is cls)  # importing it may define it
    return again or registry.admit(_version(parcel, cls, source), parcel.modules)


def _version(parcel: OpParcel, cls: type, source: str | None) -> Version:
    schema, gradient = schema_of(cls), None
    if parcel.gradient is not None and schema.differentiable:
        gradient = Version(
            gradient_name(parcel.name),
            parcel.gradient,
            gradient_class(cls, schema, parcel.name),
            gradient_schema(schema, parcel.name),
            parcel.opset,
            source,
            parcel.defined,
            0,
            gradient_of=parcel.name,
        )
    return Version(parcel.name, parcel.number, cls, schema, parcel.opset, source, parcel.defined, 0, gradient=gradient)


def open_version(parcel: OpParcel) -> Version:
    """The version of a parcel; see `open_op`.

    Parameters
    ----------
    parcel : OpParcel

    Returns
    -------
    Version
    """
    return open_op(parcel).current


def _is_same(version: Version, parcel: OpParcel) -> bool:
    try:
        return pack_op(version).digest == parcel.digest
    except DefinitionError:  # it uses by now what cannot be packed
        return False


def _from_home(parcel: OpParcel) -> tuple[type, str | None] | None:
    """The class of a module, if this process can import it with the same source."""
    if parcel.home is None:
        return None
    module, name = parcel.home
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        if parcel.source is not None:
            return None
        raise _absent(parcel, sanitize(error)) from error
    if isinstance(value, type):
        version = _version(parcel, value, class_source(value))
        if _is_same(version, parcel):
            return value, version.source
    if parcel.source is None:
        raise _absent(parcel, "one with another source")
    return None


def _absent(parcel: OpParcel, got: str) -> DefinitionError:
    module, name = parcel.home or ("", "")
    return DefinitionError(
        f"op {parcel.label}, in another process",
        expected=f"the class {sanitize(name)} of module {sanitize(module)}, as it was where the op was packed",
        got=got,
        next=f"install the same {sanitize(module.partition('.')[0])} there, and start that process anew",
    )


def _from_source(parcel: OpParcel) -> tuple[type, str | None]:
    opened = (cls for cls, other in _opened.items() if (other.name, other.digest) == (parcel.name, parcel.digest))
    if (known := next(opened, None)) is not None:  # under another number
        return known, parcel.source
    name = f"pyop_parcel_{re.sub(r'[^0-9A-Za-z]', '_', parcel.name)}_{parcel.digest[:12]}"
    file = f"<{parcel.label}, of another process, sha256:{parcel.digest[:12]}>"
    values: Any = pickle.loads(parcel.values) if parcel.values else {}  # noqa: S301  # whoever opens a parcel unpickles
    if parcel.source is None:
        _opened[values] = parcel
        return values, None
    cls = next(made.cls for made in exec_source(name, file, parcel.source, values) if made.name == parcel.name)
    _opened[cls] = parcel
    return cls, parcel.source


# ---- instances ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InstanceParcel:
    """An instance of an op, packed: a pickle in which the op's own classes and functions are names, and its large buffers."""

    data: bytes
    buffers: tuple[Any, ...]

    def open(self, version: Version) -> object:
        """The instance, of that version's class.

        Parameters
        ----------
        version : Version
            What `open_op` made of the op's parcel.

        Returns
        -------
        object
        """
        return _Unpickler(io.BytesIO(self.data), self.buffers, version.cls, registry.defining(version).cls).load()


def pack_instance(version: Version, instance: object, where: str, *, in_band: bool = False) -> InstanceParcel:
    """Pack an instance of an op, as it is: with what it has kept on ``self``.

    Parameters
    ----------
    version : Version
        Its own.
    instance : object
    where : str
        The node, for errors.
    in_band : bool
        Leave no buffers beside the pickle, as its carrier knows none.

    Returns
    -------
    InstanceParcel

    Raises
    ------
    DefinitionError
        An attribute cannot be pickled; it is named with its type.
    """
    names = _names_of(version)
    try:
        data, *buffers = _dump(instance, names, in_band=in_band)
    except Exception as error:  # a user's class can raise anything here
        raise _unpicklable(instance, names, where, error) from error
    return InstanceParcel(data, tuple(buffers))


def _names_of(version: Version) -> dict[int, str]:
    """What the other process has under a name once the op is there, by id."""
    definer = registry.defining(version)
    known = _opened.get(definer.cls)
    module = _definitions(definer) if known is None or known.source is None else vars(sys.modules[definer.cls.__module__])
    definitions = {id(value): name for name, value in module.items() if isinstance(value, (type, types.FunctionType))}
    return {**definitions, id(version.cls): _CLASS}


def _definitions(version: Version) -> Mapping[str, Any]:
    try:
        return portable_closure(version).definitions
    except DefinitionError:  # it goes by name
        return {}


def _unpicklable(instance: object, names: dict[int, str], where: str, error: Exception) -> DefinitionError:
    for name, value in getattr(instance, "__dict__", {}).items():
        try:
            _dump(value, names)
        except Exception as reason:  # as above
            text = sanitize(reason, 120)
            return _refused(f"{where}, self.{sanitize(name)}", f"{_article(value)}: {text}")
    return _refused(where, f"{type(error).__name__}: {sanitize(error, 120)}")


def _refused(where: str, got: str) -> DefinitionError:
    next_ = "leave it out in __getstate__ of the class, and make it anew in __setstate__"
    return DefinitionError(where, expected="state that can be pickled", got=got, next=next_)


def _dump(value: object, names: dict[int, str], *, in_band: bool = True) -> list[Any]:
    """A pickle, and the buffers that are not in it."""
    file = io.BytesIO()
    buffers: list[Any] = []
    _Pickler(file, names, None if in_band else buffers.append).dump(value)
    return [file.getvalue(), *buffers]


class _Pickler(pickle.Pickler):
    """Pickles without what another process cannot import; what it has under a name goes by that name."""

    def __init__(self, file: Any, names: dict[int, str], keep: Callable[[Any], Any] | None) -> None:
        super().__init__(file, _PROTOCOL, buffer_callback=keep)
        self._names = names

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value)) if isinstance(value, (type, types.FunctionType)) else None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, types.FunctionType)) and not is_importable(value.__module__ or ""):
            raise pickle.PicklingError(f"{value.__qualname__} is of {value.__module__}, which no other process can import")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote."""

    def __init__(self, file: Any, buffers: Any, cls: type, definer: type) -> None:
        super().__init__(file, buffers=buffers)
        self._cls, self._definer = cls, definer

    def persistent_load(self, name: str) -> Any:
        return self._cls if name == _CLASS else vars(sys.modules[self._definer.__module__])[name]

"""NumPy as ``compute`` sees it during a trace: functions that create arrays return traced ones.

NumPy dispatches to traced arrays only if one is among the arguments (NEP 13 and 18). The arguments
of ``np.zeros((n, 3))`` are none, but its result may be written to later. So the trace runs a copy
of the op's functions in which ``np`` is this object.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.ufuncs import lower_erf
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import TABLE
from pyopnb.lowering.size_vectors import shape_vector
from pyopnb.lowering.tensors import (
    INT64,
    expand,
    fit,
    node,
)
from pyopnb.lowering.tracing import Traced, is_constant, is_traced, plain, tensor_of

__all__ = ["MAKERS", "NUMPY", "NumpyNamespace", "lower_scipy", "rebound"]


class NumpyNamespace:
    """NumPy, with its array-creating functions replaced."""

    def __getattr__(self, name: str) -> Any:
        if name == "random":
            refuse(
                "random numbers",
                "random numbers as an input, or leave this op in Python",
                "an op that gives the same each time",
            )
        if name in MAKERS:
            return MAKERS[name]
        # All other functions hand over to the arrays, which record.
        return getattr(np, name)

    def __dir__(self) -> list[str]:
        return dir(np)


# ---- makers of arrays ----------------------------------------------------------------------------


# Arguments such as ``order`` and ``device`` are about memory, and change no value.
def _full(shape: Any, fill_value: Any, dtype: Any = None, *memory: Any, **options: Any) -> Any:
    result = np.full(plain(shape), plain(fill_value), dtype)
    if is_constant(shape) and is_constant(fill_value):
        # Traced even if constant, as a later write can make it depend on the inputs.
        return Traced(result)
    to, dims = shape_vector(shape)
    tensor = expand(tensor_of(fill_value, result.dtype), to, dims)
    return Traced(result, fit(tensor, result))


def _full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    if type(a) is Traced:
        array = a
    else:
        array = Traced(np.asarray(plain(a)))
    if shape is None:
        shape = array.shape
    if dtype is None:
        dtype = array.dtype
    return _full(shape, fill_value, dtype)


def _filled(value: int) -> Callable[..., Any]:
    def make(shape: Any, dtype: Any = float, *memory: Any, **options: Any) -> Any:
        return _full(shape, value, np.dtype(dtype))

    return make


def _filled_like(value: int) -> Callable[..., Any]:
    def make(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
        return _full_like(a, value, dtype, shape=shape)

    return make


def _arange(*args: Any, dtype: Any = None) -> Any:
    values = args
    result = np.arange(*plain(values), dtype=dtype)
    if is_constant(values):
        return Traced(result)
    # A single argument is the end.
    if len(values) == 1:
        bounds = [0, values[0], 1]
    else:
        bounds = [*values, 1][:3]
    has_float = any(np.asarray(plain(item)).dtype.kind == "f" for item in bounds)
    if result.dtype.kind == "f" and has_float:
        refuse(
            "np.arange of floats, whose length depends on rounding",
            "np.linspace, or np.arange(n) * step",
        )
    tensor = node("Range", [tensor_of(item, INT64) for item in bounds], INT64, (None,))
    return Traced(result, fit(tensor, result))


def _linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, *, dtype: Any = None
) -> Any:
    if not is_constant([start, stop, num]):
        refuse("np.linspace of values that can change", "np.arange(n) * step + start")
    return Traced(np.linspace(plain(start), plain(stop), plain(num), endpoint, dtype=dtype))


def _eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, **kwargs: Any) -> Any:
    result = np.eye(plain(N), plain(M), plain(k), dtype)
    if is_constant([N, M, k]):
        return Traced(result)
    return (_distances(N, M) == k).astype(dtype)


def _distances(rows: Any, columns: Any) -> Any:
    """Return how far each element of a matrix is above the diagonal."""
    across = _arange(rows if columns is None else columns)
    return across[None, :] - _arange(rows)[:, None]


def _array(object: Any, dtype: Any = None, copy: Any = True, ndmin: int = 0, **kwargs: Any) -> Any:
    if not is_traced(object):
        return Traced(np.array(object, dtype, ndmin=ndmin))
    if type(object) is not Traced:
        result = np.array(plain(object))
        tensor = None if is_constant(object) else tensor_of(object)
        array = Traced(result, tensor)
    elif copy:
        array = object.copy()
    else:
        array = object
    if dtype is not None and np.dtype(dtype) != array.dtype:
        array = array.astype(dtype)
    return array


def _asarray(a: Any, dtype: Any = None, order: Any = None, **kwargs: Any) -> Any:
    if type(a) is not Traced:
        return _array(a, dtype)
    if dtype is None or np.dtype(dtype) == a.dtype:
        return a
    return a.astype(dtype)


MAKERS: dict[str, Callable[..., Any]] = {
    "full": _full, "zeros": _filled(0), "ones": _filled(1), "empty": _filled(0),
    "full_like": _full_like, "zeros_like": _filled_like(0),
    "ones_like": _filled_like(1), "empty_like": _filled_like(0),
    "arange": _arange, "linspace": _linspace, "eye": _eye, "identity": _eye,
    "array": _array, "asarray": _asarray, "ascontiguousarray": _asarray,
}  # fmt: skip


# ---- copies of functions -------------------------------------------------------------------------


def rebound(cls: type) -> type:
    """Make a subclass whose methods and functions see `NumpyNamespace` for NumPy.

    Returns
    -------
    type
        Its instances have the layout of instances of ``cls``.
    """
    copies: dict[int, Any] = {}
    members: dict[str, Any] = {"__slots__": ()}
    # Begin with the most general class, because members of a subclass replace its members.
    for base in reversed(cls.__mro__[:-1]):
        for name, member in vars(base).items():
            if name.startswith("__") and name != "__call__":
                continue
            members.pop(name, None)
            copy = _copied_member(member, copies)
            if copy is not None:
                members[name] = copy
    return type(cls.__name__, (cls,), members)


def _copied_member(member: Any, copies: dict[int, Any]) -> Any:
    """Copy a method or a property's getter; return None for anything without code."""
    if isinstance(member, types.FunctionType):
        return _copied(member, copies)
    if isinstance(member, (staticmethod, classmethod)):
        function = member.__func__
        if isinstance(function, types.FunctionType):
            return type(member)(_copied(function, copies))
    if isinstance(member, property) and isinstance(member.fget, types.FunctionType):
        return property(_copied(member.fget, copies), member.fset, member.fdel)
    return None


def _copied(function: types.FunctionType, copies: dict[int, Any]) -> Any:
    """Copy a function, with the functions that it calls."""
    if id(function) in copies:
        return copies[id(function)]
    cells = function.__closure__ or ()
    new_cells = tuple(types.CellType() for _ in cells)
    names = _Globals(function.__globals__, copies)
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, new_cells or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    # Registered before the closure is copied, as a recursive function is in its own closure.
    copies[id(function)] = copy
    for new, cell in zip(new_cells, cells, strict=True):
        try:
            new.cell_contents = _seen(cell.cell_contents, function.__globals__, copies)
        except ValueError:
            # The cell is still empty.
            continue
    return copy


class _Globals(dict):  # type: ignore[type-arg]  # a function's globals
    """A function's globals with NumPy replaced by ours; names are looked up on first use."""

    def __init__(self, of: dict[str, Any], copies: dict[int, Any]) -> None:
        super().__init__(of)
        self._of = of
        self._copies = copies
        for name, value in of.items():
            # Functions are copied when they are called, as a module may have thousands.
            if not isinstance(value, types.FunctionType):
                super().__setitem__(name, _seen(value, of, copies))

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, types.FunctionType):
            return _seen(value, self._of, self._copies)
        return value


def _seen(value: Any, of: dict[str, Any], copies: dict[int, Any]) -> Any:
    """Replace a global by the object that a traced function must see instead."""
    if value is np:
        return NUMPY
    if isinstance(value, types.FunctionType) and value.__globals__ is of:
        return _copied(value, copies)
    # A function imported by name, as in from numpy import zeros.
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and name in MAKERS and value is getattr(np, name, None):
        return MAKERS[name]
    return value


NUMPY = NumpyNamespace()


def lower_scipy() -> None:
    """Register scipy's erf if scipy has been imported."""
    special = sys.modules.get("scipy.special")
    if special is not None:
        TABLE[special.erf] = lower_erf

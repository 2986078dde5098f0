"""Compiled forms of ops: what ONNX Runtime's side calls instead of ``compute``.

This room does not know how a form is made. Makers stand in a table, by the name that a class gives in ``kernel``, and are
imported when a class first asks for one.
"""

from __future__ import annotations

import importlib
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pyopnb.errors import NotCompiled
from pyopnb.ops.messages import level_of_user
from pyopnb.ops.types import TensorType

__all__ = ["Native", "asks_for_numba", "compiled_form", "original", "python_form", "register_maker"]

Native = tuple[int, int, int, object]
"""A function of the interface in ``pyopnb_call.h``: its address, that of its attrs, how many they are, and what owns both."""

_Types = Sequence[TensorType | None]
_Maker = Callable[[object, _Types, _Types, str], Callable[..., Any] | None]

_makers: dict[str, tuple[str, str]] = {}


def register_maker(kernel: str, module: str, function: str) -> None:
    """Name the function that makes the form of classes that ask for a kernel.

    Parameters
    ----------
    kernel : str
        The text in ``kernel`` of a class.
    module, function : str
        The function takes an instance, the types of inputs and outputs, and the node as a text for warnings. Its module is
        imported at the first use; where a package that it needs is missing, Python computes.
    """
    _makers[kernel] = module, function


def compiled_form(instance: Any, inputs: _Types, outputs: _Types) -> Native | None:
    """Return the compiled function of an instance at a node, for types of inputs and outputs; None where Python computes."""
    make_native = getattr(type(instance), "__pyopnb_native__", None)
    if make_native is None:
        return None
    native: Native = make_native(instance, inputs, outputs)
    return native


def _maker(kernel: str) -> _Maker:
    module, function = _makers[kernel]
    maker: _Maker = getattr(importlib.import_module(module), function)
    return maker


def asks_for_numba(cls: type) -> bool:
    """Tell whether a class asks for its ``compute`` to be compiled by Numba."""
    if getattr(cls, "kernel", None) == "numba":
        return True
    return _is_dispatcher(getattr(cls, "compute", None))


def _is_dispatcher(compute: object) -> bool:
    return hasattr(compute, "py_func") and type(compute).__module__.partition(".")[0] == "numba"


def python_form(instance: Any, inputs: _Types, outputs: _Types, where: str) -> Any:
    """Return the instance to call at a node, with ``compute`` compiled if its class asks for that.

    Parameters
    ----------
    instance : object
        Of an op's class. A maker is asked where that says ``kernel = "numba"``, or decorates ``compute`` with `numba.njit`.
    inputs, outputs : sequence of (TensorType or None)
        Of the node; None for what is left out.
    where : str
        The node, for a warning.

    Returns
    -------
    object
    """
    if not asks_for_numba(type(instance)):
        return instance
    try:
        compute = _maker("numba")(instance, inputs, outputs, where)
    except ModuleNotFoundError as error:
        # Numba is installed but one of its dependencies is not: report that instead of falling back.
        if error.name != "numba":
            raise
        text = f"{where}: Numba is not installed, so Python computes. Type: pip install 'pyopnb[numba]'"
        warnings.warn(text, NotCompiled, stacklevel=level_of_user())
        compute = None
    if compute is not None:
        return _WithForm(instance, compute)
    # Numba's decorator takes no self.
    if _is_dispatcher(type(instance).compute):
        return _WithForm(instance, types.MethodType(type(instance).compute.py_func, instance))
    return instance


def original(form: object) -> object:
    """Return the instance that `python_form` was called with.

    Parameters
    ----------
    form : object

    Returns
    -------
    object
    """
    if isinstance(form, _WithForm):
        return form.instance
    return form


class _WithForm:
    """An instance whose ``compute`` is replaced by another function."""

    def __init__(self, instance: object, compute: Callable[..., Any]) -> None:
        self.instance, self.compute = instance, compute

"""The compiled form of an op at a node: what ONNX Runtime's side calls instead of ``compute``."""

from __future__ import annotations

import importlib
import types
import warnings
from collections.abc import Sequence
from typing import Any

from pyopnb.ops.types import TensorType
from pyopnb.runtime.notices import NotCompiled, level_of_user

__all__ = ["Native", "asks_for_numba", "compiled_form", "original", "python_form"]

Native = tuple[int, int, int, object]
"""A function of the interface in ``pyopnb_call.h``: its address, that of its attrs, how many they are, and what owns both."""

_Types = Sequence[TensorType | None]


def compiled_form(instance: object, inputs: _Types, outputs: _Types, where: str) -> Native | None:
    """The compiled function of an instance at a node.

    Parameters
    ----------
    instance : object
        Of the op's class. One that has ``__pyopnb_native__(inputs, outputs)`` returns it; where the class says
        ``kernel = "numba"``, or ``compute`` is decorated with `numba.njit`, Numba makes it.
    inputs, outputs : sequence of (TensorType or None)
        Of the node; None for what is left out.
    where : str
        The node, for a warning.

    Returns
    -------
    tuple or None
        None where Python is to compute.
    """
    make = getattr(type(instance), "__pyopnb_native__", None)
    if make is not None:
        made: Native | None = make(instance, inputs, outputs)
        return made
    if asks_for_numba(type(instance)):
        return _numba_form(instance, inputs, outputs, where)
    return None


def asks_for_numba(cls: type) -> bool:
    """Whether a class says that Numba is to compile its ``compute``."""
    if getattr(cls, "kernel", None) == "numba":
        return True
    return _is_dispatcher(getattr(cls, "compute", None))


def _is_dispatcher(compute: object) -> bool:
    return hasattr(compute, "py_func") and type(compute).__module__.partition(".")[0] == "numba"


def _numba_form(instance: object, inputs: _Types, outputs: _Types, where: str) -> Native | None:
    try:
        module = importlib.import_module("pyopnb.runtime.compiled.numba_form")
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        text = f"{where}: Numba is not installed, so Python computes. Type: pip install 'pyopnb[numba]'"
        warnings.warn(text, NotCompiled, stacklevel=level_of_user())
        return None
    form: Native | None = module.form_of(instance, inputs, outputs, where)
    return form


def python_form(instance: Any) -> Any:
    """What Python calls ``compute`` of: the instance, or its undecorated ``compute`` where Numba's decorator takes no ``self``.

    Parameters
    ----------
    instance : object
        Of an op's class.

    Returns
    -------
    object
    """
    compute: Any = getattr(type(instance), "compute", None)
    return _Undecorated(instance, compute.py_func) if _is_dispatcher(compute) else instance


def original(form: object) -> object:
    """The instance that `python_form` was given.

    Parameters
    ----------
    form : object

    Returns
    -------
    object
    """
    return form.instance if isinstance(form, _Undecorated) else form


class _Undecorated:
    """An instance with the Python function that `numba.njit` decorated."""

    def __init__(self, instance: object, function: Any) -> None:
        self.instance, self.compute = instance, types.MethodType(function, instance)

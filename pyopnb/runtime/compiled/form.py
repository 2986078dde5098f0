"""The compiled form of an op at a node: what ONNX Runtime's side calls instead of ``compute``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from pyopnb.ops.types import TensorType

__all__ = ["Native", "asks_for_numba", "compiled_form"]

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
        form: Native | None = _numba().form_of(instance, inputs, outputs, where)
        return form
    return None


def asks_for_numba(cls: type) -> bool:
    """Whether a class says that Numba is to compile its ``compute``."""
    if getattr(cls, "kernel", None) == "numba":
        return True
    compute = getattr(cls, "compute", None)
    return hasattr(compute, "py_func") and type(compute).__module__.partition(".")[0] == "numba"


def _numba() -> Any:
    return importlib.import_module("pyopnb.runtime.compiled.numba")

"""Compiled forms of ops: what ONNX Runtime's side calls instead of ``compute``.

This room does not know how Numba's form is made: that is handed down, and imported when a
class first asks for it.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pyopnb.errors import NotCompiled
from pyopnb.ops.handed_down import handed_down
from pyopnb.ops.messages import level_of_user
from pyopnb.ops.types import TensorType

__all__ = ["Native", "asks_for_numba", "compiled_form", "original", "python_form"]

Native = tuple[int, int, int, object]
"""A function with the interface of ``pyopnb_call.h``.

It is the address of the function, the address and the number of its attrs, and the owner of both.
"""

_Types = Sequence[TensorType | None]


def compiled_form(instance: Any, inputs: _Types, outputs: _Types) -> Native | None:
    """Return the compiled function of an instance, or None if Python computes.

    The inputs and outputs are the types at the node.
    """
    make_native = getattr(type(instance), "__pyopnb_native__", None)
    if make_native is None:
        return None
    native: Native = make_native(instance, inputs, outputs)
    return native


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
        Of an op's class. A maker is asked where that says ``kernel = "numba"``, or decorates
        ``compute`` with `numba.njit`. With ``further_results = True``, results that the node has
        no outputs for are dropped.
    inputs, outputs : sequence of (TensorType or None)
        The inputs of the node; None for one that is left out.
    where : str
        The node, for a warning.

    Returns
    -------
    object
    """
    if getattr(type(instance), "further_results", False):
        return _WithForm(instance, _first_results(instance.compute, len(outputs)))
    if not asks_for_numba(type(instance)):
        return instance
    try:
        compute = handed_down("numba_form")(instance, inputs, outputs, where)
    except ModuleNotFoundError as error:
        # Numba is installed but one of its dependencies is not: report that
        # instead of falling back.
        if error.name != "numba":
            raise
        text = (
            f"{where}: Numba is not installed, so Python computes. "
            "Type: pip install 'pyopnb[numba]'"
        )
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


def _first_results(compute: Callable[..., Any], count: int) -> Callable[..., Any]:
    def limited(*inputs: Any) -> Any:
        results = compute(*inputs)
        if not isinstance(results, tuple) or len(results) <= count:
            return results
        return results[0] if count == 1 else results[:count]

    return limited


class _WithForm:
    """An instance whose ``compute`` is replaced by another function."""

    def __init__(self, instance: object, compute: Callable[..., Any]) -> None:
        self.instance, self.compute = instance, compute

"""Substitutes for an op's ``compute``: a compiled function, or a part of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyopnb.engine.ops.types import TensorType

__all__ = ["Native", "compiled_form", "original", "python_form"]

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


def python_form(instance: Any, outputs: int) -> Any:
    """Return the instance to call at a node with that number of outputs.

    With ``further_results = True`` in its class, results that the node has no outputs for are
    dropped.
    """
    if getattr(type(instance), "further_results", False):
        return _WithForm(instance, _first_results(instance.compute, outputs))
    return instance


def original(form: object) -> object:
    """Return the instance that `python_form` was called with."""
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

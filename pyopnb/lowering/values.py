"""What ``compute`` gets while it is traced, and what it gives: traced or not, constant or not, its value and its tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering import operators  # noqa: F401  # it gives the classes Python's operators
from pyopnb.lowering.arrays import Traced
from pyopnb.lowering.numbers import Number
from pyopnb.lowering.protocols import call
from pyopnb.lowering.tensors import Tensor, cast, constant

__all__ = ["is_constant", "is_traced", "plain", "tensor_of"]


def plain(value: Any) -> Any:
    """A value as NumPy has it on the example."""
    if type(value) in (Traced, Number):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is slice:
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    return value


def is_traced(value: Any) -> bool:
    """Whether a value, or one inside it, is traced; a constant array is."""
    if type(value) in (tuple, list):
        return any(map(is_traced, value))
    if type(value) is slice:
        return any(map(is_traced, (value.start, value.stop, value.step)))
    return type(value) in (Traced, Number)


def is_constant(value: Any) -> bool:
    """Whether a value is the same for all inputs."""
    if type(value) is Number:
        return False
    if type(value) is Traced:
        return value.constant
    if type(value) in (tuple, list):
        return all(map(is_constant, value))
    if type(value) is slice:
        return all(map(is_constant, (value.start, value.stop, value.step)))
    return all(map(is_constant, value.values())) if isinstance(value, dict) else True


def tensor_of(value: Any, dtype: Any = None) -> Tensor:
    """The tensor of a value, cast to a dtype."""
    if type(value) is Traced:
        made = value.tensor
    elif type(value) is Number:
        made = value.scalar
    elif is_traced(value):
        made = tensor_of(call(np.stack, ([_as_array(item) for item in value],)))
    else:
        made = constant(value)
    return made if dtype is None else cast(made, dtype)


def _as_array(value: Any) -> Any:
    return (
        value
        if type(value) is Traced
        else Traced(np.asarray(value.value), value.scalar)
        if type(value) is Number
        else np.asarray(value)
    )

"""The ONNX elementwise operators as functions, where a Python number takes the other's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.engine import ort_capabilities
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    broadcast,
    cast,
    constant,
    node,
    served,
    served_dtype,
)

__all__ = [
    "absolute",
    "add",
    "and_",
    "div",
    "elementwise",
    "equal",
    "exp",
    "floor",
    "greater",
    "greater_equal",
    "is_nan",
    "less",
    "less_equal",
    "log",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "neg",
    "not_",
    "or_",
    "power",
    "sqrt",
    "sub",
    "where",
    "xor",
]

_Operand = Tensor | int | float
_Unary = Callable[[Tensor], Tensor]
_Binary = Callable[[_Operand, _Operand], Tensor]


def elementwise(op_type: str, *inputs: Tensor, dtype: Any = None, **attrs: Any) -> Tensor:
    """Record a broadcasting operator, in a wider integer dtype if the runtime has no kernel."""
    first = inputs[0].dtype
    # Max and Min of onnxruntime 1.25 compare only the lower half of an int64.
    if op_type in ("Max", "Min") and first == INT64 and not ort_capabilities.compares_int64():
        x, y = inputs
        if op_type == "Max":
            condition = greater(x, y)
        else:
            condition = less(x, y)
        return where(condition, x, y)
    wide = served_dtype(op_type, first, len(inputs))
    dims = broadcast(*(x.dims for x in inputs))
    widened = [cast(x, wide) for x in inputs]
    if dtype is None:
        return cast(node(op_type, widened, wide, dims, **attrs), first)
    return node(op_type, widened, dtype, dims, **attrs)


def where(condition: Tensor, x: _Operand, y: _Operand) -> Tensor:
    """Choose elements, in a wider integer dtype if the runtime has no kernel."""
    first, second = _tensors(x, y)
    dtype = first.dtype
    if served("Where", dtype) or dtype.kind not in "biu":
        dims = broadcast(condition.dims, first.dims, second.dims)
        return node("Where", [condition, first, second], dtype, dims)
    # For bools, logical operators can do the choosing.
    if dtype == BOOL:
        chosen = and_(condition, first)
        return or_(chosen, and_(not_(condition), second))
    wide: np.dtype = INT64
    if dtype.itemsize < 4:
        wide = np.dtype(np.int32)
    return cast(where(condition, cast(first, wide), cast(second, wide)), dtype)


def _tensors(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Turn a number into a constant of the other operand's dtype."""
    if not isinstance(x, Tensor):
        return constant(x, y.dtype), y
    if not isinstance(y, Tensor):
        return x, constant(y, x.dtype)
    return x, y


def _unary(op_type: str, dtype: Any = None) -> _Unary:
    def record(x: Tensor) -> Tensor:
        return elementwise(op_type, x, dtype=dtype)

    return record


def _binary(op_type: str, dtype: Any = None, fold: np.ufunc | None = None) -> _Binary:
    """Make a function that records a binary operator.

    ``fold`` computes the result if both operands are constants.
    """

    def record(x: _Operand, y: _Operand) -> Tensor:
        a, b = _tensors(x, y)
        if fold is not None and a.const is not None and b.const is not None:
            return constant(fold(a.const, b.const))
        return elementwise(op_type, a, b, dtype=dtype)

    return record


# Sizes that are the same for all inputs are calculated here and not in the graph.
add = _binary("Add", fold=np.add)
sub = _binary("Sub", fold=np.subtract)
maximum = _binary("Max", fold=np.maximum)
minimum = _binary("Min", fold=np.minimum)
mul = _binary("Mul", fold=np.multiply)
div = _binary("Div")
mod = _binary("Mod")
power = _binary("Pow")

equal = _binary("Equal", BOOL)
less = _binary("Less", BOOL)
less_equal = _binary("LessOrEqual", BOOL)
greater = _binary("Greater", BOOL)
greater_equal = _binary("GreaterOrEqual", BOOL)

and_ = _binary("And")
or_ = _binary("Or")
xor = _binary("Xor")
not_ = _unary("Not")

absolute = _unary("Abs")
neg = _unary("Neg")
floor = _unary("Floor")
exp = _unary("Exp")
log = _unary("Log")
sqrt = _unary("Sqrt")


def is_nan(x: Tensor) -> Tensor:
    """Mark NaN elements, comparing the tensor with itself if IsNaN has no kernel."""
    if served("IsNaN", x.dtype):
        return elementwise("IsNaN", x, dtype=BOOL)
    return not_(equal(x, x))

"""NumPy integer divisions, remainders and shifts, which round down and never end the process."""

from __future__ import annotations

import numpy as np

from pyopnb.lowering.elementwise import (
    add,
    and_,
    div,
    elementwise,
    equal,
    floor,
    greater,
    less,
    mod,
    mul,
    neg,
    not_,
    sub,
    where,
    xor,
)
from pyopnb.lowering.numpy.ufuncs import computes
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import Tensor, constant

__all__: list[str] = []


def _is_never(x: Tensor, value: int) -> bool:
    """Tell whether a tensor is a constant in which a value does not occur."""
    if x.dtype.kind == "u" and value < 0:
        return True
    return x.const is not None and value not in x.const


def _safe_divisor(divisor: Tensor) -> Tensor:
    """Replace 0 and -1 by 1: x // 0, and the smallest integer // -1, would crash the process."""
    for value in (0, -1):
        if not _is_never(divisor, value):
            divisor = where(equal(divisor, value), 1, divisor)
    return divisor


def _c_remainder(x: Tensor, y: Tensor) -> Tensor:
    """Record C's remainder, which has the sign of x."""
    return elementwise("Mod", x, y, fmod=1)


def _rounds_to_zero(remainder: Tensor, divisor: Tensor) -> Tensor:
    """Mark where C and NumPy round differently.

    There, the remainder is not zero and its sign is not the divisor's.
    """
    differs_in_sign = xor(less(remainder, 0), less(divisor, 0))
    return and_(not_(equal(remainder, 0)), differs_in_sign)


@computes(np.remainder)
def _remainder(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.kind != "f":
        # 1 replaces the divisors 0 and -1. Its remainders are 0, which NumPy gives for both.
        return mod(x, _safe_divisor(y))
    remainder = _c_remainder(x, y)
    adjusted = where(_rounds_to_zero(remainder, y), add(remainder, y), remainder)
    # A zero is made positive, as the onnxruntime Where drops its sign in any case.
    return where(equal(remainder, 0), 0, adjusted)


@computes(np.floor_divide)
def _floor_divide(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.kind == "f":
        return _float_floor_divide(x, y)
    return _integer_floor_divide(x, y)


def _integer_floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide and round down.

    The quotient is corrected afterwards, because x - x % y would wrap near the least integer.
    """
    safe = _safe_divisor(y)
    quotient = div(x, safe)
    if x.dtype.kind == "i":
        remainder = sub(x, mul(quotient, safe))
        quotient = where(_rounds_to_zero(remainder, safe), sub(quotient, 1), quotient)
    # Correct the divisors that _safe_divisor replaced: NumPy gives -x for -1, and 0 for 0.
    if not _is_never(y, -1):
        quotient = where(equal(y, -1), neg(x), quotient)
    if not _is_never(y, 0):
        quotient = where(equal(y, 0), 0, quotient)
    return quotient


def _float_floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide floats and round down, in the steps of the NumPy npy_floor_divide.

    This is exact even where x / y rounds up to the next integer.
    """
    remainder = _c_remainder(x, y)
    toward_zero = div(sub(x, remainder), y)
    quotient = where(_rounds_to_zero(remainder, y), sub(toward_zero, 1), toward_zero)
    # The quotient is an integer up to rounding, which is undone here.
    down = floor(quotient)
    tensor = where(greater(sub(quotient, down), 0.5), add(down, 1), down)
    if _is_never(y, 0):
        return tensor
    return where(equal(y, 0), div(x, y), tensor)


# ---- shifts --------------------------------------------------------------------------------------


@computes(np.left_shift)
def _left_shift(x: Tensor, y: Tensor) -> Tensor:
    return mul(x, _power_of_two(y, x.dtype))


@computes(np.right_shift)
def _right_shift(x: Tensor, y: Tensor) -> Tensor:
    divisor = _power_of_two(y, x.dtype)
    # Div rounds toward zero, so the bits that a shift to the right drops are subtracted before.
    return div(sub(x, mod(x, divisor)), divisor)


def _power_of_two(shift: Tensor, dtype: np.dtype) -> Tensor:
    """Record the power of two that a shift multiplies or divides by, without overflow."""
    most = 8 * dtype.itemsize - 2
    if shift.const is None or (shift.const < 0).any() or (shift.const > most).any():
        refuse("a shift by other than a constant", "x * 2 ** n")
    return constant(np.left_shift(np.ones((), dtype), shift.const), dtype)

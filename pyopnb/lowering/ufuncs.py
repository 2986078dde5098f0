"""NumPy's ufuncs as ONNX operators, in the dtype of the loop that NumPy chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.lowering.dispatch import REASONS, lowers
from pyopnb.lowering.numbers import Number
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import BOOL, Tensor, cast, constant, elementwise, served, where
from pyopnb.lowering.values import plain, tensor_of

__all__ = ["is_nan", "loop_inputs", "lower_erf", "same_kind"]


def loop_inputs(ufunc: np.ufunc, *inputs: Any) -> list[Tensor]:
    """The inputs in the dtypes in which NumPy calculates; Python's numbers take that of the arrays (NEP 50)."""
    kinds = [_kind(value) for value in inputs]
    dtypes = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    return [tensor_of(value, dtype) for value, dtype in zip(inputs, dtypes, strict=False)]


def _kind(value: Any) -> Any:
    if type(value) is Number or type(value) in (int, float, bool):
        kind = type(plain(value))
        return np.dtype(bool) if kind is bool else kind
    return np.asarray(plain(value)).dtype


def same_kind(op_type: str, *inputs: Tensor, dtype: Any = None) -> Tensor:
    """An elementwise operator, in a wider integer where the runtime has no kernel for a narrow one: it wraps likewise."""
    kind = inputs[0].dtype
    if served(op_type, kind, len(inputs)):
        return elementwise(op_type, *inputs, dtype=dtype)
    if kind.kind in "iub":
        for wide in (np.dtype(np.int32), np.dtype(np.int64)):
            if served(op_type, wide, len(inputs)) and (wide.itemsize > kind.itemsize or kind.kind == "b"):
                made = elementwise(op_type, *(cast(x, wide) for x in inputs), dtype=dtype and wide)
                return made if dtype is not None else cast(made, kind)
    refuse(f"{op_type} of {kind}, for which ONNX Runtime has no kernel", "x.astype(np.float32)" if kind.kind == "f" else None)


def _unary(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, x: Any) -> Tensor:
        (tensor,) = loop_inputs(ufunc, x)
        return same_kind(op_type, tensor)


_ufunc: np.ufunc
for _ufunc, _op in {
    np.exp: "Exp", np.log: "Log", np.sqrt: "Sqrt", np.tanh: "Tanh", np.sin: "Sin", np.cos: "Cos", np.tan: "Tan",
    np.arcsin: "Asin", np.arccos: "Acos", np.arctan: "Atan", np.sinh: "Sinh", np.cosh: "Cosh", np.arcsinh: "Asinh",
    np.arccosh: "Acosh", np.arctanh: "Atanh", np.fabs: "Abs", np.reciprocal: "Reciprocal",
}.items():  # fmt: skip
    _unary(_ufunc, _op)


def _rounding(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, x: Any) -> Tensor:
        (tensor,) = loop_inputs(ufunc, x)
        return tensor if tensor.dtype.kind in "iub" else same_kind(op_type, tensor)


for _ufunc, _op in {np.floor: "Floor", np.ceil: "Ceil", np.rint: "Round"}.items():
    _rounding(_ufunc, _op)


def _binary(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, a: Any, b: Any) -> Tensor:
        x, y = loop_inputs(ufunc, a, b)
        if x.dtype == BOOL:
            return elementwise({"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}[op_type], x, y)
        return same_kind(op_type, x, y)


for _ufunc, _op in {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.maximum: "Max", np.minimum: "Min",
}.items():  # fmt: skip
    _binary(_ufunc, _op)


@lowers(np.divide)
def _divide(result: Any, a: Any, b: Any) -> Tensor:
    return elementwise("Div", *loop_inputs(np.divide, a, b))


def _comparison(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, a: Any, b: Any) -> Tensor:
        x, y = loop_inputs(ufunc, a, b)
        if op_type == "NotEqual":
            return elementwise("Not", same_kind("Equal", x, y, dtype=bool))
        return same_kind(op_type, x, y, dtype=bool)


for _ufunc, _op in {
    np.less: "Less", np.less_equal: "LessOrEqual", np.greater: "Greater", np.greater_equal: "GreaterOrEqual",
    np.equal: "Equal", np.not_equal: "NotEqual",
}.items():  # fmt: skip
    _comparison(_ufunc, _op)


def _logical(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, *inputs: Any) -> Tensor:
        return elementwise(op_type, *(tensor_of(x, bool) for x in inputs))


for _ufunc, _op in {np.logical_and: "And", np.logical_or: "Or", np.logical_xor: "Xor", np.logical_not: "Not"}.items():
    _logical(_ufunc, _op)


def _bitwise(ufunc: np.ufunc, of_bools: str, of_integers: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, *inputs: Any) -> Tensor:
        tensors = loop_inputs(ufunc, *inputs)
        return same_kind(of_bools if tensors[0].dtype == BOOL else of_integers, *tensors)


_bitwise(np.bitwise_and, "And", "BitwiseAnd")
_bitwise(np.bitwise_or, "Or", "BitwiseOr")
_bitwise(np.bitwise_xor, "Xor", "BitwiseXor")
_bitwise(np.invert, "Not", "BitwiseNot")


# ---- signs and classes -------------------------------------------------------------------------------------------------------


@lowers(np.absolute)
def _absolute(result: Any, x: Any) -> Tensor:
    (tensor,) = loop_inputs(np.absolute, x)
    return tensor if tensor.dtype.kind in "bu" else same_kind("Abs", tensor)


@lowers(np.negative)
def _negative(result: Any, x: Any) -> Tensor:
    (tensor,) = loop_inputs(np.negative, x)
    if tensor.dtype.kind == "u":
        return elementwise("Sub", constant(0, tensor.dtype), tensor)
    return same_kind("Neg", tensor)


@lowers(np.positive)
def _positive(result: Any, x: Any) -> Tensor:
    return tensor_of(x)


@lowers(np.sign)
def _sign(result: Any, x: Any) -> Tensor:
    return same_kind("Sign", *loop_inputs(np.sign, x))


def is_nan(x: Tensor) -> Tensor:
    """Where a tensor is NaN; a comparison with itself, where the runtime has no kernel."""
    if served("IsNaN", x.dtype):
        return elementwise("IsNaN", x, dtype=bool)
    return elementwise("Not", elementwise("Equal", x, x, dtype=bool))


def _is_inf(x: Tensor) -> Tensor:
    if served("IsInf", x.dtype):
        return elementwise("IsInf", x, dtype=bool)
    return elementwise("Equal", elementwise("Abs", x), constant(np.inf, x.dtype), dtype=bool)


def _class_of_numbers(function: Any, of_floats: Callable[[Tensor], Tensor], of_integers: bool) -> None:
    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        tensor = tensor_of(x)
        if tensor.dtype.kind == "f":
            return of_floats(tensor)
        yes = elementwise("Equal", tensor, tensor, dtype=bool)
        return yes if of_integers else elementwise("Not", yes)


_class_of_numbers(np.isnan, is_nan, False)
_class_of_numbers(np.isinf, _is_inf, False)
_class_of_numbers(np.isfinite, lambda x: elementwise("Not", elementwise("Or", is_nan(x), _is_inf(x))), True)


def _signed_infinity(function: Any, sign: float) -> None:
    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        tensor = tensor_of(x)
        if tensor.dtype.kind != "f":
            refuse(f"np.{function.__name__} of {tensor.dtype}", "x.astype(np.float32)")
        return elementwise("Equal", tensor, constant(sign, tensor.dtype), dtype=bool)


_signed_infinity(np.isposinf, np.inf)
_signed_infinity(np.isneginf, -np.inf)


# ---- powers, logarithms ------------------------------------------------------------------------------------------------------


@lowers(np.square)
def _square(result: Any, x: Any) -> Tensor:
    (tensor,) = loop_inputs(np.square, x)
    return same_kind("Mul", tensor, tensor)


_MOST_FACTORS = 16


@lowers(np.power, np.float_power)
def _power(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.power, a, b)
    if np.asarray(result).dtype != x.dtype:
        x, y = cast(x, np.asarray(result).dtype), cast(y, np.asarray(result).dtype)
    exponent = None if y.const is None or y.const.size != 1 else y.const.ravel()[0]
    if exponent == 2 and not y.ndim:
        return same_kind("Mul", x, x)
    if x.dtype.kind == "f":
        return elementwise("Pow", x, y)
    if exponent is None or y.ndim or not 0 < exponent <= _MOST_FACTORS:
        refuse("a power of integers, which ONNX Runtime rounds as a float64", "x.astype(np.float64) ** n")
    made = x
    for _ in range(int(exponent) - 1):
        made = same_kind("Mul", made, x)
    return made


def _in_double(function: Any, record: Callable[[Tensor], Tensor]) -> None:
    """Functions that lose what is near zero are calculated in float64 for smaller dtypes."""

    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        (tensor,) = loop_inputs(function, x)
        return cast(record(cast(tensor, np.float64)), tensor.dtype)


_in_double(np.log1p, lambda x: elementwise("Log", elementwise("Add", x, constant(1.0))))
_in_double(np.expm1, lambda x: elementwise("Sub", elementwise("Exp", x), constant(1.0)))
_in_double(np.log2, lambda x: elementwise("Div", elementwise("Log", x), constant(np.log(2.0))))
_in_double(np.log10, lambda x: elementwise("Div", elementwise("Log", x), constant(np.log(10.0))))
_in_double(np.exp2, lambda x: elementwise("Pow", constant(2.0), x))
_in_double(np.deg2rad, lambda x: elementwise("Mul", x, constant(np.pi / 180)))
_in_double(np.radians, lambda x: elementwise("Mul", x, constant(np.pi / 180)))
_in_double(np.rad2deg, lambda x: elementwise("Mul", x, constant(180 / np.pi)))
_in_double(np.degrees, lambda x: elementwise("Mul", x, constant(180 / np.pi)))


@lowers(np.round, np.around)
def _round(result: Any, a: Any, decimals: Any = 0) -> Tensor:
    x = tensor_of(a)
    digits = int(decimals.__index__())
    if x.dtype.kind in "iub":
        if digits < 0:
            refuse("np.round of integers to tens", "x // 10 * 10")
        return x
    if not digits:
        return same_kind("Round", x)
    power = constant(10.0 ** abs(digits), x.dtype)
    there, back = ("Mul", "Div") if digits > 0 else ("Div", "Mul")
    return elementwise(back, same_kind("Round", elementwise(there, x, power)), power)


@lowers(np.trunc, np.fix)
def _trunc(result: Any, x: Any) -> Tensor:
    (tensor,) = loop_inputs(np.trunc, x)
    if tensor.dtype.kind in "iub":
        return tensor
    negative = elementwise("Less", tensor, constant(0, tensor.dtype), dtype=bool)
    return where(negative, elementwise("Ceil", tensor), elementwise("Floor", tensor))


# ---- division of integers, remainders ----------------------------------------------------------------------------------------


def _nonzero(b: Tensor) -> tuple[Tensor, Tensor | None]:
    """A divisor of integers without zeros, and where they were: such a division would end the process."""
    if b.const is not None and (b.const != 0).all():
        return b, None
    zero = same_kind("Equal", b, constant(0, b.dtype), dtype=bool)
    return where(zero, constant(1, b.dtype), b), zero


def _zero_where(zero: Tensor | None, x: Tensor) -> Tensor:
    return x if zero is None else where(zero, constant(0, x.dtype), x)


@lowers(np.remainder)
def _remainder(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.remainder, a, b)
    if x.dtype.kind == "f":
        return _float_remainder(x, y)
    safe, zero = _nonzero(y)
    return _zero_where(zero, same_kind("Mod", x, safe))


def _float_remainder(x: Tensor, y: Tensor) -> Tensor:
    """C's fmod, with the divisor's sign, as NumPy does it."""
    rest = elementwise("Mod", x, y, fmod=1)
    return where(_other_sign(rest, y), elementwise("Add", rest, y), rest)


def _other_sign(rest: Tensor, y: Tensor) -> Tensor:
    """Where a rest is not zero and has not the divisor's sign."""
    zero = constant(0, rest.dtype)
    signs = elementwise("Xor", *(elementwise("Less", each, zero, dtype=bool) for each in (rest, y)))
    return elementwise("And", elementwise("Not", elementwise("Equal", rest, zero, dtype=bool)), signs)


@lowers(np.fmod)
def _fmod(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.fmod, a, b)
    if x.dtype.kind == "f":
        return elementwise("Mod", x, y, fmod=1)
    safe, zero = _nonzero(y)
    return _zero_where(zero, elementwise("Mod", x, safe, fmod=1))


@lowers(np.floor_divide)
def _floor_divide(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.floor_divide, a, b)
    if x.dtype.kind == "f":
        return _float_floor_divide(x, y)
    safe, zero = _nonzero(y)
    return _zero_where(zero, same_kind("Div", same_kind("Sub", x, same_kind("Mod", x, safe)), safe))


def _float_floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """NumPy's npy_floor_divide: exact where x / y rounds up to the next integer."""
    rest = elementwise("Mod", x, y, fmod=1)
    whole = elementwise("Div", elementwise("Sub", x, rest), y)
    quotient = where(_other_sign(rest, y), elementwise("Sub", whole, constant(1, x.dtype)), whole)
    down = elementwise("Floor", quotient)
    over = elementwise("Greater", elementwise("Sub", quotient, down), constant(0.5, x.dtype), dtype=bool)
    made = where(over, elementwise("Add", down, constant(1, x.dtype)), down)
    zero = elementwise("Equal", y, constant(0, y.dtype), dtype=bool)
    return made if y.const is not None and (y.const != 0).all() else where(zero, elementwise("Div", x, y), made)


@lowers(np.left_shift)
def _left_shift(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.left_shift, a, b)
    return same_kind("Mul", x, constant(np.left_shift(np.ones((), x.dtype), _shifts(y, x)), x.dtype))


@lowers(np.right_shift)
def _right_shift(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.right_shift, a, b)
    by = constant(np.left_shift(np.ones((), x.dtype), _shifts(y, x)), x.dtype)
    return same_kind("Div", same_kind("Sub", x, same_kind("Mod", x, by)), by)


def _shifts(y: Tensor, x: Tensor) -> np.ndarray:
    if y.const is None or ((y.const < 0) | (y.const > 8 * x.dtype.itemsize - 2)).any():
        refuse("a shift by other than a constant", "x * 2 ** n")
    return y.const


# ---- two arrays --------------------------------------------------------------------------------------------------------------


def _ignoring_nan(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, a: Any, b: Any) -> Tensor:
        x, y = loop_inputs(ufunc, a, b)
        if x.dtype.kind != "f":
            return same_kind(op_type, x, y)
        return where(is_nan(x), y, where(is_nan(y), x, same_kind(op_type, x, y)))


_ignoring_nan(np.fmax, "Max")
_ignoring_nan(np.fmin, "Min")


@lowers(np.hypot)
def _hypot(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.hypot, a, b)
    if x.dtype == np.float64:
        refuse("np.hypot of float64, whose squares can overflow", "np.sqrt(a**2 + b**2), if they cannot")
    squares = [elementwise("Mul", wide, wide) for wide in (cast(x, np.float64), cast(y, np.float64))]
    return cast(elementwise("Sqrt", elementwise("Add", *squares)), x.dtype)


@lowers(np.logaddexp)
def _logaddexp(result: Any, a: Any, b: Any) -> Tensor:
    """The larger one, and what the other adds: nothing overflows, and equal infinities stay."""
    x, y = loop_inputs(np.logaddexp, a, b)
    wide = [cast(each, np.float64) for each in (x, y)]
    apart = elementwise("Neg", elementwise("Abs", elementwise("Sub", *wide)))
    adds = elementwise("Log", elementwise("Add", elementwise("Exp", apart), constant(1.0)))
    same = elementwise("Equal", *wide, dtype=bool)
    return cast(elementwise("Add", elementwise("Max", *wide), where(same, constant(np.log(2.0)), adds)), x.dtype)


def lower_erf(result: Any, x: Any) -> Tensor:
    """scipy.special.erf."""
    tensor = tensor_of(x, np.asarray(result).dtype)
    return same_kind("Erf", tensor)


REASONS[np.arctan2] = "np.arctan2, for which there is no operator", "np.arctan(y / x), with np.where for the quadrants"

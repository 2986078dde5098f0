"""NumPy's ufuncs as ONNX operators, in the dtype of the loop that NumPy chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import REASONS, lowers
from pyopnb.lowering.tensors import BOOL, INT64, Tensor, cast, constant, elementwise, served, where
from pyopnb.lowering.tracing import Number, plain, tensor_of
from pyopnb.models.ort_capabilities import compares_int64

__all__ = ["is_nan", "loop_inputs", "lower_erf", "same_kind", "strong_inputs"]


def loop_inputs(ufunc: np.ufunc, *inputs: Any) -> list[Tensor]:
    """Cast inputs to the dtypes in which NumPy calculates (NEP 50)."""
    kinds = [_kind(value) for value in inputs]
    dtypes = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    return [tensor_of(value, dtype) for value, dtype in zip(inputs, dtypes, strict=False)]


def strong_inputs(*inputs: Any) -> list[Tensor]:
    """Cast inputs to their common dtype, in which Python's numbers count as int64 and float64."""
    dtype = np.result_type(*(np.asarray(plain(value)).dtype for value in inputs))
    return [tensor_of(value, dtype) for value in inputs]


def _kind(value: Any) -> Any:
    if type(value) is Number or type(value) in (int, float, bool):
        kind = type(plain(value))
        return np.dtype(bool) if kind is bool else kind
    return np.asarray(plain(value)).dtype


def same_kind(op_type: str, *inputs: Tensor, dtype: Any = None) -> Tensor:
    """Record an elementwise operator, in a wider integer where there is no kernel."""
    kind = inputs[0].dtype
    if op_type in ("Max", "Min") and kind == INT64 and not compares_int64():
        x, y = inputs
        return where(elementwise("Greater" if op_type == "Max" else "Less", x, y, dtype=BOOL), x, y)
    if served(op_type, kind, len(inputs)):
        return elementwise(op_type, *inputs, dtype=dtype)
    if kind.kind in "iub":
        for wide in (np.dtype(np.int32), np.dtype(np.int64)):
            if served(op_type, wide, len(inputs)) and (
                wide.itemsize > kind.itemsize or kind.kind == "b"
            ):
                tensor = elementwise(
                    op_type, *(cast(x, wide) for x in inputs), dtype=dtype and wide
                )
                return tensor if dtype is not None else cast(tensor, kind)
    refuse(
        f"{op_type} of {kind}, for which ONNX Runtime has no kernel",
        "x.astype(np.float32)" if kind.kind == "f" else None,
    )


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
            return elementwise(
                {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}[op_type], x, y
            )
        return same_kind(op_type, x, y)


for _ufunc, _op in {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.maximum: "Max", np.minimum: "Min",
}.items():  # fmt: skip
    _binary(_ufunc, _op)


@lowers(np.divide)
def _divide(result: Any, a: Any, b: Any) -> Tensor:
    return elementwise("Div", *loop_inputs(np.divide, a, b))


def _compared_inputs(ufunc: np.ufunc, a: Any, b: Any) -> list[Tensor]:
    """Cast the inputs of a comparison, in which NumPy compares a Python int as it is: nothing wraps."""
    for value, second in ((a, b), (b, a)):
        dtype = np.asarray(plain(second)).dtype
        is_int = type(plain(value)) is int and dtype.kind in "iu" and type(plain(second)) is not int
        if not is_int:
            continue
        if type(value) is int and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            continue  # it fits, and the cast of a constant costs nothing
        if dtype == np.uint64:
            refuse(
                f"a comparison of {dtype} with a number that may not fit",
                "np.uint64(n) in place of n",
            )
        return [tensor_of(a, np.int64), tensor_of(b, np.int64)]
    x, y = loop_inputs(ufunc, a, b)
    if x.dtype != y.dtype:
        refuse(
            f"a comparison of {x.dtype} with {y.dtype}",
            "x.astype(np.int64), if nothing is beyond it",
        )
    return [x, y]


def _fits_in_int64(value: Any) -> bool:
    return type(value) is not int or -(2**63) <= value < 2**63


def _comparison(ufunc: np.ufunc, op_type: str) -> None:
    @lowers(ufunc)
    def lower(result: Any, a: Any, b: Any) -> Tensor:
        if (
            not (_fits_in_int64(a) and _fits_in_int64(b))
            and np.asarray(plain(a if type(b) is int else b)).dtype.kind in "iu"
        ):
            refuse(
                "a comparison with a number beyond int64",
                "the answer, which is the same for all elements",
            )
        x, y = _compared_inputs(ufunc, a, b)
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


for _ufunc, _op in {
    np.logical_and: "And",
    np.logical_or: "Or",
    np.logical_xor: "Xor",
    np.logical_not: "Not",
}.items():
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
    (tensor,) = loop_inputs(np.sign, x)
    sign = same_kind("Sign", tensor)
    if tensor.dtype != np.float16:
        return sign
    # The kernel for float16, as of onnxruntime 1.32, gives 0 for NaN.
    return where(is_nan(tensor), tensor, sign)


def is_nan(x: Tensor) -> Tensor:
    """Mark where a tensor is NaN, by a comparison with itself where the runtime has no kernel."""
    if served("IsNaN", x.dtype):
        return elementwise("IsNaN", x, dtype=bool)
    return elementwise("Not", elementwise("Equal", x, x, dtype=bool))


def _is_inf(x: Tensor) -> Tensor:
    if served("IsInf", x.dtype):
        return elementwise("IsInf", x, dtype=bool)
    return elementwise("Equal", elementwise("Abs", x), constant(np.inf, x.dtype), dtype=bool)


def _class_of_numbers(
    function: Any, of_floats: Callable[[Tensor], Tensor], of_integers: bool
) -> None:
    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        tensor = tensor_of(x)
        if tensor.dtype.kind == "f":
            return of_floats(tensor)
        yes = elementwise("Equal", tensor, tensor, dtype=bool)
        return yes if of_integers else elementwise("Not", yes)


_class_of_numbers(np.isnan, is_nan, False)
_class_of_numbers(np.isinf, _is_inf, False)
_class_of_numbers(
    np.isfinite, lambda x: elementwise("Not", elementwise("Or", is_nan(x), _is_inf(x))), True
)


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


@lowers(np.float_power)
def _float_power(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.float_power, a, b)
    return elementwise("Pow", x, y)


@lowers(np.power)
def _power(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.power, a, b)
    exponent = None if y.const is None or y.const.size != 1 else y.const.ravel()[0]
    if exponent == 2 and not y.ndim:
        return same_kind("Mul", x, x)
    if x.dtype.kind == "f":
        return _power_of_floats(x, y, exponent, of_array=isinstance(plain(a), np.ndarray))
    if exponent is None or y.ndim or not 0 < exponent <= _MOST_FACTORS:
        refuse(
            "a power of integers, which ONNX Runtime rounds as a float64",
            "x.astype(np.float64) ** n",
        )
    tensor = x
    for _ in range(int(exponent) - 1):
        tensor = same_kind("Mul", tensor, x)
    return tensor


def _power_of_floats(x: Tensor, y: Tensor, exponent: Any, of_array: bool) -> Tensor:
    """Raise floats to a power: NumPy takes the square root of an array for an exponent of 0.5, so that -inf gives NaN."""
    if y.ndim or not of_array:
        return elementwise("Pow", x, y)
    if exponent is not None:
        return elementwise("Sqrt", x) if exponent == 0.5 else elementwise("Pow", x, y)
    is_root = elementwise("Equal", y, constant(0.5, y.dtype), dtype=bool)
    is_negative = elementwise("Less", x, constant(0, x.dtype), dtype=bool)
    has_no_root = elementwise("And", is_root, is_negative)
    return where(has_no_root, constant(np.nan, x.dtype), elementwise("Pow", x, y))


def _in_double(function: Any, record: Callable[[Tensor], Tensor]) -> None:
    """Functions that lose what is near zero are calculated in float64 for smaller dtypes."""

    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        (tensor,) = loop_inputs(function, x)
        return cast(record(cast(tensor, np.float64)), tensor.dtype)


def _log1p(x: Tensor) -> Tensor:
    """Calculate log(1 + x) by Kahan's formula, which corrects for what the addition rounds off."""
    unit = constant(1.0)
    above = elementwise("Add", x, unit)
    added = elementwise("Sub", above, unit)
    logarithm = elementwise("Log", above)
    corrected = elementwise("Mul", logarithm, elementwise("Div", x, added))
    # Nothing was added: the logarithm is x itself. And infinity by infinity is no number.
    is_tiny = elementwise("Equal", above, unit, dtype=bool)
    is_infinite = elementwise("Equal", above, constant(np.inf), dtype=bool)
    return where(is_tiny, x, where(is_infinite, above, corrected))


def _expm1(x: Tensor) -> Tensor:
    """Calculate exp(x) - 1 by Kahan's formula, which corrects for what the subtraction cancels."""
    unit = constant(1.0)
    power = elementwise("Exp", x)
    less = elementwise("Sub", power, unit)
    corrected = elementwise("Mul", less, elementwise("Div", x, elementwise("Log", power)))
    # Far from zero nothing cancels, and the logarithm of 0 and of infinity would make NaN.
    is_tiny = elementwise("Equal", power, unit, dtype=bool)
    cancels = elementwise("Less", elementwise("Abs", x), unit, dtype=bool)
    return where(is_tiny, x, where(cancels, corrected, less))


def _logarithm(x: Tensor, base: float) -> Tensor:
    """Calculate a logarithm that is whole where x is a whole power of the base, as floor(log2(x)) counts on."""
    quotient = elementwise("Div", elementwise("Log", x), constant(np.log(base)))
    entire = elementwise("Round", quotient)
    is_power = elementwise("Equal", elementwise("Pow", constant(base), entire), x, dtype=bool)
    return where(is_power, entire, quotient)


_in_double(np.log1p, _log1p)
_in_double(np.expm1, _expm1)
_in_double(np.log2, lambda x: _logarithm(x, 2.0))
_in_double(np.log10, lambda x: _logarithm(x, 10.0))
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


def _is_value(x: Tensor, value: int) -> Tensor:
    return same_kind("Equal", x, constant(value, x.dtype), dtype=bool)


def _is_never(x: Tensor, value: int) -> bool:
    """Tell whether a tensor cannot hold a value: it is a constant without it."""
    if x.dtype.kind == "u" and value < 0:
        return True
    return x.const is not None and not bool((x.const == value).any())


def _safe_divisor(divisor: Tensor) -> Tensor:
    """Replace 0 and -1 by 1: the processor ends the process for x // 0, and for the least integer // -1."""
    unit = constant(1, divisor.dtype)
    for value in (0, -1):
        if not _is_never(divisor, value):
            divisor = where(_is_value(divisor, value), unit, divisor)
    return divisor


@lowers(np.remainder)
def _remainder(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.remainder, a, b)
    if x.dtype.kind == "f":
        return _float_remainder(x, y)
    # By 1, which stands for 0 and -1, all remainders are the 0 that NumPy gives there.
    return same_kind("Mod", x, _safe_divisor(y))


def _float_remainder(x: Tensor, y: Tensor) -> Tensor:
    """Give C's remainder the divisor's sign, as NumPy does; a zero is positive, as onnxruntime's Where drops its sign."""
    remainder = elementwise("Mod", x, y, fmod=1)
    zero = constant(0, x.dtype)
    adjusted = where(_other_sign(remainder, y), elementwise("Add", remainder, y), remainder)
    return where(elementwise("Equal", remainder, zero, dtype=bool), zero, adjusted)


def _other_sign(rest: Tensor, y: Tensor) -> Tensor:
    """Mark where a remainder is not zero and has not the divisor's sign."""
    zero = constant(0, rest.dtype)
    signs = elementwise("Xor", *(elementwise("Less", item, zero, dtype=bool) for item in (rest, y)))
    return elementwise(
        "And", elementwise("Not", elementwise("Equal", rest, zero, dtype=bool)), signs
    )


@lowers(np.fmod)
def _fmod(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.fmod, a, b)
    if x.dtype.kind == "f":
        return elementwise("Mod", x, y, fmod=1)
    return _c_remainder(x, _safe_divisor(y))


def _c_remainder(x: Tensor, y: Tensor) -> Tensor:
    """Calculate C's remainder of integers, which has the sign of x."""
    if served("Mod", x.dtype, 2):
        return elementwise("Mod", x, y, fmod=1)
    refuse(f"np.fmod of {x.dtype}, for which ONNX Runtime has no kernel", "x.astype(np.int64)")


@lowers(np.floor_divide)
def _floor_divide(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.floor_divide, a, b)
    if x.dtype.kind == "f":
        return _float_floor_divide(x, y)
    return _integer_floor_divide(x, y)


def _integer_floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide and round down. x - x % y would wrap near the least integer, so the quotient is corrected instead."""
    safe = _safe_divisor(y)
    quotient = same_kind("Div", x, safe)
    if x.dtype.kind == "i":
        exact = same_kind("Mul", quotient, safe)
        remainder = same_kind("Sub", x, exact)
        zero = constant(0, x.dtype)
        is_inexact = elementwise("Not", same_kind("Equal", remainder, zero, dtype=bool))
        differs_in_sign = elementwise(
            "Xor",
            same_kind("Less", remainder, zero, dtype=bool),
            same_kind("Less", safe, zero, dtype=bool),
        )
        rounds_down = elementwise("And", is_inexact, differs_in_sign)
        quotient = where(rounds_down, same_kind("Sub", quotient, constant(1, x.dtype)), quotient)
    if not _is_never(y, -1):
        quotient = where(_is_value(y, -1), same_kind("Neg", x), quotient)
    if not _is_never(y, 0):
        quotient = where(_is_value(y, 0), constant(0, x.dtype), quotient)
    return quotient


def _float_floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """NumPy's npy_floor_divide: exact where x / y rounds up to the next integer."""
    remainder = elementwise("Mod", x, y, fmod=1)
    entire = elementwise("Div", elementwise("Sub", x, remainder), y)
    quotient = where(
        _other_sign(remainder, y), elementwise("Sub", entire, constant(1, x.dtype)), entire
    )
    down = elementwise("Floor", quotient)
    over = elementwise(
        "Greater", elementwise("Sub", quotient, down), constant(0.5, x.dtype), dtype=bool
    )
    tensor = where(over, elementwise("Add", down, constant(1, x.dtype)), down)
    zero = elementwise("Equal", y, constant(0, y.dtype), dtype=bool)
    return (
        tensor
        if y.const is not None and (y.const != 0).all()
        else where(zero, elementwise("Div", x, y), tensor)
    )


@lowers(np.left_shift)
def _left_shift(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.left_shift, a, b)
    return same_kind(
        "Mul", x, constant(np.left_shift(np.ones((), x.dtype), _shifts(y, x)), x.dtype)
    )


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
        refuse(
            "np.hypot of float64, whose squares can overflow",
            "np.sqrt(a**2 + b**2), if they cannot",
        )
    squares = [
        elementwise("Mul", wide, wide) for wide in (cast(x, np.float64), cast(y, np.float64))
    ]
    length = cast(elementwise("Sqrt", elementwise("Add", *squares)), x.dtype)
    # An infinite side makes an infinite length, whatever the other is.
    is_infinite = elementwise("Or", _is_inf(x), _is_inf(y))
    return where(is_infinite, constant(np.inf, x.dtype), length)


@lowers(np.logaddexp)
def _logaddexp(result: Any, a: Any, b: Any) -> Tensor:
    """Add to the larger one what the smaller adds: nothing overflows, and equal infinities stay."""
    x, y = loop_inputs(np.logaddexp, a, b)
    wide = [cast(item, np.float64) for item in (x, y)]
    separate = elementwise("Neg", elementwise("Abs", elementwise("Sub", *wide)))
    adds = _log1p(elementwise("Exp", separate))
    same = elementwise("Equal", *wide, dtype=bool)
    return cast(
        elementwise("Add", elementwise("Max", *wide), where(same, constant(np.log(2.0)), adds)),
        x.dtype,
    )


def lower_erf(result: Any, x: Any) -> Tensor:
    """Record scipy.special.erf."""
    tensor = tensor_of(x, np.asarray(result).dtype)
    return same_kind("Erf", tensor)


REASONS[np.arctan2] = (
    "np.arctan2, for which there is no operator",
    "np.arctan(y / x), with np.where for the quadrants",
)

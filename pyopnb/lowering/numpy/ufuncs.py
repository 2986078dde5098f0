"""NumPy ufuncs as ONNX operators, in the dtype of the loop that NumPy chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import (
    absolute,
    add,
    and_,
    div,
    elementwise,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    is_nan,
    less,
    less_equal,
    log,
    maximum,
    minimum,
    mul,
    neg,
    not_,
    or_,
    power,
    sqrt,
    sub,
    where,
    xor,
)
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import BOOL, INT64, Tensor, cast, served
from pyopnb.lowering.tracing import Number, plain, tensor_of

__all__ = ["computes", "loop_inputs", "lower_erf"]


def loop_inputs(ufunc: np.ufunc, *inputs: Any) -> list[Tensor]:
    """Cast inputs to the dtypes in which NumPy calculates (NEP 50)."""
    input_types = map(_type_in_promotion, inputs)
    dtypes = ufunc.resolve_dtypes((*input_types, *[None] * ufunc.nout))
    return [tensor_of(value, dtype) for value, dtype in zip(inputs, dtypes, strict=False)]


def _type_in_promotion(value: Any) -> Any:
    """Return an array's dtype, or the type of a Python number, which adapts to the other side."""
    is_python_number = type(value) is Number or type(value) in (int, float, bool)
    if is_python_number and type(plain(value)) is not bool:
        return type(plain(value))
    return _dtype_of(value)


def _dtype_of(value: Any) -> np.dtype:
    return np.asarray(plain(value)).dtype


_Rule = Callable[..., Tensor]


def computes(ufunc: np.ufunc, *others: Any) -> Callable[[_Rule], _Rule]:
    """Register a rule that gets its inputs in the dtypes in which NumPy calculates a ufunc."""

    def register(rule: _Rule) -> _Rule:
        @lowers(ufunc, *others)
        def lower(result: Any, *inputs: Any) -> Tensor:
            return rule(*loop_inputs(ufunc, *inputs))

        return rule

    return register


# ---- one operator each ---------------------------------------------------------------------------

_UNARY: dict[Any, str] = {
    np.exp: "Exp", np.log: "Log", np.sqrt: "Sqrt", np.tanh: "Tanh",
    np.sin: "Sin", np.cos: "Cos", np.tan: "Tan",
    np.arcsin: "Asin", np.arccos: "Acos", np.arctan: "Atan",
    np.sinh: "Sinh", np.cosh: "Cosh",
    np.arcsinh: "Asinh", np.arccosh: "Acosh", np.arctanh: "Atanh",
    np.fabs: "Abs", np.reciprocal: "Reciprocal",
}  # fmt: skip
for _ufunc, _op_type in _UNARY.items():
    computes(_ufunc)(partial(elementwise, _op_type))


def _rounded(op_type: str, x: Tensor) -> Tensor:
    # Integers are whole already, and have no kernel.
    if x.dtype.kind in "iub":
        return x
    return elementwise(op_type, x)


for _ufunc, _op_type in {np.floor: "Floor", np.ceil: "Ceil", np.rint: "Round"}.items():
    computes(_ufunc)(partial(_rounded, _op_type))


def _by_dtype(of_bools: _Rule, of_numbers: _Rule, *inputs: Tensor) -> Tensor:
    if inputs[0].dtype == BOOL:
        return of_bools(*inputs)
    return of_numbers(*inputs)


# NumPy refuses the difference of bools itself.
_OF_BOOLS_AND_NUMBERS: dict[Any, tuple[_Rule, _Rule]] = {
    np.add: (or_, add),
    np.subtract: (xor, sub),
    np.multiply: (and_, mul),
    np.maximum: (or_, maximum),
    np.minimum: (and_, minimum),
    np.bitwise_and: (and_, partial(elementwise, "BitwiseAnd")),
    np.bitwise_or: (or_, partial(elementwise, "BitwiseOr")),
    np.bitwise_xor: (xor, partial(elementwise, "BitwiseXor")),
    np.invert: (not_, partial(elementwise, "BitwiseNot")),
}
for _ufunc, _rules in _OF_BOOLS_AND_NUMBERS.items():
    computes(_ufunc)(partial(_by_dtype, *_rules))
computes(np.divide)(div)


def _logical(ufunc: np.ufunc, record: _Rule) -> None:
    @lowers(ufunc)
    def lower(result: Any, *inputs: Any) -> Tensor:
        bools = [tensor_of(x, bool) for x in inputs]
        return record(*bools)


_logical(np.logical_and, and_)
_logical(np.logical_or, or_)
_logical(np.logical_xor, xor)
_logical(np.logical_not, not_)

# ---- comparisons ---------------------------------------------------------------------------------


def _comparison(ufunc: np.ufunc, record: _Rule) -> None:
    @lowers(ufunc)
    def lower(result: Any, a: Any, b: Any) -> Tensor:
        x, y = _compared_inputs(ufunc, a, b)
        return record(x, y)


_comparison(np.less, less)
_comparison(np.less_equal, less_equal)
_comparison(np.greater, greater)
_comparison(np.greater_equal, greater_equal)
_comparison(np.equal, equal)
_comparison(np.not_equal, lambda x, y: not_(equal(x, y)))


def _compared_inputs(ufunc: np.ufunc, a: Any, b: Any) -> list[Tensor]:
    """Cast the inputs of a comparison; NumPy compares Python ints by value, without wrapping."""
    for number, array in ((a, b), (b, a)):
        if type(plain(number)) is not int or type(plain(array)) is int:
            continue
        dtype = _dtype_of(array)
        if dtype.kind not in "iu" or _fits(number, dtype):
            # It fits, and the cast of a constant costs nothing.
            continue
        if dtype == np.uint64:
            refuse(
                f"a comparison of {dtype} with a number that may not fit",
                "np.uint64(n) in place of n",
            )
        if type(number) is int and not _fits(number, INT64):
            refuse(
                "a comparison with a number beyond int64",
                "the answer, which is the same for all elements",
            )
        return [tensor_of(a, np.int64), tensor_of(b, np.int64)]
    x, y = loop_inputs(ufunc, a, b)
    if x.dtype != y.dtype:
        refuse(
            f"a comparison of {x.dtype} with {y.dtype}",
            "x.astype(np.int64), if nothing is beyond it",
        )
    return [x, y]


def _fits(number: Any, dtype: np.dtype) -> bool:
    """Tell whether a number is known to fit an integer dtype; a traced number is not."""
    limits = np.iinfo(dtype)
    return type(number) is int and limits.min <= number <= limits.max


# ---- signs and classes ---------------------------------------------------------------------------


@computes(np.absolute)
def _absolute(x: Tensor) -> Tensor:
    if x.dtype.kind in "bu":
        return x
    return absolute(x)


@computes(np.negative)
def _negative(x: Tensor) -> Tensor:
    # Neg has no unsigned kernels; the subtraction wraps as NumPy does.
    if x.dtype.kind == "u":
        return sub(0, x)
    return neg(x)


@lowers(np.positive)
def _positive(result: Any, x: Any) -> Tensor:
    return tensor_of(x)


@computes(np.sign)
def _sign(x: Tensor) -> Tensor:
    sign = elementwise("Sign", x)
    if x.dtype != np.float16:
        return sign
    # The kernel for float16, as of onnxruntime 1.32, gives 0 for NaN.
    return where(is_nan(x), x, sign)


def _is_inf(x: Tensor) -> Tensor:
    if served("IsInf", x.dtype):
        return elementwise("IsInf", x, dtype=BOOL)
    return equal(absolute(x), np.inf)


def _is_finite(x: Tensor) -> Tensor:
    return not_(or_(is_nan(x), _is_inf(x)))


def _class_of_numbers(
    function: Any, of_floats: Callable[[Tensor], Tensor], of_integers: bool
) -> None:
    @lowers(function)
    def lower(result: Any, x: Any) -> Tensor:
        tensor = tensor_of(x)
        if tensor.dtype.kind == "f":
            return of_floats(tensor)
        # Each integer equals itself, so this is true everywhere, in the shape of x.
        always = equal(tensor, tensor)
        if of_integers:
            return always
        return not_(always)


_class_of_numbers(np.isnan, is_nan, False)
_class_of_numbers(np.isinf, _is_inf, False)
_class_of_numbers(np.isfinite, _is_finite, True)


# ---- powers --------------------------------------------------------------------------------------


@computes(np.square)
def _square(x: Tensor) -> Tensor:
    return mul(x, x)


_MOST_FACTORS = 16


@lowers(np.power)
def _power(result: Any, a: Any, b: Any) -> Tensor:
    x, y = loop_inputs(np.power, a, b)
    exponent = None
    if y.const is not None and y.const.size == 1:
        exponent = y.const.item()
    if exponent == 2 and not y.ndim:
        return mul(x, x)
    if x.dtype.kind == "f":
        # NumPy takes the square root of an array for an exponent of 0.5, so that -inf gives NaN.
        is_root = exponent == 0.5 and not y.ndim and isinstance(plain(a), np.ndarray)
        if is_root:
            return sqrt(x)
        return power(x, y)
    if exponent is None or y.ndim or not 0 < exponent <= _MOST_FACTORS:
        refuse(
            "a power of integers, which ONNX Runtime rounds as a float64",
            "x.astype(np.float64) ** n",
        )
    tensor = x
    for _ in range(exponent - 1):
        tensor = mul(tensor, x)
    return tensor


# ---- logarithms and others that lose digits near zero --------------------------------------------


def _in_double(record: _Rule, x: Tensor) -> Tensor:
    """Compute in float64, as the function loses precision near zero."""
    return cast(record(cast(x, np.float64)), x.dtype)


def _log1p(x: Tensor) -> Tensor:
    """Calculate log(1 + x) by Kahan's formula, which corrects the rounding of the addition."""
    above = add(x, 1.0)
    added = sub(above, 1.0)
    corrected = mul(log(above), div(x, added))
    # If rounding lost x, the logarithm is x itself; this also avoids infinity / infinity.
    return where(equal(above, 1.0), x, where(equal(above, np.inf), above, corrected))


def _expm1(x: Tensor) -> Tensor:
    """Calculate exp(x) - 1 by Kahan's formula, which corrects the cancellation."""
    raised = exp(x)
    less_one = sub(raised, 1.0)
    corrected = mul(less_one, div(x, log(raised)))
    # Far from zero nothing cancels, and the logarithm of 0 and of infinity would make NaN.
    cancels = less(absolute(x), 1.0)
    return where(equal(raised, 1.0), x, where(cancels, corrected, less_one))


def _logarithm(x: Tensor, base: float) -> Tensor:
    """Compute a logarithm that is exact for powers of the base.

    Code like floor(log2(x)) expects that.
    """
    quotient = div(log(x), float(np.log(base)))
    nearest = elementwise("Round", quotient)
    return where(equal(power(base, nearest), x), nearest, quotient)


_LOSING: dict[Any, _Rule] = {
    np.log1p: _log1p,
    np.expm1: _expm1,
    np.log2: partial(_logarithm, base=2.0),
    np.log10: partial(_logarithm, base=10.0),
    np.exp2: partial(power, 2.0),
    np.deg2rad: partial(mul, np.pi / 180),
    np.rad2deg: partial(mul, 180 / np.pi),
}
for _ufunc, _rule in _LOSING.items():
    computes(_ufunc)(partial(_in_double, _rule))


# ---- rounding ------------------------------------------------------------------------------------


@computes(np.trunc, np.fix)
def _trunc(x: Tensor) -> Tensor:
    if x.dtype.kind in "iub":
        return x
    return where(less(x, 0), elementwise("Ceil", x), floor(x))


# ---- two arrays ----------------------------------------------------------------------------------


@computes(np.logaddexp)
def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """Compute logaddexp from the larger operand, without overflow, and keep equal infinities."""
    first = cast(x, np.float64)
    second = cast(y, np.float64)
    distance = absolute(sub(first, second))
    # The distance of equal infinities is NaN; equal numbers add the logarithm of 2.
    added = where(equal(first, second), float(np.log(2.0)), _log1p(exp(neg(distance))))
    return cast(add(maximum(first, second), added), x.dtype)


def lower_erf(result: Any, x: Any) -> Tensor:
    """Record scipy.special.erf."""
    return elementwise("Erf", tensor_of(x, result.dtype))

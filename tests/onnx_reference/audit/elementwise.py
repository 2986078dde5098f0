"""Calls of operators that work element by element."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  # NumPy knows the names of its dtypes from then on
import numpy as np

from audit.cases import (
    ABSENT,
    SPECIAL,
    combined,
    dtypes_of,
    floats,
    generates,
    integers,
)

F = np.float32

_HINT = {"consumed_inputs": [ABSENT, [0]]}


def _unary_inputs(schema, low=-2.0, high=2.0):
    """A matrix in every dtype, and in the first float dtype every size and special value."""
    for dtype in dtypes_of(schema):
        yield floats(3, 5, dtype=dtype, low=low, high=high)
    kinds = [d for d in dtypes_of(schema) if np.dtype(d).kind == "f"] or dtypes_of(schema)
    dtype = kinds[0]
    for shape in [(), (1,), (0,), (2, 0, 3), (7,), (2, 3, 1, 5)]:
        yield floats(*shape, dtype=dtype, low=low, high=high)
    if np.dtype(dtype).kind == "f":
        yield SPECIAL.astype(dtype)


@generates(
    *["Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf"],
    *["Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh"],
    *["Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Relu", "Identity", "IsNaN", "Mish"],
    *["HardSwish", "Not", "BitwiseNot"],
)
def unary(schema):
    for x in _unary_inputs(schema):
        yield [x], {}
    if "consumed_inputs" in schema.attributes:
        yield [floats(2, 3)], {"consumed_inputs": [0]}
    if schema.name == "Round":
        yield [F([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997])], {}
    if schema.name == "Sign":
        yield [F([-0.0, 0.0, np.nan])], {}
    if schema.name == "Identity":
        yield [np.array(["a", "", "é"], object)], {}
        if schema.since_version >= 14:
            yield [[floats(2), floats(3)]], {}


@generates("Elu", "LeakyRelu", "ThresholdedRelu", "Celu", "Swish")
def one_number(schema):
    for x in _unary_inputs(schema):
        yield [x], {}
    for attrs in combined(
        schema, alpha=[0.1, 1.0, 2.5, -0.5] if schema.name != "Celu" else [0.1, 3.0], **_HINT
    ):
        yield [floats(3, 4)], attrs
        yield [SPECIAL], attrs


@generates("Selu", "HardSigmoid")
def two_numbers(schema):
    for x in _unary_inputs(schema):
        yield [x], {}
    values = [ABSENT, 0.3, 2.0]
    for attrs in combined(schema, alpha=values, gamma=values, beta=values, **_HINT):
        yield [floats(3, 4, low=-6, high=6)], attrs


@generates("Gelu")
def gelu(schema):
    for x in _unary_inputs(schema):
        for attrs in combined(schema, approximate=[ABSENT, "none", "tanh"]):
            yield [x], attrs


@generates("Shrink")
def shrink(schema):
    for x in _unary_inputs(schema, -4, 4):
        yield [x], {}
    for dtype in dtypes_of(schema):
        for attrs in combined(
            schema, bias=[ABSENT, 0.25, 2.0, -1.0], lambd=[ABSENT, 1.0, 1.5, 0.0]
        ):
            yield [floats(3, 4, dtype=dtype, low=-4, high=4)], attrs


@generates("IsInf")
def is_inf(schema):
    for x in _unary_inputs(schema):
        for attrs in combined(
            schema, detect_negative=[ABSENT, 0, 1], detect_positive=[ABSENT, 0, 1]
        ):
            yield [x], attrs


@generates("Clip")
def clip(schema):
    if schema.since_version < 11:
        for x in [
            floats(3, 5),
            floats(),
            floats(0),
            SPECIAL,
            floats(3, dtype=np.float16),
            floats(3, dtype=np.float64),
        ]:
            for attrs in combined(schema, min=[ABSENT, -0.5, 0.0], max=[ABSENT, 0.0, 1.0], **_HINT):
                yield [x], attrs
        return
    for dtype in dtypes_of(schema):
        low, high = np.array(1, dtype), np.array(3, dtype)
        x = floats(3, 5, dtype=dtype, low=-4, high=4)
        for inputs in ([x], [x, low], [x, None, high], [x, low, high]):
            yield inputs, {}
        if schema.since_version >= 12:
            yield [x, high, low], {}
    yield [SPECIAL, F(-1), F(1)], {}
    yield [floats(0), F(-1), F(1)], {}
    yield [floats(), F(-0.1), F(0.1)], {}


# ---- two inputs --------------------------------------------------------------------------------


def _legacy_broadcast(schema, make):
    """Before version 7: no broadcasting unless asked for, and then of the second input at an axis."""
    yield [make(3, 4), make(3, 4, low=-3)], {}
    big = make(2, 3, 4, 5)
    for shape, axis in [
        ((1,), ABSENT),
        ((5,), ABSENT),
        ((4, 5), ABSENT),
        ((3, 4), 1),
        ((3,), 1),
        ((2,), 0),
        ((4,), -2),
        ((1, 1), ABSENT),
        ((2, 3, 4, 5), ABSENT),
        ((), ABSENT),
        ((3, 1), 1),
    ]:
        yield [big, make(*shape, low=-3)], {"broadcast": 1, "axis": axis}
    if "consumed_inputs" in schema.attributes:
        yield [make(3, 4), make(3, 4, low=-3)], {"consumed_inputs": [0, 0]}


_PAIRS = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((4,), (3, 4)),
    ((), (3,)),
    ((3, 1), (1, 4)),
    ((2, 1, 5), (3, 1)),
    ((0,), (1,)),
    ((0, 3), (3,)),
    ((), ()),
    ((1,), (1,)),
]


@generates("Add", "Sub", "Mul", "Div")
def arithmetic(schema):
    def make(*shape, low=-2.0, dtype=F):
        values = floats(*shape, low=low, dtype=dtype)
        return np.where(np.abs(values) < 0.1, np.array(1, dtype), values).astype(dtype)

    def strict(*shape, low=-2.0, dtype=F):
        return np.asarray(make(*shape, low=low, dtype=dtype))

    if schema.since_version < 7:
        yield from _legacy_broadcast(schema, strict)
        for dtype in dtypes_of(schema):
            yield [strict(3, 4, dtype=dtype), strict(3, 4, low=-3, dtype=dtype)], {}
        return
    for dtype in dtypes_of(schema):
        if np.dtype(dtype).kind == "u" and schema.name == "Sub":
            yield [integers(3, 4, low=5, dtype=dtype), integers(4, high=5, dtype=dtype)], {}
            continue
        yield [strict(3, 4, dtype=dtype), strict(4, low=-3, dtype=dtype)], {}
    for a, b in _PAIRS:
        yield [strict(*a), strict(*b, low=-3)], {}
    yield [SPECIAL, SPECIAL[::-1].copy()], {}
    yield [F([1, -1, 0, np.inf]), F([0, 0, 0, np.inf])], {}


@generates("And", "Or", "Xor")
def logical(schema):
    def make(*shape, low=-2.0):
        return floats(*shape, low=low) > 0

    def strict(*shape, low=-2.0):
        return np.asarray(make(*shape, low=low))

    if schema.since_version < 7:
        yield from _legacy_broadcast(schema, strict)
        return
    for a, b in _PAIRS:
        yield [strict(*a), strict(*b, low=-3)], {}


@generates("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def comparison(schema):
    first = dtypes_of(schema)[-1 if schema.name != "Equal" else 0]
    first = F if F in dtypes_of(schema) else first

    def make(*shape, low=-2.0, dtype=first):
        return np.asarray(np.floor(floats(*shape, low=low) * 1.5)).astype(dtype)

    if schema.since_version < 7:
        yield from _legacy_broadcast(schema, make)
        return
    for dtype in dtypes_of(schema):
        yield [make(3, 4, dtype=dtype), make(4, low=-3, dtype=dtype)], {}
    for a, b in _PAIRS:
        yield [make(*a), make(*b, low=-3)], {}
    if first is F:
        yield [SPECIAL, SPECIAL[::-1].copy()], {}
        yield [SPECIAL, SPECIAL], {}
    if schema.name == "Equal" and schema.since_version >= 19:
        yield [np.array(["a", "b"], object), np.array(["a", "c"], object)], {}


@generates("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(schema):
    for dtype in dtypes_of(schema):
        yield [integers(3, 4, high=100, dtype=dtype), integers(4, high=90, dtype=dtype)], {}
    for a, b in _PAIRS:
        yield [integers(*a, low=-50, dtype=np.int32), integers(*b, high=90, dtype=np.int32)], {}


@generates("BitShift")
def bit_shift(schema):
    for dtype in dtypes_of(schema):
        for direction in ("LEFT", "RIGHT"):
            yield (
                [integers(3, 4, high=200, dtype=dtype), integers(4, high=8, dtype=dtype)],
                {"direction": direction},
            )
            yield (
                [integers(high=200, dtype=dtype), integers(4, high=8, dtype=dtype)],
                {"direction": direction},
            )


@generates("Pow")
def power(schema):
    if schema.since_version < 7:

        def make(*shape, low=0.1):
            return np.asarray(floats(*shape, low=0.1, high=2 if low == 0.1 else 3))

        yield from _legacy_broadcast(schema, make)
        return
    exponents = dtypes_of(schema, 1)
    for dtype in dtypes_of(schema):
        for other in exponents if schema.since_version >= 12 else [dtype]:
            yield [integers(3, 4, low=1, high=5, dtype=dtype), integers(4, high=4, dtype=other)], {}
    for a, b in _PAIRS:
        yield [floats(*a, low=0.1), floats(*b)], {}
    yield [SPECIAL, F([2])], {}
    yield [F([-2, 0, 0, np.inf, np.nan, 1, 2]), F([3, -1, 0, -1, 0, np.nan, 0.5])], {}
    if schema.since_version >= 12:
        yield [np.int32([2, 3, -2]), F([0.5, 2, 3])], {}


@generates("PRelu")
def prelu(schema):
    if schema.since_version < 7:
        yield [floats(2, 3, 4), floats(1)], {}
        yield [floats(2, 3, 4), floats(3)], {}
        yield [floats(2, 3, 4, 5), floats(3)], {}
        if "consumed_inputs" in schema.attributes:
            yield [floats(2, 3, 4), floats(3)], {"consumed_inputs": [0, 0]}
        return
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, 4, dtype=dtype), floats(3, 1, dtype=dtype)], {}
    for shape in [(1,), (4,), (3, 1), (2, 3, 4), (2, 1, 1), ()]:
        yield [floats(2, 3, 4), floats(*shape)], {}
    yield [SPECIAL, F([0.25])], {}
    yield [floats(0, 3), floats(3)], {}
    yield [floats(), floats()], {}


@generates("Mod")
def mod(schema):
    for dtype in dtypes_of(schema):
        kind = np.dtype(dtype).kind
        a, b = F([-7, 7, -6, 5, 4.5, 0]), F([3, -3, 3, 2, 2, 5])
        if kind == "u":
            a, b = np.abs(a), np.abs(b)
        for fmod in [1] if kind == "f" else [ABSENT, 0, 1]:
            yield [a.astype(dtype), b.astype(dtype)], {"fmod": fmod}
    for left, right in _PAIRS:
        yield (
            [
                integers(*left, low=-9, dtype=np.int32),
                integers(*right, low=1, high=5, dtype=np.int32),
            ],
            {},
        )
    yield [F([np.inf, 5, np.nan, -0.0]), F([2, np.inf, 2, 3])], {"fmod": 1}


@generates("SwiGLU")
def swiglu(schema):
    for dtype in dtypes_of(schema):
        for alpha in (ABSENT, 0.5, 1.702, -1.0):
            yield [floats(3, 4, dtype=dtype), floats(3, 4, low=-3, dtype=dtype)], {"alpha": alpha}
    yield [floats(), floats(low=-3)], {}
    yield [floats(0), floats(0)], {}


@generates("Sum", "Max", "Min", "Mean")
def variadic(schema):
    hint = [ABSENT, [0, 0, 0]] if "consumed_inputs" in schema.attributes else [ABSENT]
    for dtype in dtypes_of(schema):
        for value in hint:
            yield (
                [
                    floats(3, 4, dtype=dtype),
                    floats(3, 4, low=-3, dtype=dtype),
                    floats(3, 4, low=-5, dtype=dtype),
                ],
                {"consumed_inputs": value},
            )
    yield [floats(3, 4)], {}
    yield [floats(3, 4), floats(3, 4, low=-3)], {}
    yield [floats(0), floats(0)], {}
    yield [floats(), floats()], {}
    yield [SPECIAL, SPECIAL[::-1].copy()], {}
    if schema.since_version >= 8:
        for a, b in _PAIRS:
            yield [floats(*a), floats(*b, low=-3)], {}
        yield [floats(3, 1), floats(4), floats(2, 1, 1)], {}


@generates("Where")
def where(schema):
    for dtype in dtypes_of(schema, 1):
        yield [floats(3, 4) > 0, floats(3, 4, dtype=dtype), floats(4, dtype=dtype)], {}
    for a, b in _PAIRS:
        yield [np.asarray(floats(*a) > 0), floats(*a), floats(*b)], {}
        yield [np.asarray(floats(*b) > 0), floats(*a), floats(*b)], {}
    yield [np.array([True, False]), np.array(["a", "b"], object), np.array("c", object)], {}


# ---- dtypes ------------------------------------------------------------------------------------

_NUMBERS = {
    1: np.float32,
    10: np.float16,
    11: np.float64,
    3: np.int8,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    2: np.uint8,
    4: np.uint16,
    12: np.uint32,
    13: np.uint64,
    9: np.bool_,
}
_NAMES = {
    1: "FLOAT",
    10: "FLOAT16",
    11: "DOUBLE",
    3: "INT8",
    5: "INT16",
    6: "INT32",
    7: "INT64",
    2: "UINT8",
    4: "UINT16",
    12: "UINT32",
    13: "UINT64",
    9: "BOOL",
}


# ONNX does not say how a fraction becomes an integer of four or two bits, or a negative number E8M0.
_NUMBERS_FOR = {
    21: [0, 1, 2, 3, 7, 5],
    22: [0, -1, 2, 3, 7, -5],
    24: [0, 1, 1.5, 3.3, 7, 0.07],
    25: [0, 1, 2, 3],
    26: [0, 1, -1, -2],
}


@generates("Cast")
def cast(schema):
    like = schema.name == "CastLike"

    def call(x, number, **attrs):
        if like:
            return [x, np.zeros(1, _NUMBERS[number])], attrs
        return [x], {"to": _NAMES[number] if schema.since_version < 6 else number, **attrs}

    for dtype in dtypes_of(schema):
        for number in _NUMBERS:
            x = integers(2, 3, high=100, dtype=dtype)
            if np.dtype(dtype).kind == "f":
                x = x + np.array(0.75, dtype)
            yield call(x, number)
    for shape in [(), (0,), (1,)]:
        yield call(floats(*shape), 7)
    yield call(F([-1.5, 2.7, -0.5]), 6)
    yield call(F([np.nan, np.inf, -np.inf, -0.0, 0]), 9)
    yield call(F([np.nan, np.inf, -np.inf, -0.0, 1e-40]), 11)
    yield call(np.int32([-1, 300, 70000]), 2)
    yield call(np.int64([-1, 2**40, 5]), 6)
    yield call(np.float64([1e300, 1e-300, 0.1]), 1)
    yield call(F([70000, 1e-8, 0.1]), 10)
    if schema.since_version >= 9 and not like:
        yield [F([1, -2.5, np.nan, np.inf, 1e10, 0.1])], {"to": 8}
        yield [np.array(["1", "-2.5", "NaN", "INF", "1e3"], object)], {"to": 1}
        yield [np.array(["1", "-25"], object)], {"to": 7}
        yield [np.int64([1, -2])], {"to": 8}
        yield [np.array([True, False])], {"to": 8}
    if schema.since_version >= 19 and not like:
        for to in (17, 18, 19, 20, 16, 21, 22, 23, 24, 25, 26):
            if (to in (21, 22) and schema.since_version < 21) or (
                to == 23 and schema.since_version < 23
            ):
                continue
            if (to == 24 and schema.since_version < 24) or (
                to in (25, 26) and schema.since_version < 25
            ):
                continue
            for saturate in (ABSENT, 0, 1) if to in (17, 18, 19, 20, 24) else (ABSENT,):
                rounds = (ABSENT, "up", "down", "nearest") if to == 24 else (ABSENT,)
                for mode in rounds:
                    x = F(_NUMBERS_FOR.get(to, [0, 1, -1.5, 3.3, 1000, -1e6, np.inf, np.nan, 0.07]))
                    yield [x], {"to": to, "saturate": saturate, "round_mode": mode}


@generates("CastLike")
def cast_like(schema):
    yield from cast(schema)
    kinds = ["float8_e4m3fn", "float8_e5m2"] if "saturate" in schema.attributes else []
    for kind in kinds:
        for saturate in (ABSENT, 0, 1):
            x = F([0, 1, -1.5, 3.3, 1000, -1e6, np.inf, np.nan])
            yield [x, np.zeros(1, kind)], {"saturate": saturate}
    if "round_mode" in schema.attributes:
        for mode in (ABSENT, "up", "down", "nearest"):
            yield (
                [F([0, 1, 1.5, 3.3, 7, 0.07]), np.zeros(1, "float8_e8m0fnu")],
                {"round_mode": mode},
            )


@generates("BitCast")
def bit_cast(schema):
    for number, dtype in (
        (1, np.int32),
        (6, F),
        (12, F),
        (7, np.float64),
        (11, np.int64),
        (2, np.int8),
        (3, np.uint8),
        (10, np.int16),
        (4, np.float16),
        (16, np.int16),
        (9, np.uint8),
    ):
        yield [integers(2, 3, high=2, dtype=dtype)], {"to": number}
    yield [F([np.nan, -0.0, np.inf])], {"to": 6}
    yield [floats()], {"to": 6}
    yield [floats(0)], {"to": 6}


@generates("Dropout")
def dropout(schema):
    if schema.since_version >= 12:
        for dtype in dtypes_of(schema):
            x = floats(3, 4, dtype=dtype)
            for inputs in (
                [x],
                [x, F(0.3)],
                [x, F(0.3), np.array(False)],
                [x, F(0), np.array(True)],
                [x, None, np.array(False)],
            ):
                for outputs in (1, 2):
                    yield inputs, {}, outputs
                    yield inputs, {"seed": 3}, outputs
        return
    for attrs in combined(schema, ratio=[ABSENT, 0.3], is_test=[1], consumed_inputs=[ABSENT, [0]]):
        for outputs in (1, 2):
            yield [floats(3, 4)], attrs, outputs
            yield [floats()], attrs, outputs


@generates("Softmax", "LogSoftmax", "Hardmax")
def softmax(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 4, dtype=dtype)], {}
    for shape in [(2, 3, 4), (2, 3), (2, 3, 4, 5)]:
        axes = [*range(len(shape))]
        if schema.since_version >= 11:
            axes += [axis - len(shape) for axis in axes]
        for axis in [ABSENT, *axes]:
            yield [floats(*shape)], {"axis": axis}
    yield [integers(2, 3, 4, high=3).astype(F)], {"axis": 1}
    yield [F([[1000, 1001, -1000], [-np.inf, 0, 1]])], {"axis": 1}
    yield [floats(1, 1)], {"axis": 1}
    yield [floats(0, 3)], {"axis": 1}
    yield [floats(5)], {"axis": 0}


@generates("LpNormalization")
def lp_normalization(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 4, dtype=dtype)], {}
    for attrs in combined(schema, p=[ABSENT, 1, 2], axis=[ABSENT, 0, 1, 2, -1, -2]):
        yield [floats(2, 3, 4)], attrs
    yield [np.zeros((2, 3), F)], {}
    yield [np.zeros((2, 3), F)], {"p": 1}


@generates("CumSum", "CumProd")
def cumulative(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 4, dtype=dtype), np.int64(1)], {}
    for attrs in combined(schema, reverse=[ABSENT, 0, 1], exclusive=[ABSENT, 0, 1]):
        for axis in (0, 1, 2, -1, -3):
            yield [floats(2, 3, 4), np.int64(axis)], attrs
        yield [floats(2, 3, 4), np.int64([1])], attrs
        yield [floats(2, 3, 4), np.int32(-1)], attrs
        yield [floats(5), np.int32(0)], attrs
        yield [floats(1), np.int32(0)], attrs
        yield [floats(0), np.int32(0)], attrs
        yield [floats(2, 0), np.int32(1)], attrs


@generates("Einsum")
def einsum(schema):
    a, b, c = floats(2, 3), floats(3, 4), floats(4)
    for equation, inputs in [
        ("ij,jk->ik", [a, b]), ("ij->ji", [a]), ("ij->", [a]), ("ij,jk,k->i", [a, b, c]), ("ij,jk", [a, b]),
        ("ii->i", [floats(3, 3)]), ("ii", [floats(3, 3)]), ("...ij,...jk->...ik", [floats(2, 2, 3), floats(2, 3, 4)]),
        ("i,j->ij", [floats(2), c]), (" i j , j k -> i k ", [a, b]), ("...j->...", [a]), ("Ij,jK->IK", [a, b]), ("ba", [a]),
    ]:  # fmt: skip
        yield inputs, {"equation": equation}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype), floats(3, 4, dtype=dtype)], {"equation": "ij,jk->ik"}


@generates("MatMul")
def matmul(schema):
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype), floats(3, 4, dtype=dtype)], {}
    for a, b in [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 2, 3), (3, 4)),
        ((2, 1, 2, 3), (5, 3, 4)),
        ((0, 3), (3, 4)),
        ((2, 0), (0, 3)),
        ((5, 3), (2, 3, 1)),
    ]:
        yield [floats(*a), floats(*b)], {}


@generates("Gemm")
def gemm(schema):
    version = schema.since_version
    shapes = [(2, 4)] if version < 7 else [(2, 4), (4,), (1, 4), (2, 1), (1,), ()]
    for ta in (ABSENT, 0, 1):
        for tb in (ABSENT, 0, 1):
            a = floats(3, 2) if ta == 1 else floats(2, 3)
            b = floats(4, 3) if tb == 1 else floats(3, 4)
            for shape in shapes:
                yield [a, b, floats(*shape)], {"transA": ta, "transB": tb}
            if version < 7:
                for shape in [(4,), (1,), (1, 4)]:
                    yield [a, b, floats(*shape)], {"transA": ta, "transB": tb, "broadcast": 1}
    for alpha in (ABSENT, 0.5, 0.0):
        for beta in (ABSENT, 2.0, 0.0):
            yield [floats(2, 3), floats(3, 4), floats(2, 4)], {"alpha": alpha, "beta": beta}
    for dtype in dtypes_of(schema):
        c = floats(2, 4, dtype=dtype)
        yield [floats(2, 3, dtype=dtype), floats(3, 4, dtype=dtype), c], {}
        if version >= 11:
            yield [floats(2, 3, dtype=dtype), floats(3, 4, dtype=dtype)], {}
    yield [floats(0, 3), floats(3, 4), floats(4) if version >= 7 else floats(0, 4)], {}
    yield [floats(2, 0), floats(0, 4), floats(2, 4)], {}


# ---- reductions --------------------------------------------------------------------------------

_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@generates(*[f"Reduce{kind}" for kind in _REDUCTIONS])
def reduction(schema):
    with_input = len(schema.inputs) > 1
    positive = schema.name == "ReduceLogSum"
    low = 0.5 if positive else -2.0

    def call(x, axes, **attrs):
        if with_input:
            return ([x] if axes is ABSENT else [x, np.int64(axes)]), attrs
        return [x], {"axes": axes, **attrs}

    negative = schema.since_version >= 11
    for dtype in dtypes_of(schema):
        yield call(floats(3, 4, dtype=dtype, low=low), [1])
    for keepdims in (ABSENT, 0, 1):
        for axes in [
            ABSENT,
            [0],
            [1],
            [0, 2],
            [2, 1],
            [0, 1, 2],
            *([[-1], [-3, -1]] if negative else []),
        ]:
            yield call(floats(2, 3, 4, low=low), axes, keepdims=keepdims)
        yield call(floats(low=low), ABSENT, keepdims=keepdims)
        yield call(floats(1, low=low), [0], keepdims=keepdims)
        for noop in (0, 1):
            if "noop_with_empty_axes" in schema.attributes:
                for axes in (ABSENT, [], [1]):
                    yield call(
                        floats(2, 3, low=low), axes, keepdims=keepdims, noop_with_empty_axes=noop
                    )
    yield call(F([1, np.inf, 3]), [0])
    yield call(F([-np.inf, -np.inf]), [0])
    yield call(F([1000, 1001]), [0])
    if (schema.since_version >= 18 and schema.name != "ReduceMean") or schema.name == "ReduceSum":
        yield call(floats(2, 0, 3), [1])


@generates("ArgMax", "ArgMin")
def arg_extreme(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 4, dtype=dtype)], {"axis": 1}
    axes = [ABSENT, 0, 1, 2, *([-1, -3] if schema.since_version >= 11 else [])]
    for attrs in combined(
        schema, axis=axes, keepdims=[ABSENT, 0, 1], select_last_index=[ABSENT, 0, 1]
    ):
        yield [integers(2, 3, 4, high=3).astype(F)], attrs
    yield [floats(5)], {"keepdims": 0}
    yield [floats(1)], {}
    yield [np.ones((2, 5), F)], {"axis": 1}


@generates("MeanVarianceNormalization")
def mean_variance(schema):
    for axes in (ABSENT, [0], [1], [0, 1, 2, 3], [-1], [0, 2]):
        yield [floats(6, 3, 4, 5)], {"axes": axes}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, 4, 5, dtype=dtype)], {}
    yield [floats(2, 3)], {"axes": [0, 1]}

"""Numbers at which a lowered op once gave others than NumPy: each test is one of them."""

from __future__ import annotations

import linecache
import re

import numpy as np
import onnxruntime
import pytest

import pyopnb

LEAST8, LEAST64, MOST64 = -128, -(2**63), 2**63 - 1


def lowered(expression: str, *arrays: np.ndarray, init: str = "", **attrs: float) -> np.ndarray:
    """Lower an expression of ``x`` and ``y``, and run it in plain ONNX Runtime."""
    names = ["x", "y"][: len(arrays)]
    with np.errstate(all="ignore"):
        example = [np.ones_like(array) for array in arrays]
        dtype = eval(
            re.sub(r"self\.\w+", "1", expression), {"np": np, "x": example[0], "y": example[-1]}
        ).dtype
    hint = f"{dtype if 'self.scale' not in expression else 'float64'}[...]"
    source = f"class Body:\n{init}    def compute(self, {', '.join(names)}) -> '{hint}':\n        return {expression}\n"
    linecache.cache["<body>"] = (len(source), None, source.splitlines(keepends=True), "<body>")
    namespace: dict = {"np": np}
    exec(compile(source, "<body>", "exec"), namespace)
    pyopnb.registry.define(namespace["Body"], "demo::Body")
    function = pyopnb.lower("demo::Body", *example)
    pyopnb.registry.remove("demo::Body")
    types = {
        name: pyopnb.TensorType(str(array.dtype), array.shape)
        for name, array in zip(names, arrays, strict=True)
    }
    model = pyopnb.model(
        [pyopnb.node("demo::Body", names, ["z"], **attrs)], types, ["z"], functions=[function]
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(None, dict(zip(names, arrays, strict=True)))
    return result


def is_numpys(expression: str, *arrays: np.ndarray) -> None:
    """Compare a lowered expression with the NumPy result, element by element."""
    with np.errstate(all="ignore"):
        want = eval(expression, {"np": np, "x": arrays[0], "y": arrays[-1]})
    got = lowered(expression, *arrays)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("expression", ["x == -1", "x > 300", "x < -200", "x != 2**33", "3 < x"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32])
def test_a_number_beyond_the_dtype_is_compared_as_it_is(expression, dtype):
    limits = np.iinfo(dtype)
    is_numpys(expression, np.array([limits.min, 0, 1, 44, limits.max], dtype))


@pytest.mark.parametrize("expression", ["np.clip(x, 0, 300)", "np.clip(x, -3, 5)", "x.clip(min=2)"])
def test_a_bound_beyond_the_dtype_does_not_wrap(expression):
    is_numpys(expression, np.uint8([0, 1, 44, 255]))


@pytest.mark.parametrize(
    "expression", ["x // 3", "x // -3", "x // y", "x % y", "x // -1", "x % -1", "x >> 2"]
)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_integers_are_divided_near_the_least_one(expression, dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, -7, 0, 7, limits.max] * 4, dtype)
    is_numpys(expression, x, np.repeat(np.array([3, -1, 0, limits.min], dtype), 6))


@pytest.mark.parametrize(
    "expression",
    ["np.clip(x, 0, None)", "np.clip(x, None, 1)", "x.clip(-1, np.inf)", "np.clip(x, 0, np.nan)"],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_clipping_keeps_infinity_and_nan(expression, dtype):
    is_numpys(expression, np.array([-np.inf, -2, 0.5, 2, np.inf, np.nan], dtype))


@pytest.mark.parametrize(
    "expression",
    ["x.sum()", "x.sum(0)", "x.sum(1, keepdims=True)", "np.cumsum(x, 1)", "x @ y.T", "x.mean(1)"],
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.uint8])
def test_integers_are_added_exactly_and_wrap_as_numpy_does(expression, dtype):
    most = np.iinfo(dtype).max
    x = np.array([[most, 1, most // 3], [most - 1, most, 5]], dtype)
    is_numpys(expression, x, x)


def test_a_product_of_integers_is_refused():
    with pytest.raises(pyopnb.errors.NotLowered, match="product of integers"):
        lowered("x.prod()", np.int64([3, 4]))


@pytest.mark.parametrize("expression", ["np.log1p(x)", "np.expm1(x)", "np.logaddexp(x - x, x)"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_near_one_keep_their_digits(expression, dtype):
    x = np.array([1e-30, -1e-30, 1e-12, 1e-5, 0.3, -0.9, 5, -40, np.inf], dtype)
    with np.errstate(all="ignore"):
        want = eval(expression, {"np": np, "x": x})
    np.testing.assert_allclose(lowered(expression, x), want, rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("expression", ["np.log2(x)", "np.log10(x)"])
def test_logarithms_of_whole_powers_are_whole(expression):
    base = 2.0 if "2" in expression else 10.0
    powers = np.arange(0.0, 23)
    np.testing.assert_array_equal(lowered(expression, base**powers), powers)


def test_the_root_of_minus_infinity_as_a_power_is_no_number():
    x = np.float32([-np.inf, np.inf, 4, -1])
    is_numpys("x ** 0.5", x)


@pytest.mark.parametrize(
    "expression", ["np.argmax(x)", "np.argmin(x)", "np.sort(x)", "np.unique(x)", "x.max()"]
)
def test_an_order_of_uint64_is_refused_for_want_of_a_kernel(expression):
    with pytest.raises(pyopnb.errors.NotLowered, match="uint64"):
        lowered(expression, np.uint64([3, 2**63 + 1, 2**53 + 1, 0]))


def test_argsort_is_stable_or_refused():
    x = np.repeat(np.float32([2, 1, np.nan, 1]), 20)
    is_numpys("np.argsort(x, kind='stable')", x)
    with pytest.raises(pyopnb.errors.NotLowered, match="stable"):
        lowered("np.argsort(x)", x)


def test_the_median_of_one_huge_number_is_finite():
    is_numpys("np.median(x)", np.float32([3e38]))


def test_the_sign_of_nan_is_nan():
    is_numpys("np.sign(x)", np.float16([np.nan, -2, 0]))


def test_a_float_attr_beside_integers_keeps_its_digits():
    init = "    def __init__(self, scale: float = 0.1):\n        self.scale = scale\n"
    x = np.int64([1, 3, 7])
    np.testing.assert_array_equal(lowered("x * self.scale", x, init=init), x * 0.1)


def test_a_remainder_of_zero_by_a_positive_divisor_is_positive():
    assert not np.signbit(lowered("x % 2.0", np.float32([-4, 4, -0.0]))).any()


def test_what_overflows_in_float16_becomes_its_largest_number():
    is_numpys("np.nan_to_num(x * x)", np.float16([300, -1, 2]))


def test_the_method_clip_takes_one_bound():
    is_numpys("x.clip(0)", np.float32([-1, 2, np.inf]))


def test_without_verify_the_function_says_that_nothing_was_compared():
    class Twice:
        def compute(self, x):
            return x * 2

    pyopnb.registry.define(Twice, "demo::Twice")
    function = pyopnb.lower("demo::Twice", np.float32([1]), verify=False)
    assert "Not compared with compute." in function.doc_string
    model = pyopnb.model([pyopnb.node("demo::Twice", "x", "y")], {"x": "float32[N]"}, "y")
    assert "Not compared" in pyopnb.lower(model, verify=False).functions[0].doc_string
    assert (
        "Not compared with compute." not in pyopnb.lower("demo::Twice", np.float32([1])).doc_string
    )


def test_a_mean_that_is_subtracted_from_equal_numbers_is_no_fault():
    @pyopnb.pyop("centered::Centered")
    class Centered:
        def compute(self, x):
            for _ in range(5):
                x = np.tanh(x) + np.abs(x) * np.exp(-np.square(x))
            return x - np.maximum(x.mean(-1, keepdims=True), 0)

    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    assert "Compared with compute" in pyopnb.lower("centered::Centered", x).doc_string

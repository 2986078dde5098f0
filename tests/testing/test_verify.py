"""The verification of conversions finds wrong ones and lets right ones pass."""

import warnings

import numpy as np
import pytest
from conversions import RIGHT, WRONG, example

from pyopnb.testing import GradientComparison, KernelError, Trial, draw_trials
from pyopnb.testing.verification import verify as compare


def verify(original, converted, examples, *, trials=None, kernel_error=None, **drawn):
    """Compare two functions on inputs drawn from examples."""
    trials = trials or draw_trials(examples, **drawn)
    return compare(original, converted, trials, kernel_error=kernel_error)


def as_function(body):
    return lambda *arrays: [np.asarray(body(*arrays))]


def test_row_taken_for_the_last_one_is_found_at_another_size():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    verification = verify(
        as_function(lambda x: x[-1:]), as_function(lambda x: x[2:3]), [(x,)], dims=[["N", 2]]
    )
    assert not verification.ok
    assert "sizes" in str(verification.disagreement)


def test_scalar_results_are_compared_by_what_the_original_loses_on_its_own():
    functions = (
        as_function(lambda x: (x - x.mean()).sum()),
        as_function(lambda x: x.sum() - x.size * x.mean()),
    )
    assert verify(*functions, [(np.float32([1, 2, 4]),)]).ok
    wrong = as_function(lambda x: (x - x.mean()).sum() + x.dtype.type(0.01))
    assert verify(
        functions[0], wrong, [(np.float32([1, 2, 4]),)]
    ).disagreement.difference.startswith("output 0 at []")


def test_kept_view_of_a_buffer_is_found():
    x = np.float32([1, 2, 3])
    verification = verify(as_function(lambda x: x), lambda x: [x], [(x,)])
    assert "buffer" in str(verification.disagreement)


def test_kernels_that_are_off_among_the_smallest_numbers_pass_only_if_that_is_named():
    def tanh_of_a_runtime(x):
        smallest = np.finfo(np.float32).smallest_normal
        return np.where(np.abs(x) <= smallest, x * np.float32(1.01), x)

    functions = (as_function(lambda x: x), as_function(tanh_of_a_runtime), [(np.float32([1, 2]),)])
    assert verify(*functions).disagreement is not None
    assert verify(*functions, kernel_error=KernelError(tiny=1.0)).ok
    assert verify(*functions, kernel_error=KernelError(tiny=1e-3)).disagreement is not None


def test_kernels_that_are_off_beside_large_numbers_pass_only_if_that_is_named():
    def converted(x):
        return x + np.float32(4e-7) * np.abs(x).max()

    functions = (as_function(lambda x: x.copy()), as_function(converted), [(np.float32([1, 2]),)])
    beside_one = [Trial("numbers beside one", (np.float32([1, 1e-3, -1e-3]),))]
    assert verify(*functions, trials=iter(beside_one)).disagreement is not None
    lost = KernelError(of_largest=4.0)
    assert verify(*functions, kernel_error=lost, trials=iter(beside_one)).ok


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_rounding_of_a_function_passes_where_the_body_cancels(dtype):
    def original(x):
        return 1 + np.tanh(x)

    def converted(x):
        return 1 + np.tanh(x) * (1 + np.finfo(dtype).eps)

    example = np.array([-3, 1], dtype)
    assert verify(as_function(original), as_function(converted), [(example,)]).ok
    wrong = as_function(lambda x: original(x) + 100 * np.finfo(dtype).eps)
    assert verify(as_function(original), wrong, [(example,)]).disagreement is not None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_infinity_of_the_wrong_sign_is_found_where_the_original_jumps(dtype):
    # A rounding error takes 1 / (x - 1) from inf to a finite number, so any
    # finite number would pass.
    def original(x):
        return 1 / (x - x.dtype.type(1))

    def converted(x):
        return np.where(x == 1, -np.inf, original(x)).astype(x.dtype)

    x = np.ones(3, dtype)
    verification = verify(as_function(original), as_function(converted), [(x,)])
    assert verification.disagreement.difference.endswith("is -inf instead of inf")


def test_float64_result_that_is_off_by_more_than_float32_is_found_in_a_body_that_casts():
    def original(x):
        return np.stack([x.astype(np.float32).astype(np.float64), np.sin(1000 * x)])

    def converted(x):
        return original(x) * [[1], [1 + 1e-4]]

    verification = verify(
        as_function(original),
        as_function(converted),
        [(np.float64([1, 2]),)],
    )
    assert verification.disagreement is not None


def test_warnings_of_a_converted_function_stay_inside():
    def converted(x):
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        return [x.copy()]

    assert verify(as_function(lambda x: x), converted, [(np.float32([1]),)]).ok


def test_error_of_the_converted_function_is_kept():
    def converted(x):
        if len(x) == 1:
            raise ValueError("one element")
        return [x + 1]

    verification = verify(
        as_function(lambda x: x + 1), converted, [(np.float32([1, 2]),)], dims=[["N"]]
    )
    assert verification.disagreement is None
    assert str(verification.errors[0][1]) == "one element"


def test_inputs_that_the_original_refuses_are_left_out():
    def original(x):
        if (x < 0).any():
            raise ValueError("negative")
        return [np.sqrt(x)]

    verification = verify(original, as_function(np.sqrt), [(np.float32([1, 2]),)])
    assert verification.ok
    assert verification.left_out


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "float16", "float32", "float64", "bool"]
)
def test_same_function_passes(dtype):
    x = np.ones((2, 3), dtype)
    assert verify(
        as_function(lambda x: x[::-1]), as_function(lambda x: x[::-1]), [(x,)], dims=[["N", "M"]]
    ).ok


def verified(original, converted, dtype, shape):
    return verify(
        as_function(original),
        as_function(converted),
        [(example(dtype, shape),)],
        dims=[list(shape)],
        constants=[1, 3, 300],
    )


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_wrong_conversion_is_found(case):
    _, original, converted, dtype, shape = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert verified(original, converted, dtype, shape).disagreement is not None


def passes(case, dtypes):
    _, original, converted, _, shape = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in dtypes:
            verification = verified(original, converted, dtype, shape)
            assert verification.ok, (
                f"{dtype}: {verification.disagreement}, {verification.errors[:1]}"
            )


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[0])
def test_right_conversion_passes(case):
    passes(case, case[3][-1:])


@pytest.mark.parametrize("case", [case for case in RIGHT if "f8" in case[3]], ids=lambda c: c[0])
def test_right_conversion_passes_without_wider_floats(case, monkeypatch):
    # So it is on Windows and on Apple silicon.
    monkeypatch.setattr(np, "longdouble", np.float64)
    passes(case, ["f8"])


@pytest.mark.parametrize("case", [case for case in WRONG if case[3] == "f8"], ids=lambda c: c[0])
def test_wrong_conversion_is_found_without_wider_floats(case, monkeypatch):
    monkeypatch.setattr(np, "longdouble", np.float64)
    test_wrong_conversion_is_found(case)


def test_no_warning_without_wider_floats(monkeypatch):
    monkeypatch.setattr(np, "longdouble", np.float64)
    test_other_rounding_of_a_function_passes_where_the_body_cancels("float64")


@pytest.mark.everywhere  # half a minute
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[0])
def test_right_conversion_passes_in_each_dtype(case):
    passes(case, case[3][:-1])


def test_there_are_enough_conversions():
    assert len(WRONG) >= 60
    assert sum(len(dtypes) for _, _, _, dtypes, _ in RIGHT) >= 200


def compare_gradients(gradient, x):
    """Compare what is said to be the gradient of a sum of cubes."""
    comparison = GradientComparison(
        lambda values: (float((values["x"] ** 3).sum()), [gradient(values["x"])]),
        ["x"],
        [x.dtype],
    )
    return comparison.run({"x": x}, [["N"]], {}), comparison.wrong


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_right_gradient_is_compared_at_other_sizes_and_values(dtype):
    note, wrong = compare_gradients(lambda x: 3 * x**2, np.array([1, 2, 3], dtype))
    assert wrong is None
    assert note == "verified along 6 directions at 6 inputs"


WRONG_GRADIENTS = {
    "by a twentieth": lambda x: 3.15 * x**2,
    "of negative numbers": lambda x: 3 * x * np.abs(x),
    "of the last element": lambda x: np.where(np.arange(len(x)) == len(x) - 1, 0, 3 * x**2),
    "at one size": lambda x: 3 * x**2 + (len(x) == 1),
    "of large numbers": lambda x: np.where(np.abs(x) > 8, x, 3 * x**2),
    "with NaN": lambda x: np.where(x == x.max(), np.nan, 3 * x**2),
}


@pytest.mark.parametrize("wrong", WRONG_GRADIENTS.values(), ids=WRONG_GRADIENTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wrong_gradient_is_found(wrong, dtype):
    x = np.linspace(0.5, 2, 12).astype(dtype)
    _, found = compare_gradients(lambda x: wrong(x).astype(dtype), x)
    assert found.names == ["x"]


def test_scores_of_a_row_may_be_off_by_what_its_largest_loses():
    x = np.float32([[1, 1e-3], [2, 1e-3], [1, 4]])

    def converted(x):
        return [x + np.float32(5e-6) * np.abs(x).max(axis=1, keepdims=True)]

    functions = (as_function(lambda x: x.copy()), converted)
    trials = [Trial("scores", (x,))]
    assert verify(*functions, [(x,)], trials=trials).disagreement is not None
    assert verify(*functions, [(x,)], trials=trials, kernel_error=KernelError.SCORES).ok
    wrong = as_function(lambda x: x + np.float32(1e-4))
    found = verify(functions[0], wrong, [(x,)], trials=trials, kernel_error=KernelError.SCORES)
    assert found.disagreement is not None

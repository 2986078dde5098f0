"""`check_grad`: right gradients pass, wrong ones are found and named, kinks are left out; and the row of `check`."""

import html
import re

import numpy as np
import pytest
from small_gradients import SCALE, USER_RELU

import pyopnb
from pyopnb.testing.central import central_differences, move_element, step_sizes

random = np.random.default_rng(5)
X = random.normal(size=(3, 4)).astype(np.float32)
W = random.normal(size=(4, 2)).astype(np.float32)
SQUARE = random.normal(size=(3, 3)).astype(np.float32)


def op(define, compute, backward, init=""):
    define(
        f"@pyopnb.pyop('demo::Op')\nclass Op:\n {init or 'pass'}\n def compute(self, {compute}\n def backward(self, inputs, outputs, grads): {backward}"
    )
    return "demo::Op"


def hinted(compute):
    """With a hint, so that the op takes no float64."""
    return re.sub(r"^(\w+)", r'\1: "float32[...]"', compute)


# compute; the right backward; wrong ones; inputs
# fmt: off
CASES = {
    "matmul": (
        "a, b): return a @ b",
        "a, b = inputs; g, = grads; return g @ b.T, a.T @ g",
        {"a factor": "a, b = inputs; g, = grads; return g @ b.T, 2 * a.T @ g"},
        (X, W)),
    "square matmul": (
        "a, b): return a @ b",
        "a, b = inputs; g, = grads; return g @ b.T, a.T @ g",
        {"a transpose that fits": "a, b = inputs; g, = grads; return g @ b, a.T @ g",
         "swapped": "a, b = inputs; g, = grads; return a.T @ g, g @ b.T"},
        (SQUARE, SQUARE + 1)),
    "bias": (
        "x, b): return x * 2 + b",
        "g, = grads; return 2 * g, g.sum(0)",
        {"a mean for the sum": "g, = grads; return 2 * g, g.mean(0)",
         "one row": "g, = grads; return 2 * g, g[0]"},
        (X, X[0])),
    "tanh": (
        "x): return np.tanh(x)",
        "return grads[0] * (1 - outputs[0] ** 2)",
        {"a sign": "return -grads[0] * (1 - outputs[0] ** 2)",
         "the input for the output": "return grads[0] * (1 - inputs[0] ** 2)"},
        (X,)),
    "softmax": (
        "x): e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)",
        "y, g = outputs[0], grads[0]; return y * (g - (g * y).sum(-1, keepdims=True))",
        {"the diagonal alone": "y, g = outputs[0], grads[0]; return y * (1 - y) * g",
         "another axis": "y, g = outputs[0], grads[0]; return y * (g - (g * y).sum(0, keepdims=True))"},
        (X,)),
    "mean": (
        "x): return np.mean(x * x, axis=1)",
        "x = inputs[0]; return 2 * x * grads[0][:, None] / np.asarray(x.shape[1], x.dtype)",
        {"not divided": "return 2 * inputs[0] * grads[0][:, None]"},
        (X,)),
    "sin and cos": (
        "x): return np.sin(x), np.cos(x)",
        "a, b = grads; s, c = outputs; return (0 if a is None else a * c) - (0 if b is None else b * s)",
        {"the second output forgotten": "return inputs[0] * 0 if grads[0] is None else grads[0] * outputs[1]"},
        (X,)),
    "gather": (
        "x, places): return x[places]",
        "x, places = inputs; d = np.zeros_like(x); np.add.at(d, places, grads[0]); return d, None",
        {"the last one counts": "x, places = inputs; d = np.zeros_like(x); d[places] = grads[0]; return d, None"},
        (X, np.int64([0, 2, 2]))),
    "norm": (
        "x): return np.sqrt((x * x).sum())",
        "return inputs[0] * (grads[0] / outputs[0])",
        {"a constant for zero": "return inputs[0] * 0"},
        (X,)),
    "clip": (
        "x): return np.clip(x, -0.5, 0.5)",
        "return grads[0] * (np.abs(inputs[0]) < 0.5)",
        {"straight through": "return grads[0]"},
        (X,)),
}
# fmt: on
PRECISION = {"float32": "float64", "float64": "float64", "hinted": "float32"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", PRECISION)
def test_right_gradients_pass_and_mistakes_are_found(define, case, dtype):
    compute, right, mistakes, inputs = CASES[case]
    if dtype == "hinted":
        compute = hinted(compute)
    else:
        inputs = [array.astype(dtype) if array.dtype.kind == "f" else array for array in inputs]
    # The jump of float32 from one side of the bounds to the other is as long as between them.
    if (case, dtype) != ("clip", "hinted"):
        report = pyopnb.check_grad(op(define, compute, right), *inputs)
        assert report.ok and bool(report) and not report.failures, report
        assert {gradient.dtype for gradient in report.gradients} == {PRECISION[dtype]}
    for name, wrong in mistakes.items():
        report = pyopnb.check_grad(op(define, compute, wrong), *inputs)
        assert not report.ok and not report, (name, report)
        failure = next(gradient for gradient in report.failures if gradient.outcome == "wrong")
        place = ",".join(map(str, failure.index))
        assert f"[{place}]: wrong, backward says" in repr(report), name


def test_a_common_factor_is_said(define):
    report = pyopnb.check_grad(op(define, "x): return x * x", "return inputs[0] * grads[0]"), X)
    assert report.gradients[0].text.endswith("backward / differences is 0.5 in all of them")


def test_kinks_are_left_out_and_counted(define):
    define(USER_RELU)
    report = pyopnb.check_grad("demo::UserRelu", np.float32([-1, 0, 2, 0]), slope=0.1)
    assert (
        report.ok
        and report.gradients[0].kinks == 2
        and "4 elements moved in float64, 2 at a kink left out" in repr(report)
    )
    report = pyopnb.check_grad("demo::UserRelu", np.zeros(3, np.float32))
    assert not report.ok and report.gradients[0].outcome == "undecided"
    assert "undecided, differences cannot determine the derivative of any element" in repr(report)


@pytest.mark.parametrize(
    ("compute", "backward", "x"),
    [
        (
            "x): return np.exp(5 * x) + np.sin(20 * x)",
            "x = inputs[0]; return grads[0] * (5 * np.exp(5 * x) + 20 * np.cos(20 * x))",
            np.linspace(-2, 2, 50),
        ),
        ("x): return np.log(x)", "return grads[0] / inputs[0]", np.float32([1e-4, 1, 100])),
    ],
    ids=["strong curvature", "the edge of a domain"],
)
def test_what_is_smooth_has_no_kinks(define, compute, backward, x):
    report = pyopnb.check_grad(op(define, compute, backward), x)
    assert report.ok and report.gradients[0].kinks == 0


def test_an_op_that_rounds_inside_is_judged_as_that(define):
    """In float64 the differences would show the steps of float32."""
    for inside in (
        "np.tanh(x.astype(np.float32)).astype(x.dtype)",
        "np.tanh(x).astype(np.float32).astype(x.dtype)",
    ):
        name = op(define, f"x): return {inside}", "return grads[0] * (1 - outputs[0] ** 2)")
        for x in (X, X.astype(np.float64)):
            report = pyopnb.check_grad(name, x)
            assert report.ok and report.gradients[0].dtype == "float32", report


def test_a_backward_for_the_dtype_of_the_example_is_right(define):
    backward = "return (grads[0] * (1 - outputs[0] ** 2)).astype(np.float32)"
    report = pyopnb.check_grad(op(define, "x): return np.tanh(x)", backward), X)
    assert report.ok and report.gradients[0].dtype == "float32", report


LARGE = np.random.default_rng(3).normal(size=(60, 50)).astype(np.float32)
SMOOTH = "d = grads[0] * (1 - outputs[0] ** 2); "
KINKED = "d = grads[0] * (inputs[0] > 0); "


@pytest.mark.parametrize("hint", [hinted, str])
@pytest.mark.parametrize(
    ("compute", "right"),
    [("x): return np.tanh(x)", SMOOTH), ("x): return np.maximum(x, 0)", KINKED)],
)
def test_one_wrong_element_of_three_thousand_is_found(define, compute, right, hint):
    """Those that are drawn do not have it; the sum along a group of the others does."""
    compute = hint(compute)
    for wrong in ("d[6, 21] += 0.5", "d[6, 21] = np.nan", "d[-1, -1] = -np.inf", "d[17] *= -1"):
        report = pyopnb.check_grad(op(define, compute, f"{right}{wrong}; return d"), LARGE)
        assert not report.ok and 101 <= report.gradients[0].tried <= 104, (wrong, report)
        assert report.gradients[0].index in {(6, 21), (59, 49), *((17, n) for n in range(50))}, (
            wrong,
            report,
        )
    report = pyopnb.check_grad(op(define, compute, f"{right}return d"), LARGE)
    assert report.ok and report.gradients[0].tried <= 101, report


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("compute", "right"),
    [
        ("x: T): return np.maximum(x, 0)", "return grads[0] * (inputs[0] > 0)"),
        ("x: T): return np.abs(x)", "return grads[0] * np.sign(inputs[0])"),
        ("x: T): return np.clip(x, -0.5, 0.5)", "return grads[0] * (np.abs(inputs[0]) < 0.5)"),
        (
            "x: T): return x.max(-1)",
            "x = inputs[0]; return grads[0][:, None] * (x == x.max(-1, keepdims=True))",
        ),
        ("x: T): return x @ x.T", "x, g = inputs[0], grads[0]; return g @ x + g.T @ x"),
    ],
)
def test_right_ones_pass_whose_kinks_and_rounding_lie_close_together(define, compute, right, dtype):
    """Rounding of numbers that a step does not change hid kinks; for a product of float16 it is larger than the tolerance."""
    name = op(define, compute.replace("T", f'"{dtype}[...]"', 1), right)
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=(30, 40)).astype(dtype)
        report = pyopnb.check_grad(name, x)
        assert report.ok, report


def test_optional_inputs_examples_and_attrs(define):
    define(SCALE + USER_RELU)
    report = pyopnb.check_grad(
        "demo::Scale", examples=[(X, X[0]), (X, X[0], X[1]), (X, X[0], None)]
    )
    assert report.ok and [found.name for found in report.gradients] == [
        "x",
        "w",
        "x",
        "w",
        "b",
        "x",
        "w",
    ]
    assert pyopnb.check_grad("demo::UserRelu", slope=0.3).ok  # an example from the hints


def test_random_numbers_are_the_same_for_every_call(define):
    init = "def __init__(self, seed: int = 1): self.random = np.random.default_rng(seed)\n def keep(self, x): return self.random.random(x.shape) < 0.5"
    name = op(define, "x): return x * self.keep(x)", "return grads[0] * self.keep(inputs[0])", init)
    assert pyopnb.check_grad(name, X).ok


@pytest.mark.parametrize(
    ("compute", "backward", "said"),
    [
        (
            "x): return (x * x).sum()",
            "return 2 * inputs[0] * np.abs(grads[0])",
            "for -3 times the gradients of the outputs",
        ),
        (
            "x): return x * x",
            "self.n += 1; return 2 * inputs[0] * grads[0] * self.n",
            "something else the second time",
        ),
        (
            "x): return x * x",
            "g = grads[0]; g *= 2; g *= inputs[0]; return g",
            "ValueError: output array is read-only",
        ),
        (
            "x, y): return x * y",
            "x, y = inputs; x *= grads[0]; y *= grads[0]; return y, x",
            "ValueError: output array is read-only",
        ),
        (
            "x): return np.tanh(x)",
            "y = outputs[0]; d = grads[0] * (1 - y * y); return np.where(inputs[0] < 0, 2 * d, d)",
            r"x\[\d,\d\]: wrong",
        ),
        (
            "x): return np.tanh(x)",
            "y = outputs[0]; d = grads[0] * (1 - y * y); d[-1] *= 1.01; return d",
            r"x\[2,\d\]: wrong",
        ),
        (
            "x, y): return x * np.sin(y)",
            "x, y = inputs; return grads[0] * np.sin(y), grads[0] * x * np.sin(y)",
            r"y\[\d,\d\]: wrong",
        ),
        (
            "x): self.y = np.tanh(x); return self.y",
            "return grads[0] * (1 - self.y ** 2) + 0 * self.n",
            r"wrong",
        ),
        (
            "x): return np.tanh(x)",
            "return (grads[0] * (1 - outputs[0] ** 2)).astype(np.float64)",
            r"expected float32\[3,4\], got float64",
        ),
    ],
)
def test_mistakes_that_another_call_another_element_or_a_session_shows(
    define, compute, backward, said
):
    init = "def __init__(self): self.n, self.y = 0, 0"
    inputs = (X, X + 1) if compute.startswith("x, y") else (X,)
    report = pyopnb.check_grad(op(define, compute, backward, init), *inputs)
    assert not report.ok and re.search(said, repr(report)), report


def test_what_backward_raises_or_returns_wrongly_is_in_the_report(define):
    report = pyopnb.check_grad(op(define, "x): return x", "raise ArithmeticError('mine')"), X)
    assert not report.ok and "backward: wrong, ArithmeticError: mine (in backward, line" in repr(
        report
    )
    report = pyopnb.check_grad(op(define, "x): return x", "return grads[0].sum()"), X)
    assert "gradient of x: expected float32[3,4], got float32[]" in repr(report)


def test_html_is_safe(define):
    report = pyopnb.check_grad(
        op(define, "x): return x", "raise ArithmeticError('<b>mine</b>')"), X
    )
    assert (
        html.escape("<b>mine</b>") in report._repr_html_() and "<b>mine" not in report._repr_html_()
    )


def test_an_op_without_backward_or_floats(define):
    define("@pyopnb.pyop('demo::Op')\nclass Op:\n def compute(self, x): return x")
    with pytest.raises(
        pyopnb.errors.DefinitionError, match="op demo::Op: expected backward in its class"
    ):
        pyopnb.check_grad("demo::Op", X)
    report = pyopnb.check_grad(op(define, "x): return x", "return grads[0]"), np.int64([1]))
    assert not report.ok and "no floating-point input" in repr(report)


def test_the_row_of_check(define):
    _, right, wrong, inputs = CASES["tanh"]
    report = pyopnb.check(op(define, CASES["tanh"][0], right), *inputs)
    assert report["gradient"].outcome == "pass" and "x: right, " in report["gradient"].text
    report = pyopnb.check(op(define, CASES["tanh"][0], wrong["a sign"]), *inputs)
    assert not report.ok and [failed.name for failed in report.failures] == ["gradient"]
    assert re.search(
        r"x\[\d,\d\]: wrong, .* is -1 in all of them.*Try: correct backward",
        report["gradient"].text,
    )
    define("@pyopnb.pyop('demo::Op')\nclass Op:\n def compute(self, x): return x")
    assert "gradient" not in pyopnb.check("demo::Op", X)
    define(USER_RELU)
    assert pyopnb.check("demo::UserRelu", np.zeros(3, np.float32))["gradient"].outcome == "n/a"


# ---- the differences themselves ------------------------------------------------------------------------------------------------


def differences(function, x, precision=2.0**-52):
    sizes = step_sizes(x)
    moves = [
        move_element(lambda x: np.array([function(x).sum()]), x, place, sizes[place])
        for place in range(x.size)
    ]
    values, _, kinks = central_differences(moves, precision)
    return values, kinks


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (np.sin, np.cos),
        (np.exp, np.exp),
        (lambda x: x**3, lambda x: 3 * x**2),
        (np.arctan, lambda x: 1 / (1 + x * x)),
    ],
)
def test_differences_are_exact_to_their_error(function, derivative):
    x = np.linspace(-3, 3, 31)
    values, kinks = differences(function, x)
    assert not kinks.any()
    assert np.abs(values - derivative(x)).max() < 1e-9 * np.abs(derivative(x)).max()


def test_kinks_beside_the_element_are_no_derivative_either():
    values, kinks = differences(np.abs, np.array([1e-9, 0.5, -0.5]))
    assert kinks.tolist() == [True, False, False]
    assert np.allclose(values[1:], [1, -1])


def test_a_step_that_rounding_swallows_is_no_derivative_of_zero():
    """What is rounded more than its dtype says gives differences of exactly 0 where a step is small."""
    x = np.linspace(1.1, 2.9, 10, dtype=np.float32)
    base = np.round(x, 3)
    values, kinks = differences(lambda x: np.round(x, 3) - base, x, 2.0**-23)
    assert (kinks | (np.abs(values - 1) < 0.5)).all()

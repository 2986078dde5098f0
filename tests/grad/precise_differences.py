"""Derivatives by central differences of the eighth order, which are exact to nine digits in float64."""

import numpy as np
import onnx

import pyopnb

WEIGHTS = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
"""B. Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids", Mathematics of Computation 51, 1988."""


def differences(function, x, step=2e-3):
    """The gradient of a scalar function of an array; with this step, rounding and what is left of the series are near 1e-13."""
    gradient = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        for steps, weight in WEIGHTS.items():
            for sign in (1, -1):
                moved = np.array(x)
                moved[place] += sign * steps * step
                gradient[place] += sign * weight / step * float(np.reshape(function(moved), ()))
    return gradient


def assert_gradients(model, feeds, wrt, loss="loss", tolerance=1e-9, step=2e-3, fill=False):
    """Assert that `pyopnb.grad` gives the differences of a model's loss; return the model with the gradients.

    The tests judge the gradients themselves: what `grad` compares is the subject of test_verify.
    """
    derived = pyopnb.grad(model, wrt, loss, verify=False)
    if not fill:  # onnx has no words for stand-ins
        onnx.checker.check_model(derived, full_check=True)
    session = pyopnb.Session(model, fill=fill)
    plain = session(feeds)
    result = pyopnb.Session(derived, fill=fill)(feeds)
    names = list(plain.keys())
    assert list(result.keys()) == [*names, *(f"grad_{name}" for name in wrt)]
    assert all(np.array_equal(result[name], plain[name]) for name in names)
    for name in wrt:

        def moved(value, moved_name=name):
            return session.run([loss], {**feeds, moved_name: value})[0]

        expected = differences(moved, feeds[name], step)
        gradient = result[f"grad_{name}"]
        assert gradient.shape == expected.shape
        largest = max(np.abs(expected).max(), 1e-3)
        apart = tolerance * largest
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=apart, err_msg=name)
    return derived

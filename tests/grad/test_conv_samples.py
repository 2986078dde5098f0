"""The gradient of Conv where the number of samples is a symbol is that of a fixed number."""

from functools import partial

import numpy as np
import pytest

import pyopnb

# The tests judge the gradients themselves; what `grad` compares is the subject of test_verify.
grad = partial(pyopnb.grad, verify=False)

KINDS = {
    "plain": {},
    "strides and pads": {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    "dilations": {"dilations": [2, 2], "pads": [1, 1, 1, 1]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_symbol_gives_what_a_number_gives(kind):
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.standard_normal((5, 4, 3, 3)).astype(np.float32),
        "c": rng.standard_normal(5).astype(np.float32),
    }
    x = rng.standard_normal((3, 4, 9, 8)).astype(np.float32)
    nodes = [
        pyopnb.node("Conv", "x k c", "y", **KINDS[kind]),
        pyopnb.node("Mul", "y y", "q"),
        pyopnb.node("ReduceSum", "q", "loss", keepdims=0),
    ]
    found = {}
    for samples in ("N", 3):
        model = pyopnb.model(
            nodes, {"x": f"float32[{samples},4,9,8]"}, "loss", initializers=weights
        )
        found[samples] = pyopnb.run(grad(model, ["x", "k", "c"]), x=x)
    for name in ("grad_x", "grad_k", "grad_c"):
        assert found["N"][name].shape == found[3][name].shape
        np.testing.assert_allclose(found["N"][name], found[3][name], rtol=1e-5, atol=1e-5)

"""Traced functions that no other test of lowering calls: right at another shape than that they were traced at; and there are no more."""

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import pyopnb
from pyopnb.lowering import listing  # which fills the table
from pyopnb.lowering.rules import name_of

CALLS = {
    **{
        name: f"np.{name}(n, k)"
        for name in (
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "greater",
            "greater_equal",
            "less_equal",
            "not_equal",
        )
    },
    **{name: f"np.{name}((n, k))" for name in ("column_stack", "dstack")},
    **{name: f"np.{name}(n, 2)" for name in ("left_shift", "right_shift")},
    **{
        name: f"np.{name}(x)"
        for name in (
            "absolute",
            "amax",
            "amin",
            "atleast_1d",
            "atleast_2d",
            "degrees",
            "radians",
            "positive",
        )
    },
    **{name: f"np.{name}(x)" for name in ("flipud", "nanmin")},
    "broadcast_arrays": "np.broadcast_arrays(x, x[0])[1]",
    "flatnonzero": "np.flatnonzero(x > 0)",
    "float_power": "np.float_power(n, 2)",
    "fmod": "np.fmod(x, 0.7)",
    "hsplit": "np.hsplit(x, 2)[1]",
    "invert": "np.invert(n)",
    "logical_xor": "np.logical_xor(x > 0, n > 0)",
    "vecdot": "np.vecdot(x[0], x[1])",
    "vsplit": "np.vsplit(x, 2)[0]",
}


def feeds(rows):
    rng = np.random.default_rng(rows)
    n, k = (rng.integers(-6, 7, (rows, 4)) for _ in range(2))
    return {"x": rng.standard_normal((rows, 4)).astype(np.float32), "n": n, "k": k}


@pytest.mark.parametrize("name", CALLS)
def test_result_is_numpy_s(name):
    namespace = {"np": np}
    exec(f"class Rare:\n    def compute(self, x, n, k):\n        return {CALLS[name]}", namespace)
    want = namespace["Rare"]().compute(**feeds(6))

    class Rare(namespace["Rare"]):
        def infer(self, x, n, k):
            return f"{want.dtype.name}[...]"

    pyopnb.registry.define(Rare, "rare::Rare")
    model = pyopnb.parse(
        "(float[R,4] x, int64[R,4] n, int64[R,4] k) => (y) { y = rare.Rare(x, n, k) }"
    )
    lowered = pyopnb.lower(model, feeds(2), strict=True)
    (got,) = onnxruntime.InferenceSession(lowered.SerializeToString()).run(None, feeds(6))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_every_traced_function_is_called_in_a_test():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    names = {name_of(function).rpartition(".")[2] for function in listing.TABLE}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []

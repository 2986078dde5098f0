"""Ops that Numba compiles: called by pointer, equal to Python, with Python's exceptions, and left to Python with a reason."""

import math
from contextlib import suppress

import numba
import numpy as np
import pytest

import pyopnb

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)


def compiled(session):
    (kernel,) = session._kernels
    return kernel.at(pyopnb.registry.epoch).compiled


def session_of(graph):
    return pyopnb.Session(pyopnb.parse(graph))


class SoftClip:
    kernel = "numba"

    def __init__(self, limit: float = 1.0):
        self.limit = limit

    def compute(self, x):
        return self.limit * np.tanh(x / self.limit)


def test_numpy_of_each_dtype():
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    for name, dtype in (("float", np.float32), ("double", np.float64)):
        session = session_of(f"({name}[N,3] x) => ({name}[N,3] y) {{ y = demo.SoftClip<limit = 2.0>(x) }}")
        assert compiled(session)
        for x in (X.astype(dtype), X[:0].astype(dtype)):
            np.testing.assert_allclose(session(x=x)["y"], 2 * np.tanh(x / 2), rtol=1e-6)


class Loop:
    name, table, steps = "loop", np.float32([1, 10, 100]), [0, 2]

    def __init__(self, n: int, scale: float = 0.5):
        self.n, self.scale = n, scale

    @numba.njit
    def compute(self, x: "float32[N]", bias: "float32[N]" = None) -> ("float32[N]", "int64[]"):
        y, total = np.empty_like(x), 0
        for i in range(x.shape[0]):
            if x[i] < 0:
                raise ValueError("negative")
            y[i] = math.sqrt(x[i]) * self.scale + self.table[self.steps[1]] * (0 if bias is None else bias[i])
            total += self.n
        return y, total


def test_decorated_compute_with_attributes_optional_input_and_scalar_result():
    pyopnb.pyop("demo::Loop")(Loop)
    x = np.float32([1, 4])
    session = session_of("(float[N] x) => (float[N] y, int64 n) { y, n = demo.Loop<n = 3>(x) }")
    assert compiled(session)
    y, n = session(x=x)
    assert y.tolist() == [0.5, 1] and n.shape == () and n == 6
    assert pyopnb.call("demo::Loop", x, x, n=1, outputs=2)[0].tolist() == [100.5, 401]


def test_exception_is_that_of_python_with_its_line():
    pyopnb.pyop("demo::Loop")(Loop)
    with pytest.raises(ValueError, match="negative") as caught:
        pyopnb.call("demo::Loop", np.float32([1, -1]), n=1, outputs=2)
    assert caught.traceback[-1].path.name == "test_numba.py"
    assert "demo::Loop), version 1, with x: float32[" in caught.value.__notes__[0]


def test_index_out_of_range_raises():
    @pyopnb.pyop("demo::Beyond")
    class Beyond:
        kernel = "numba"

        def compute(self, x):
            return x + x[x.shape[0]]

    with pytest.raises(IndexError, match="out of bounds"):
        pyopnb.call("demo::Beyond", np.float32([1, 2]))


def body(line):
    """An op of one line, which is compiled only if Numba can."""
    text = f"class Body:\n    kernel = 'numba'\n    def compute(self, x):\n        {line}\n"
    namespace = {"np": np}
    exec(text, namespace)
    return pyopnb.pyop("demo::Body")(namespace["Body"])


@pytest.mark.parametrize(
    ("line", "x", "reason"),
    [
        ("return np.linalg.svdvals(x)", X, "svdvals"),
        ("return self.method(x)", X, "method"),
        ("return 2 * x", np.int32([1]), r"result 0 is array\(int64, 1d, C\), where the node has int32"),
        ("x[0] = 1; return x", X, "readonly"),
        ("return x", np.ones(2, np.float16), "float16"),
    ],
)
def test_what_numba_cannot_compile_is_left_to_python_with_the_reason(line, x, reason):
    cls = body(line)
    cls.method = lambda self, x: x
    expected = f"Numba does not compile it, so Python computes.*{reason}"
    with pytest.warns(pyopnb.NotCompiled, match=expected), suppress(ValueError):  # of what Python refuses, too
        pyopnb.call("demo::Body", x)


def test_results_of_another_shape_than_promised_are_refused():
    cls = body("return x[1:]")
    cls.infer = lambda self, x: x
    pyopnb.registry.define(cls, "demo::Body")
    with pytest.raises(pyopnb.ResultError, match=r"expected float32\[N\], as infer says, got float32\[1\]"):
        session_of("(float[N] x) => (float[N] y) { y = demo.Body(x) }")(x=np.ones(2, np.float32))

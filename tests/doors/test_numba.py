"""Ops that Numba compiles: called by pointer, equal to Python, with Python's exceptions, and left to Python with a reason."""

import ctypes
import math
from contextlib import suppress

import numba
import numpy as np
import pytest

import pyopnb
from pyopnb.runtime.compiled import numba_form, numba_math

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


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float", np.float32),
        # It takes seconds to compile, and differs from float32 in the dtypes alone.
        pytest.param("double", np.float64, marks=pytest.mark.everywhere),
    ],
)
def test_numpy_of_each_dtype(name, dtype):
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    session = session_of(f"({name}[N,3] x) => ({name}[N,3] y) {{ y = demo.SoftClip<limit = 2.0>(x) }}")
    assert compiled(session)
    for x in (X.astype(dtype), X[:0].astype(dtype)):
        np.testing.assert_allclose(session(x=x)["y"], 2 * np.tanh(x / 2), rtol=1e-6)


def test_other_sizes_are_not_compiled_again(monkeypatch):
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    graph = "(float[{0},3] x) => (float[{0},3] y) {{ y = demo.SoftClip<limit = 2.0>(x) }}"
    session_of(graph.format("N"))(x=X)
    monkeypatch.setattr(numba_form, "_entry", lambda *args: pytest.fail("compiled"))
    np.testing.assert_allclose(session_of(graph.format(2))(x=X[:2])["y"], 2 * np.tanh(X[:2] / 2), rtol=1e-6)
    np.testing.assert_allclose(pyopnb.call("demo::SoftClip", X[1:], limit=2.0), 2 * np.tanh(X[1:] / 2), rtol=1e-6)


def has_vector_functions():
    try:
        return hasattr(ctypes.CDLL("libmvec.so.1"), "_ZGVbN4v_tanhf")
    except OSError:
        return False


class Elementary:
    """Arrays of float32 and float64, a scalar, and another name of NumPy's."""

    kernel = "numba"

    def compute(self, x):
        waves = np.tanh(x) + tanh(np.exp(np.float32(0)))
        return waves, np.exp(x.astype(np.float64)) + np.pi


tanh = np.tanh


def test_elementary_functions_are_called_for_several_elements_at_once():
    pyopnb.pyop("demo::Elementary")(Elementary)
    session = session_of("(float[N] x) => (float[N] y, double[N] z) { y, z = demo.Elementary(x) }")
    assert compiled(session)
    x = np.float32([*np.linspace(-20, 20, 37), np.nan, np.inf, -np.inf, -0.0])
    want = np.tanh(x) + np.tanh(np.float32(1)), np.exp(x.astype(float)) + np.pi
    for got, expected in zip(session(x=x), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6)
    (entry,) = [entry for key, entry in numba_form._entries.items() if key[0] is Elementary.compute]
    for name in ("tanhf", "exp"):
        assert (f"v_{name}" in entry._library.get_asm_str()) == has_vector_functions(), name


def loops(dtype, wide):
    """A compiled function with a loop over each function of the table, with vectors of 512 bits if asked and to be had."""
    namespace = {f"call_{name}": numba_math._calling(name, dtype, wide) for name in numba_math._NAMES}
    namespace["wide_vectors"] = numba_math.wide_vectors
    lines = ["    wide_vectors()"] * wide
    lines += [f"    for i in range(x.size): out[{n}, i] = call_{name}(x[i])" for n, name in enumerate(numba_math._NAMES)]
    exec("\n".join(["def every(x, out):", *lines]), namespace)
    return numba.njit(namespace["every"])


def points(dtype):
    """Special ones, of all bit patterns, of the range where functions are neither constant nor infinite, and near where they turn."""
    rng = np.random.default_rng(0)
    special = np.repeat([0.0, -0.0, np.inf, -np.inf, np.nan], 16)  # 16 at a time
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize), 20_000, f"u{dtype.itemsize}").view(dtype)
    near = [place + rng.normal(size=2000) * 10.0 ** -rng.integers(0, 8, 2000) for place in (-1, 0, 0.5, 1, 88, 709)]
    turns = rng.integers(-(10**6), 10**6, 5000) * (np.pi / 2)
    denormal = rng.uniform(-1, 1, 2000).astype(dtype) * np.finfo(dtype).tiny
    return np.concatenate(
        [part.astype(dtype) for part in (special, bits, rng.uniform(-1000, 1000, 20_000), *near, turns, denormal)]
    )


@pytest.mark.skipif(not has_vector_functions(), reason="glibc has these vector functions from 2.35 on")
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("dtype", "exactly"), [("float32", np.float64), ("float64", np.longdouble)])
def test_vector_functions_are_as_exact_as_numpy_s(dtype, exactly, wide):
    every, x = loops(dtype, wide), points(np.dtype(dtype))
    results = np.empty((len(numba_math._NAMES), x.size), dtype)
    every(x, results)
    for name, got in zip(numba_math._NAMES, results, strict=True):
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(x.astype(exactly))
            want = exact.astype(dtype)
            off = np.abs(got - exact) / np.spacing(np.abs(want))  # in units of the last place
        wrong = x[~((got == want) | (np.isnan(got) & np.isnan(want)) | (off <= 4))]
        assert not wrong.size, f"{name} of {wrong[:5]}"
        zeros = (x == 0) & (want == 0)
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]), name)
    assembly = next(iter(every.inspect_asm().values()))
    suffix = "f" * (dtype == "float32")
    assert [name for name in numba_math._NAMES.values() if f"v_{name}{suffix}" not in assembly] == []
    assert ("_ZGVeN" in assembly) == ("e" in numba_math._vectors(wide))


def test_what_only_numba_s_own_function_takes_is_compiled_all_the_same(monkeypatch):
    fails = numba_math.vectorised(lambda x: np.tanh(x))
    monkeypatch.setattr(numba_form, "vectorised", lambda compute: lambda self, x: fails.no_such_name(x))
    body("return -x")
    assert compiled(session_of("(float[N] x) => (float[N] y) { y = demo.Body(x) }"))


class SoftClipInPython(SoftClip):
    kernel = "python"


def test_it_is_one_of_the_forms():
    pyopnb.pyop("demo::SoftClip")(SoftClipInPython)
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    forms = pyopnb.forms("demo::SoftClip", X, sizes=[1, 50], limit=2.0)
    assert [(form.name, form.verdict) for form in forms] == [("Python", ""), ("ONNX function", "yes"), ("Numba", "yes")]
    assert all(len(form.seconds) == 2 for form in forms)
    pyopnb.registry.remove("demo::SoftClip")
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    with pytest.raises(pyopnb.ArgumentError, match="forms of demo::SoftClip: expected a version in Python, got Numba alone"):
        pyopnb.forms("demo::SoftClip", X)


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


def test_decorated_compute_with_attributes_absent_input_and_scalar_result():
    pyopnb.pyop("demo::Loop")(Loop)
    x = np.float32([1, 4])
    session = session_of("(float[N] x) => (float[N] y, int64 n) { y, n = demo.Loop<n = 3>(x) }")
    assert compiled(session)
    y, n = session(x=x)
    assert y.tolist() == [0.5, 1] and n.shape == () and n == 6


@pytest.mark.everywhere  # with the input, compute is compiled a second time, which takes seconds
def test_decorated_compute_with_its_optional_input():
    pyopnb.pyop("demo::Loop")(Loop)
    x = np.float32([1, 4])
    assert pyopnb.call("demo::Loop", x, x, n=3, outputs=2)[0].tolist() == [100.5, 401]


def test_exception_is_that_of_python_with_its_line():
    pyopnb.pyop("demo::Loop")(Loop)
    with pytest.raises(ValueError, match="negative") as caught:
        pyopnb.call("demo::Loop", np.float32([1, -1]), n=3, outputs=2)
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

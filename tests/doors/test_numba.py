"""Ops that Numba compiles: called by pointer, equal to Python, with Python's exceptions, and left to Python with a reason."""

import linecache
import math
import time
from contextlib import suppress

import numba
import numpy as np
import pytest

import pyopnb
from pyopnb.compile import numba_form

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)


def compiled(session):
    (kernel,) = session._kernels
    compute = kernel.at(pyopnb.registry.epoch).instance.compute
    return compute.__qualname__ == "_with_exceptions.<locals>.computed"


def session_of(graph):
    return pyopnb.Session(pyopnb.parse(graph))


def op(text, **names):
    """Define demo::Body from the text of a class, and return the class."""
    namespace = {"np": np, **names}
    file = f"<body {id(namespace)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    return pyopnb.pyop("demo::Body")(namespace["Body"])


def body(*lines, **names):
    text = "class Body:\n    kernel = 'numba'\n    def compute(self, x):\n"
    return op(text + "".join(f"        {line}\n" for line in lines), **names)


class SoftClip:
    kernel = "numba"

    def __init__(self, limit: float = 1.0):
        self._limit = np.float32(limit)

    def compute(self, x):
        return self._limit * np.tanh(x / self._limit)


def test_attrs_functions_and_other_sizes(monkeypatch):
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    graph = "(float[{0},3] x) => (float[{0},3] y) {{ y = demo.SoftClip<limit = 2.0>(x) }}"
    session = session_of(graph.format("N"))
    assert compiled(session)
    for x in (X, X[:0]):
        np.testing.assert_allclose(session(x=x)["y"], 2 * np.tanh(x / 2), rtol=1e-6)
    np.testing.assert_allclose(
        session_of(graph.format(2))(x=X[:2])["y"], 2 * np.tanh(X[:2] / 2), rtol=1e-6
    )


def test_two_nodes_sessions_and_set_attrs_have_their_own_attributes():
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    nodes = "a = demo.SoftClip<limit = 1.0>(x)  b = demo.SoftClip<limit = 2.0>(x)"
    session = session_of(f"(float[N,3] x) => (float[N,3] a, float[N,3] b) {{ {nodes} }}")
    for limit in (2.0, 4.0):
        session.set_attrs("b", limit=limit)
        first, second = session(x=X)
        np.testing.assert_allclose(first, np.tanh(X), rtol=1e-6)
        np.testing.assert_allclose(second, limit * np.tanh(X / limit), rtol=1e-6)


class Table:
    """Return what the table holds, and its shape."""

    kernel = "numba"
    tables = (np.arange(4.0), np.arange(4.0).reshape(2, 2))

    def __init__(self, which: int):
        self.table = self.tables[which]

    def compute(self, x):
        return self.table + x, np.full(1, self.table.ndim)


def test_arrays_of_the_same_bytes_and_another_shape():
    pyopnb.pyop("demo::Table")(Table)
    for which in (0, 1):
        session = session_of(
            f"(double[1] x) => (double[...] y, int64[1] n) {{ y, n = demo.Table<which = {which}>(x) }}"
        )
        assert compiled(session)
        y, n = session(x=np.zeros(1))
        np.testing.assert_array_equal(y, Table.tables[which])
        assert n.tolist() == [which + 1]


def test_an_array_that_is_changed_in_place_is_seen():
    pyopnb.pyop("demo::Table")(Table)
    session = session_of(
        "(double[1] x) => (double[4] y, int64[1] n) { y, n = demo.Table<which = 0>(x) }"
    )
    assert compiled(session)
    Table.tables[0][0] = 9
    try:
        assert session(x=np.zeros(1))["y"][0] == 9
    finally:
        Table.tables[0][0] = 0


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["return x * FACTOR"], "the global FACTOR"),
        (["return twice(x)"], "the global twice"),
        (["return np.float64(self.factor) * x"], "factor"),
    ],
)
def test_what_may_change_later_is_left_to_python(lines, reason):
    cls = body(*lines, FACTOR=2.0, twice=lambda x: x * 2)
    cls.factor = 2.0
    with pytest.warns(pyopnb.errors.NotCompiled, match=reason):
        session = session_of("(double[N] x) => (double[N] y) { y = demo.Body(x) }")
    x = np.float64([1, 2])
    assert session(x=x)["y"].tolist() == [2, 4]
    names = cls.compute.__globals__
    names["FACTOR"], names["twice"], cls.factor = 3.0, (lambda x: x * 3), 3.0
    assert session(x=x)["y"].tolist() == [3, 6]


def test_zero_and_minus_zero_are_two_constants():
    text = (
        "class Body:\n    kernel = 'numba'\n    def __init__(self, sign: float): self.zero = 0.0 * sign\n"
        "    def compute(self, x): return np.copysign(x, self.zero)\n"
    )
    op(text)
    for sign in (1.0, -1.0):
        session = session_of(
            f"(double[N] x) => (double[N] y) {{ y = demo.Body<sign = {sign}>(x) }}"
        )
        assert compiled(session) and session(x=np.ones(1))["y"].tolist() == [sign]


MIXED = [
    ("uint8", "return (x - 1) > 0", "sub of int64 and uint8"),
    ("int8", "return (x * x) // 2", "mul of int8"),
    ("int32", "y = np.zeros(1, np.int64); y[0] = x[0] * x[1]; return y", "mul of int32"),
    ("uint64", "return (x - 1) > 0", "sub of"),
    ("float32", "return np.full(1, x.sum())", "sum of float32"),
    ("float32", "return np.full(1, np.mean(x))", "mean of float32"),
    ("float64", "return np.full(1, x.sum())", "sum of float64"),
    ("float32", "return x * 0.1", r"np.float32\(…\) around"),
    ("float32", "return x > 0.1", "comparison gt"),
    ("bool", "return x + x", "add of bool"),
    ("int64", "return x // x", "floordiv"),
    ("int64", "return x ** 2", "operator pow"),
    ("float64", "return np.full(1, int(x[0]))", "conversion of float64 to int64"),
    ("float64", "return np.random.permutation(x)", "permutation"),
    ("int64", "return np.full(1, x.mean())", "mean of int64"),
    (
        "float64",
        "n = 1\n        for i in range(x.size): n *= 3\n        return np.full(1, n)",
        "beyond 64 bits",
    ),
    (
        "float64",
        "a, b = 1, 1\n        for i in range(x.size): a, b = b, a + b\n        return np.full(1, a)",
        "64 bits",
    ),
]


@pytest.mark.parametrize(("dtype", "line", "reason"), MIXED)
def test_other_dtypes_than_numpy_s_are_left_to_python(dtype, line, reason):
    body(line)
    with (
        pytest.warns(pyopnb.errors.NotCompiled, match=reason),
        suppress(pyopnb.errors.ResultError, TypeError),
    ):
        pyopnb.call("demo::Body", np.ones(3, dtype))


@pytest.mark.parametrize(
    ("types", "line", "reason"),
    [
        (
            "(uint8[N] x) => (bool[N] y)",
            "return (x - 1) > 0",
            "is True instead of False|is False instead of True",
        ),
        (
            "(double[N] x) => (int64[1] y)",
            "return np.full(1, int(math.log(x[0])))",
            "where the original raises",
        ),
    ],
)
def test_what_differs_from_python_does_not_serve(monkeypatch, types, line, reason):
    monkeypatch.setattr(numba_form, "check_body", lambda *args: None)
    body(line, math=math)
    graph = f"{types} {{ y = demo.Body(x) }}"
    for _ in range(2):
        with pytest.warns(pyopnb.errors.NotCompiled, match=reason):
            assert not compiled(session_of(graph))
        monkeypatch.setattr(
            numba_form, "compare_with_python", lambda *args: pytest.fail("compared again")
        )


def test_a_loop_that_takes_minutes_in_python_is_not_waited_for():
    body("y = 0.0", "for i in range(10**9): y = y * 0.5 + x[0]", "return np.full(1, y)")
    compare, seconds = numba_form.compare_with_python, []

    def timed(*args):
        started = time.perf_counter()
        disagreement = compare(*args)
        seconds.append(time.perf_counter() - started)
        return disagreement

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_form, "compare_with_python", timed)
        assert compiled(session_of("(double[N] x) => (double[1] y) { y = demo.Body(x) }"))
    assert seconds[0] < 5


def test_inputs_whose_sizes_have_to_be_equal_without_saying_so_are_compared(monkeypatch):
    monkeypatch.setattr(numba_form, "check_body", lambda *args: None)
    op(
        "class Body:\n    kernel = 'numba'\n    def compute(self, x, y): return ((x - 1) > 0) & (y >= 0)\n"
    )
    with pytest.warns(pyopnb.errors.NotCompiled, match="instead of"):
        session_of("(uint8[N] x, uint8[M] y) => (bool[K] z) { z = demo.Body(x, y) }")


def test_a_node_without_its_second_output_is_compiled_and_compared(monkeypatch):
    pyopnb.pyop("demo::Table")(Table)
    reports = []
    compare = numba_form.compare_with_python
    monkeypatch.setattr(
        numba_form,
        "compare_with_python",
        lambda *args: reports.append(compare(*args)) or reports[-1],
    )
    assert compiled(session_of("(float[7] x) => (double[4] y) { y = demo.Table<which = 0>(x) }"))
    assert reports == [""]


class SoftClipInPython(SoftClip):
    kernel = "python"


def test_it_is_one_of_the_forms():
    pyopnb.pyop("demo::SoftClip")(SoftClipInPython)
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    forms = pyopnb.forms("demo::SoftClip", X, limit=2.0)
    assert [(form.name, form.verdict) for form in forms if form.name != "ONNX function"] == [
        ("Python", ""),
        ("Numba", "yes"),
    ]
    pyopnb.registry.remove("demo::SoftClip")
    pyopnb.pyop("demo::SoftClip")(SoftClip)
    with pytest.raises(
        pyopnb.errors.InputError,
        match="forms of demo::SoftClip: expected a version in Python, got Numba alone",
    ):
        pyopnb.forms("demo::SoftClip", X)


class Loop:
    def __init__(self, n: int, scale: float = 0.5):
        self.name, self.table, self.steps = "loop", np.float32([1, 10, 100]), (0, 2)
        self.n, self.scale = n, np.float32(scale)

    @numba.njit
    def compute(self, x: "float32[N]", bias: "float32[N]" = None) -> ("float32[N]", "int64[]"):
        y, total = np.empty_like(x), 0
        for i in range(x.shape[0]):
            if x[i] < 0:
                raise ValueError("negative")
            y[i] = np.sqrt(x[i]) * self.scale
            if bias is not None:
                y[i] += self.table[self.steps[1]] * bias[i]
            total += self.n
        return y, total


def test_decorated_compute_with_attributes_absent_input_and_scalar_result():
    pyopnb.pyop("demo::Loop")(Loop)
    session = session_of("(float[N] x) => (float[N] y, int64 n) { y, n = demo.Loop<n = 3>(x) }")
    assert compiled(session)
    y, n = session(x=np.float32([1, 4]))
    assert y.tolist() == [0.5, 1] and n.shape == () and n == 6


@pytest.mark.everywhere  # with the input, compute is compiled a second time, which takes seconds
def test_decorated_compute_with_its_optional_input():
    pyopnb.pyop("demo::Loop")(Loop)
    x = np.float32([1, 4])
    assert pyopnb.call("demo::Loop", x, x, n=3, outputs=2)[0].tolist() == [100.5, 401]


def test_a_decorator_that_changes_numbers_is_refused():
    @pyopnb.pyop("demo::Fast")
    class Fast:
        @numba.njit(fastmath=True)
        def compute(self, x):
            return x + x

    with pytest.warns(pyopnb.errors.NotCompiled, match="fastmath"):
        pyopnb.call("demo::Fast", X)


def test_exception_is_that_of_python_with_its_line():
    pyopnb.pyop("demo::Loop")(Loop)
    with pytest.raises(ValueError, match="negative") as caught:
        pyopnb.call("demo::Loop", np.float32([1, -1]), n=3, outputs=2)
    assert caught.traceback[-1].path.name == "test_numba.py"
    assert "demo::Loop), version 1, with x: float32[" in caught.value.__notes__[0]


def test_index_out_of_range_raises():
    body("return x + x[x.shape[0]]")
    with pytest.raises(IndexError, match="out of bounds"):
        pyopnb.call("demo::Body", np.float32([1, 2]))


@pytest.mark.parametrize(
    ("line", "x", "reason"),
    [
        ("return np.linalg.svdvals(x)", X, "svdvals"),
        ("return self.method(x)", X, "method"),
        ("x[0] = 1; return x", X, "readonly"),
        ("return x", np.ones(2, np.float16), "float16"),
    ],
)
def test_what_numba_cannot_compile_is_left_to_python_with_the_reason(line, x, reason):
    cls = body(line)
    cls.method = lambda self, x: x
    with (
        pytest.warns(pyopnb.errors.NotCompiled, match=reason),
        suppress(ValueError),
    ):  # of what Python refuses, too
        pyopnb.call("demo::Body", x)


def test_results_of_another_shape_than_promised_are_refused():
    cls = body("return x[1:]")
    cls.infer = lambda self, x: x
    pyopnb.registry.define(cls, "demo::Body")
    with pytest.raises(
        pyopnb.errors.ResultError, match=r"expected float32\[N\], as infer says, got float32\[1\]"
    ):
        session_of("(float[N] x) => (float[N] y) { y = demo.Body(x) }")(x=np.ones(2, np.float32))


@pytest.mark.parametrize("text", ["nunba", "Numba", ""])
def test_a_kernel_that_nobody_makes_is_refused_at_definition(text):
    with pytest.raises(pyopnb.errors.DefinitionError, match="numba"):
        pyopnb.pyop("demo::Typo")(type("Typo", (), {"kernel": text, "compute": lambda self, x: x}))
    assert "demo::Typo" not in pyopnb.registry

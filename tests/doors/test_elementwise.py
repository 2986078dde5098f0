"""Bodies that treat each element by itself: one compiled loop, with the numbers and dtypes of NumPy."""

import linecache
import re
import types

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import pyopnb
from pyopnb.runtime.compiled import numba_form, numba_math
from pyopnb.runtime.compiled.elementwise import read_elementwise

HALF = 0.5
NAMES = {"float32": "float", "float64": "double"}


def points(dtype):
    near = np.concatenate([np.linspace(-4, 4, 41), np.linspace(-100, 100, 23)])
    limits = np.finfo(dtype)
    return np.array([*near, 0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.tiny / 4], dtype)


class Results:
    """Operators, functions, literals of both kinds, attrs, a branch on an attr, and names for parts."""

    kernel = "numba"

    def __init__(self, limit: float = 0.1, flag: bool = True):
        self.limit, self.flag = limit, flag

    def compute(self, x):
        """Of each kind one.

        With another line.
        """
        part = 1 / 3 * x - HALF
        part += 2
        scale = self.limit * 3
        if self.flag:
            part = scale * np.tanh(part / scale)
        else:
            part = np.there_is_none(part)
        swish = x / (1 + np.exp(-x))
        chosen = np.where(x > 0.1, x, np.expm1(x) * 1.6732632)
        powers = x**2 - abs(x) ** 0.5 + np.sqrt(np.abs(x) * np.pi)
        return part, swish, np.minimum(np.maximum(x, 1), 6), chosen, powers, x <= 16777217, -np.floor(x) * x**0.5


class Two:
    kernel = "numba"

    def compute(self, x, y, z=None):
        total = x * y if z is None else x * y + z
        return total * 2, x - y


class Inverse:
    kernel = "numba"

    def __init__(self, limit: float = 0.0):
        self.limit = limit

    def compute(self, x):
        return x * (1 / self.limit)


def loops(monkeypatch):
    """The loops that are compiled from now on."""
    found, loop = [], numba_form._loop
    monkeypatch.setattr(numba_form, "_entries", {})
    monkeypatch.setattr(numba_form, "_loop", lambda *args: found.append(loop(*args)) or found[-1])
    return found


def same(got, want, ulp):
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype == bool:
        np.testing.assert_array_equal(got, want)
        return
    # Of what cancels, the last places are lost in either.
    np.testing.assert_allclose(got, want, rtol=ulp * np.finfo(want.dtype).eps, atol=np.finfo(want.dtype).eps)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.everywhere)])  # it takes seconds
def test_numbers_and_dtypes_are_those_of_numpy(dtype, monkeypatch):
    found = loops(monkeypatch)
    pyopnb.pyop("demo::Results")(Results)
    outputs = ", ".join(f"{'bool' if name == 'e' else NAMES[dtype]}[N,M] {name}" for name in "abcdpeg")
    graph = f"({NAMES[dtype]}[N,M] x) => ({outputs}) {{ a, b, c, d, p, e, g = demo.Results(x) }}"
    session = pyopnb.Session(pyopnb.parse(graph))
    assembly = next(iter(found[0].function.inspect_asm().values()))
    suffix = {"float32": "f", "float64": ""}[dtype]  # float32 all the way, with literals of Python among them
    assert {name for name in re.findall(r"_ZGV\w*v_(\w+)", assembly)} <= {
        f"{name}{suffix}" for name in ("tanh", "exp", "expm1")
    }
    vectors = numba_math._vectors(wide=True)
    assert (f"v_tanh{suffix}" in assembly) == bool(vectors)
    assert ("_ZGVeN" in assembly) == ("e" in vectors) and ("zmm" in assembly or "e" not in vectors)
    for x in (points(dtype).reshape(8, 9), points(dtype)[:0].reshape(0, 9)):
        with np.errstate(all="ignore"):
            want = Results().compute(x)
        for got, expected in zip(session(x=x), want, strict=True):
            same(got, expected, 8)


def test_arrays_of_one_shape_single_numbers_and_others(monkeypatch):
    found = loops(monkeypatch)
    pyopnb.pyop("demo::Two")(Two)
    types = {"x": "float32[N,M]", "y": "float32[K,L]", "z": "float32[]"}
    results = {"t": "float32[N,M]", "d": "float32[N,M]"}
    session = pyopnb.Session(pyopnb.model([pyopnb.node("demo::Two", "x y z", "t d")], types, results))
    assert found[0].whole == [0, 1]
    rng = np.random.default_rng(0)
    x, row, z = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(1, 3)).astype(np.float32), np.float32(7)
    for y in (x[::-1].copy(), row):
        for got, want in zip(session(x=x, y=y, z=z), Two().compute(x, y, z), strict=True):
            same(got, want, 2)
    with pytest.raises(ValueError, match="broadcast"):  # Python's own
        session(x=x, y=x[:2], z=z)


def test_an_input_and_a_result_that_are_left_out(monkeypatch):
    found = loops(monkeypatch)
    pyopnb.pyop("demo::Two")(Two)
    node = pyopnb.node("demo::Two", ["x", "y"], ["", "d"])
    session = pyopnb.Session(pyopnb.model([node], {"x": "float32[N]", "y": "float32[N]"}, {"d": "float32[N]"}))
    assert [result.place for result in found[0].results] == [1]
    x = np.float32([1, 2])
    assert session(x=x, y=2 * x)["d"].tolist() == [-1, -2]


@pytest.mark.parametrize("count", [2, 0])
def test_what_attrs_alone_raise_is_raised(count):
    pyopnb.pyop("demo::Inverse")(Inverse)
    with pytest.raises(ZeroDivisionError):
        pyopnb.call("demo::Inverse", np.ones(count, np.float32))


BODIES = {
    "a size": "x / x.size",
    "a size, by NumPy": "x / np.size(x)",
    "a sum": "x - np.sum(x)",
    "a reduction of a ufunc": "x - np.add.reduce(x)",
    "neighbours": "x - x[::-1]",
    "a product of matrices": "x @ x",
    "numbers of float64": "np.where(x > 0, 1.0, 0.0) * x",
    "a strong scalar": "x * self.strong",
    "a power that is a strong scalar": "x ** self.strong",
    "a table": "x * self.table",
    "bools as numbers": "((x > 0) + (x > 1)) * x",
    "no function of NumPy": "len(x) * x",
    "what raises": "x * (1 / self.zero)",
    "a comprehension": "sum([x for _ in range(2)])",
    "no array": "self.zero",
}


def written(expression, shown=None, *, whole=False):
    """A function of one expression, or a whole body, whose text, as of a cell, is in the cache of lines."""
    text = f"def compute(self, x):\n    {expression if whole else f'return {expression}'}\n"
    file = f"<{expression}>"
    linecache.cache[file] = (len(text), None, (shown or text).splitlines(keepends=True), file)
    namespace = {"np": np}
    exec(compile(text, file, "exec"), namespace)
    return namespace["compute"]


@pytest.mark.parametrize("name", BODIES)
def test_what_looks_at_more_than_an_element_is_no_such_body(name):
    attributes = {"strong": np.float64(2), "table": np.ones(3, np.float32), "zero": 0.0}
    assert read_elementwise(written(BODIES[name]), attributes, [np.dtype("float32")]) is None
    assert read_elementwise(written("x * 2"), attributes, [np.dtype("float32")]) is not None


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        ("y = x + 1; z = y; y *= 2; return z", False),
        ("y = x + 1; z = y if self.flag else x; z *= 2; return y", False),
        ("y = x; y *= 2; return y", False),
        ("x *= 2; return x", False),
        ("y = x + 1; z = y; y = y * 2; return z", True),
        ("y = x + 1; z = y; z = x; y *= 2; return y - z", True),
    ],
)
def test_an_array_that_is_changed_has_one_name(body, is_read):
    """Under another name it changes as well, and an input cannot be written."""
    function = written(body, whole=True)
    found = read_elementwise(function, {"flag": True}, [np.dtype("float32")])
    assert (found is not None) is is_read
    if found is not None:
        namespace = dict(found.namespace)
        exec(found.text, namespace)
        x = np.float32([1.5, -2])
        assert np.array_equal(namespace["one"](x), function(types.SimpleNamespace(flag=True), x))


def test_a_local_name_without_a_value_is_no_global():
    function = written("if self.flag: scale = 2\n    return x * scale", whole=True)
    function.__globals__["scale"] = 3.0
    float32 = [np.dtype("float32")]
    assert read_elementwise(function, {"flag": True}, float32) is not None
    assert read_elementwise(function, {"flag": False}, float32) is None
    with pytest.raises(UnboundLocalError):
        function(types.SimpleNamespace(flag=False), np.float32([1]))


NAMES_IN_BODIES = st.sampled_from(["a", "b", "c", "x"])
EXPRESSIONS = st.recursive(
    st.one_of(NAMES_IN_BODIES, st.sampled_from(["2", "0.1", "-3.5", "self.limit", "HALF", "self.limit * 3"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "<", ">=", "=="]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda one: f"-{one}"),
        inner.map(lambda one: f"abs({one})"),
        inner.map(lambda one: f"np.sqrt({one})"),
        st.tuples(inner, inner).map(lambda two: f"np.maximum({', '.join(two)})"),
        st.tuples(inner, inner, inner).map(lambda three: f"np.where({three[0]} > 0, {', '.join(three[1:])})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} if self.flag else {two[1]})"),
    ),
    max_leaves=5,
)
STATEMENTS = st.one_of(
    st.tuples(NAMES_IN_BODIES, st.sampled_from(["=", "+=", "*=", "="]), EXPRESSIONS).map(" ".join),
    st.tuples(NAMES_IN_BODIES, NAMES_IN_BODIES).map(" = ".join),
)


@settings(max_examples=300)
@given(st.lists(STATEMENTS, min_size=1, max_size=6), EXPRESSIONS, st.booleans())
def test_what_is_read_of_random_bodies_computes_the_same(statements, returned, flag):
    """The function of one element, run by Python, to the bit."""
    body = f"a = x + 1; b = x * 2; c = a; {'; '.join(statements)}; return {returned}"
    attributes = {"limit": 0.3, "flag": flag}
    function = written(body, whole=True)
    function.__globals__["HALF"] = HALF
    found = read_elementwise(function, attributes, [np.dtype("float32")])
    event("read" if found else "not read")
    if found is None:
        return
    x = np.float32([0.7, -1.3, 0, 2, np.inf, 1e-40])
    namespace = dict(found.namespace)
    exec(found.text, namespace)
    with np.errstate(all="ignore"):
        want = np.broadcast_to(function(types.SimpleNamespace(**attributes), read_only(x)), x.shape)
        got = [namespace["one"](element) for element in x]
    assert {np.asarray(one).dtype for one in got} == {want.dtype} == {found.dtypes[0]}, found.text
    assert np.array_equal(got, want, equal_nan=want.dtype != bool), found.text


def read_only(array):
    array.setflags(write=False)  # as inputs of ops are
    return array


def test_a_text_that_was_edited_since_is_not_read():
    edited = written("x * 2", "def compute(self, x):\n    return x * 3\n")
    assert read_elementwise(edited, {}, [np.dtype("float32")]) is None

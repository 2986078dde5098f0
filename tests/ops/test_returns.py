"""Which return of a function gave a value."""

from __future__ import annotations

import functools
import linecache
from textwrap import dedent

import numpy as np
import pytest

import pyopnb
from pyopnb.engine.ops.returns import origin_of

X = np.zeros(2, np.float32)


def function(text, **names):
    """The function ``f`` of a text, whose source can be read."""
    text = dedent(text).strip()
    file = f"<returns {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["f"]


BRANCHES = """
def f(x):
    if x is 1:
        return
    if x is 2:
        return x, 1
    if x is 3:
        return [x]
    def inner():
        return 4
    if x is 4:
        return x * 2
    return g(x)
"""


@pytest.mark.filterwarnings("ignore:.*is.*with:SyntaxWarning")
def test_the_lines_that_return_are_named():
    assert origin_of(function(BRANCHES))[0] == "line 5 or 7 or 11 or 12"
    assert origin_of(function("def f(x):\n    return x * 2  # twice")) == (
        "line 2, `return x * 2  # twice`",
        "x * 2",
    )


def test_a_forgotten_return_is_said_and_no_line_is_blamed(define):
    define("""
@pyopnb.pyop("demo::Ramp")
class Ramp:
    def compute(self, x):
        if x.ndim > 1:
            return x
        x = x * 2
""")
    with pytest.raises(
        pyopnb.errors.ResultError,
        match=r"output 0: expected float32\[...\], got None: compute ended without a return",
    ):
        pyopnb.call("demo::Ramp", X)


def test_what_has_no_source_names_no_line():
    for nothing in (len, np.add, functools.partial(len)):
        assert origin_of(nothing) == ("", "y")


def test_a_source_that_changed_is_not_advised():
    f = function("def f(x):\n    return x")
    lines = ["def g(x):\n", "    ]\n"]
    linecache.cache[f.__code__.co_filename] = (0, None, lines, f.__code__.co_filename)
    assert origin_of(f) == ("line 2", "y")


def test_indices_where_the_model_declares_floats_are_not_cast():
    @pyopnb.pyop("demo::Order")
    class Order:
        def compute(self, x):
            return np.argsort(x)

    text = "(float[N] x) => ({}[N] y) {{ y = demo.Order(x) }}"
    x = np.float32([3, 1, 2])
    with pytest.raises(
        pyopnb.errors.ResultError, match=r'Try: int64\[N\] for it in the model, and -> "int64\[N'
    ):
        pyopnb.run(pyopnb.parse(text.format("float")), x)

    @pyopnb.pyop("demo::Order")
    class TypedOrder:
        def compute(self, x) -> "int64[N]":
            return np.argsort(x)

    assert pyopnb.run(pyopnb.parse(text.format("int64")), x)["y"].tolist() == [1, 2, 0]


def test_an_imaginary_part_is_not_dropped():
    @pyopnb.pyop("demo::Spectrum")
    class Spectrum:
        def compute(self, x):
            return np.fft.fft(x)

    with pytest.raises(
        pyopnb.errors.ResultError, match=r"return np.asarray\(np.abs\(np.fft.fft\(x\)\), dtype="
    ):
        pyopnb.call("demo::Spectrum", X)


@pytest.mark.parametrize("make", [list, np.array, functools.partial(np.array, dtype=object)])
def test_text_that_utf8_cannot_have_is_refused(make):
    @pyopnb.pyop("demo::Lone")
    class Lone:
        def compute(self, x) -> "string[2]":
            return make(["right", "a\ud800"])

    with pytest.raises(pyopnb.errors.ResultError, match=r"output 0\[1\]: expected str that UTF-8"):
        pyopnb.call("demo::Lone", X)


@pytest.mark.parametrize("other", [5, None, functools.partial(len)])
def test_new_that_makes_something_else_is_refused(other):
    @pyopnb.pyop("demo::Other")
    class Other:
        def __new__(cls):
            return other

        def compute(self, x):
            return x

    with pytest.raises(pyopnb.errors.DefinitionError, match=r"class Other, __new__: expected an"):
        pyopnb.call("demo::Other", X)

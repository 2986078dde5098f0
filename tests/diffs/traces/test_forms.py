"""Tensors that hold the same numbers in another form: layouts, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

import pyopnb
from pyopnb.diffs.traces.forms import find_form

X = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)
NHWC = np.ascontiguousarray(np.moveaxis(X, 1, -1))


def parsed(text: str) -> ModelProto:
    return pyopnb.parse(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')


def nchw(factor: str = "2.0") -> ModelProto:
    return parsed(
        f"""(float[N,3,4,5] x) => (float[N,3] y) <float by = {{{factor}}}, int64[2] sides = {{2, 3}}> {{
        a = Mul(x, by)  r = Relu(a)  y = ReduceMean<keepdims = 0>(r, sides) }}"""
    )


def nhwc(factor: str = "2.0", name: str = "images") -> ModelProto:
    return parsed(
        f"""(float[N,4,5,3] {name}) => (float[N,3] z) <float by = {{{factor}}}, int64[2] sides = {{1, 2}}> {{
        b = Mul({name}, by)  s = Relu(b)  z = ReduceMean<keepdims = 0>(s, sides) }}"""
    )


def test_a_layout_is_found_and_said() -> None:
    found = pyopnb.diff(pyopnb.trace(nchw(), x=X), pyopnb.trace(nhwc(), images=NHWC))
    assert found.ok and found.origin is None
    assert {tensor.b: tensor.form for tensor in (*found.feeds, *found.tensors)} == {
        "images": "axes 0,2,3,1",
        "b": "axes 0,2,3,1",
        "s": "axes 0,2,3,1",
        "z": "",
    }
    assert "in another form: images = x (axes 0,2,3,1), b = a (axes 0,2,3,1)" in str(found)
    assert type(found).from_json(found.to_json()) == found


def test_a_fault_between_layouts_is_the_only_origin() -> None:
    feeds = {"x": X, "images": NHWC}
    found = pyopnb.diff(pyopnb.trace(nchw(), x=X), pyopnb.trace(nhwc("2.5"), images=NHWC))
    for diff in (found, pyopnb.first_divergence(nchw(), nhwc("2.5"), feeds)):
        assert [step.outputs[0].b for step in diff.origins] == ["b"], str(diff)
        assert diff.origin.changes == ("weight by: float32[], 1 of 1 differs by up to 0.5",)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (X, X.reshape(6, 20), "shape 6,20"),
        (X, X[:, :, None], "shape 2,3,1,4,5"),
        (X, X.transpose(3, 1, 2, 0), "axes 3,1,2,0"),
        (X, X.transpose(0, 2, 3, 1).reshape(2, 20, 3), "axes 0,2,3,1, shape 2,20,3"),
        (X[:1], X[:1].transpose(0, 2, 3, 1), "axes 0,2,3,1"),
        (np.int32([[1, 2]]), np.int64([[1, 2]]), "equal as int64"),
        (np.int64([[1, 2]]), np.int32([[1], [2]]), "shape 2,1, equal as int32"),
        (np.array([True, False]), np.uint8([1, 0]), "equal as uint8"),
        (X, X + np.float32(1e-6), ""),
        (np.float32(2), np.float32([2]), "shape 1"),
        (X[:0], X[:0].transpose(0, 2, 3, 1), "shape 0,4,5,3"),
    ],
)
def test_forms(a: np.ndarray, b: np.ndarray, text: str) -> None:
    form = find_form(a, b, 1e-5)
    assert form is not None and form.text(a.shape) == text
    turned = form.of(a)
    assert turned.dtype == b.dtype and turned.shape == b.shape
    np.testing.assert_allclose(turned, b, atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (X, X + 1),
        (X, X[:1]),
        (X, X.transpose(0, 2, 3, 1)[::-1]),
        (np.int64([300]), np.uint8([44])),
        (np.int64([2**31]), np.int32([-(2**31)])),
        (np.float32([1]), np.int64([1])),
        (np.float32([np.nan, 1]), np.float32([[1, 1]])),
    ],
)
def test_other_numbers_have_no_form(a: np.ndarray, b: np.ndarray) -> None:
    assert find_form(a, b, 1e-5) is None


def test_a_transpose_that_differs_is_a_fault() -> None:
    text = """(float[2,3,4] x) => (float[2,K] y) <int64[2] two = {2, -1}> {
        t = Transpose<perm = [%s]>(x)  y = Reshape(t, two) }"""
    x = X[:, :, :, 0]
    a, b = (parsed(text % perm) for perm in ("0,1,2", "0,2,1"))
    found = pyopnb.diff(pyopnb.trace(a, x=x), pyopnb.trace(b, x=x))
    for diff in (found, pyopnb.first_divergence(a, b, {"x": x})):
        assert diff.origin is not None and diff.origin.name == "t (Transpose)", str(diff)
        assert "attr perm: [0, 1, 2] → [0, 2, 1]" in diff.origin.changes


def test_another_dtype_of_equal_values_is_said_and_no_fault() -> None:
    text = "(float[N] x) => (int64[1] y) { i = ArgMax<axis = 0, keepdims = 1>(x)  y = %s }"
    x = np.float32([1, 3, 2])
    run = pyopnb.trace(parsed(text % "Identity(i)"), x=x)
    arrays = {"x": x.astype(np.float16), "i": np.int32([1]), "y": np.int32([1])}
    for found in (pyopnb.diff(run, arrays), pyopnb.diff(arrays, run)):
        assert found.ok and found.origin is None, str(found)
        assert [tensor.form != "" for tensor in found.tensors] == [True, True]
        assert "i = i (equal as int" in str(found)
    wrong = {**arrays, "i": np.int32([2]), "y": np.int32([2])}
    found = pyopnb.diff(run, wrong)
    assert not found.ok and found.origin.name == "i (ArgMax)"


def test_each_model_gets_its_own_feeds() -> None:
    one, other = nchw(), nhwc(name="x")
    assert pyopnb.first_divergence(one, other, ({"x": X}, {"x": NHWC})).ok
    assert pyopnb.first_divergence(nchw(), nhwc(), {"x": X, "images": NHWC}).ok


@pytest.mark.parametrize("name", ["x", "images"])
def test_a_hint_for_feeds_works_as_typed(name: str) -> None:
    one, other = nchw(), nhwc(name=name)
    with pytest.raises(
        pyopnb.errors.InputError, match=f"input {name} of b: expected float"
    ) as info:
        pyopnb.first_divergence(one, other, {"x": X})
    typed: Any = eval(info.value.next, {"np": np, "x": X})
    assert pyopnb.first_divergence(one, other, typed).ok


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (({"x": X},), "expected one mapping for both models, or two, got 1"),
        (({"x": X}, 3), "expected a dict with names as keys, got int 3"),
        (X, "expected a dict with names as keys, got an array of float32"),
        ({"x": X, "images": NHWC, "z": X}, "Try: leave z out"),
        (({"x": X}, {"x": X}), "expected images: float32.N,4,5,3., got x"),
        (X, "expected a dict with names as keys, got an array"),
    ],
)
def test_feeds_that_are_refused(feeds: Any, message: str) -> None:
    with pytest.raises(pyopnb.errors.InputError, match=message):
        pyopnb.first_divergence(nchw(), nhwc(), feeds)


def test_outputs_of_other_names_in_another_order_are_paired_by_their_values() -> None:
    text = "(float[N,2] x) => (float[N,2] %s, float[N,2] %s) <float[2,2] v = {1,2,3,4}, float[2,2] w = {%s,1,3,2}> {"
    rest = " %s  p = MatMul(r, v)  q = MatMul(r, w) }"
    a = parsed(text % ("p", "q", 4) + rest % "r = Relu(x)")
    x = X[0, :, :2, 0]
    for memory in (1, None):
        for wrong in (False, True):
            other = (
                text % ("u", "t", 5 if wrong else 4) + rest % "n = Neg(x)  m = Neg(n)  r = Relu(m)"
            )
            b = parsed(other.replace("p =", "t =").replace("q =", "u ="))
            found = pyopnb.first_divergence(a, b, {"x": x}, memory=memory)
            assert found.ok == (not wrong), str(found)
            names = [step.outputs[0].b for step in found.origins]
            assert names == (["u"] if wrong else [])

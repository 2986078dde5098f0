"""``float32[N,3]``: read and written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyopnb import NotationError, TensorType, tensor_type
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.types import ANY, type_of

symbols = st.from_regex(r"[A-Za-z_][\w.:/-]{0,10}", fullmatch=True)
dims = st.one_of(st.none(), st.integers(0, 2**63 - 1), symbols)
shapes = st.one_of(st.none(), st.lists(dims, max_size=5).map(tuple))
types = st.builds(TensorType, st.one_of(st.none(), st.sampled_from(DTYPES)), shapes)


@given(types)
def test_what_is_written_is_read_again(type_):
    assert tensor_type(str(type_)) == type_
    assert tensor_type(type_) is type_
    assert hash(tensor_type(str(type_))) == hash(type_)


@given(st.text(max_size=30))
def test_any_text_is_a_type_or_a_clear_error(text):
    try:
        read = tensor_type(text)
    except NotationError as error:
        said = str(error)
    else:
        said = str(read)
        assert tensor_type(said) == read
    assert said.replace("\n", "").isprintable()


@given(types, shapes, st.sampled_from(DTYPES))
def test_like(type_, shape, element):
    other = type_.like(dtype=element, shape=shape)
    assert other.dtype is element
    assert other.shape == (type_.shape if shape is None else shape)
    assert type_.like() == type_


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" double[ batch , 3 ]", "float64[batch,3]"),
        ("int4", "int4[...]"),
        ("int4[...]", "int4[...]"),
        ("int4[ ... ]", "int4[...]"),
        ("string[]", "string[]"),
        ("string[ ]", "string[]"),
        ("any[?,3]", "any[?,3]"),
        ("any", "any[...]"),
        ("FLOAT[0]", "float32[0]"),
        (f"int8[{2**63 - 1}]", f"int8[{2**63 - 1}]"),
    ],
)
def test_forms(text, written):
    assert str(tensor_type(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "type: expected float32"),
        ("float32[", r"type: expected .*, got 'float32\['"),
        ("float32]3[", "type: expected"),
        ("float32[2][3]", "type: expected"),
        ("float 32", "type: expected"),
        ("[3]", "type: expected"),
        (None, "got None"),
        (3, "got 3"),
        (np.float32, "numpy.float32"),
        ("float33[N]", "dtype float33: expected one of bool, int8"),
        ("float32[-1]", r"type float32\[-1\]: expected a size from 0 to 2\*\*63 - 1, a symbol or \?, got -1"),
        ("float32[1.5]", "got 1.5"),
        ("float32[N,]", "got nothing"),
        ("float32[,]", "got nothing"),
        ("float32[...,3]", r"got \.\.\."),
        ("float32[N+1]", r"got N\+1"),
        (f"float32[{2**63}]", f"got {2**63}"),
        (f"float32[{'9' * 5000}]", "5000 characters"),
        ("float32[٣]", "got ٣"),
    ],
)
def test_bad_notation(text, message):
    with pytest.raises(NotationError, match=message):
        tensor_type(text)


@pytest.mark.parametrize("shape", [(-1,), (1.5,), (2**63,), ([],)])
def test_like_refuses_what_is_no_size(shape):
    with pytest.raises(NotationError, match=r"type any\[\.\.\.\]: expected a size"):
        ANY.like(shape=shape)


def test_like_takes_numpy_sizes():
    (size,) = ANY.like(shape=(np.int64(3),)).shape
    assert type(size) is int


def test_rank():
    assert [tensor_type(t).rank for t in ("int8", "int8[]", "int8[?,2]")] == [None, 0, 2]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (np.zeros((2, 0), np.int8), "int8[2,0]"),
        (np.float32(1), "float32[]"),
        (1.5, "float64[]"),
        ([[True]], "bool[1,1]"),
        (["a", "b"], "string[2]"),
        (np.array(["a", "b"], object), "string[2]"),
    ],
)
def test_type_of(value, written):
    assert str(type_of(value)) == written

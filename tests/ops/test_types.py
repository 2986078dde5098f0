"""``float32[N,3]``: read and written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyopnb import TensorType
from pyopnb.engine.ops.dtypes import DTYPES
from pyopnb.engine.ops.types import ANY, tensor_type, type_of
from pyopnb.errors import InputError

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
    except InputError as error:
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


@pytest.mark.parametrize("element", ["float64", "DOUBLE", np.float64, np.dtype("f8"), 11])
def test_a_type_is_made_of_what_names_a_dtype_and_of_a_list(element):
    made = TensorType(element, ["N", np.int64(3), None])
    assert (
        made == tensor_type("float64[N,3,?]")
        and str(made) == "float64[N,3,?]"
        and type(made.shape[1]) is int
    )


def arrays_of(type_, sizes):
    """A type with all known: symbols by a table, the unknown dimensions and dtype filled in."""
    shape = (
        ()
        if type_.shape is None
        else tuple(sizes[d] if isinstance(d, str) else 5 if d is None else d for d in type_.shape)
    )
    return TensorType(type_.dtype or DTYPES[0], shape)


@given(types, st.integers(0, 7))
def test_a_type_accepts_its_arrays(type_, start):
    sizes = {
        dim: start + n
        for n, dim in enumerate(sorted({d for d in type_.shape or () if isinstance(d, str)}))
    }
    array, bound = arrays_of(type_, sizes), {}
    assert type_.accepts(array)
    assert type_.accepts_shape(array.shape, bound)
    assert bound == sizes
    assert type_.accepts(type_)
    assert ANY.accepts(type_)
    assert type_.accepts(ANY)
    assert type_.accepts(type_.without_sizes())
    assert type_.without_sizes().accepts(array)


@given(types.filter(lambda t: t.shape), st.data())
def test_a_type_refuses_what_differs(type_, data):
    array = arrays_of(type_, dict.fromkeys([d for d in type_.shape if isinstance(d, str)], 2))
    other = data.draw(st.sampled_from([row for row in DTYPES if row != type_.dtype]))
    assert TensorType(other, array.shape).dtype is other
    assert type_.accepts(TensorType(other, array.shape)) == (type_.dtype is None)
    assert not type_.accepts(TensorType(array.dtype, (*array.shape, 1)))
    place = data.draw(st.integers(0, len(array.shape) - 1))
    changed = (*array.shape[:place], array.shape[place] + 1, *array.shape[place + 1 :])
    assert type_.accepts_shape(changed) == (not isinstance(type_.shape[place], int))
    repeated = isinstance(type_.shape[place], str) and type_.shape.count(type_.shape[place]) > 1
    assert type_.accepts_shape(changed, {}) == (
        not isinstance(type_.shape[place], int) and not repeated
    )


def test_one_size_a_symbol_over_several_types():
    sizes = {}
    assert tensor_type("float32[N,M]").accepts_shape((2, 3), sizes)
    assert not tensor_type("int8[M,M]").accepts_shape((3, 4), sizes)
    assert not tensor_type("int8[N]").accepts_shape((3,), sizes)
    assert sizes == {"N": 2, "M": 3}


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

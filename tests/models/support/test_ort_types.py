"""Types as the runtime writes them: to TypeProto and back, and to the notation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, TypeProto

from pyopnb.models.ort_capabilities import operators
from pyopnb.models.support.ort_types import join_types, kind_of, proto_of, tensor_kind, to_notation

elements = st.sampled_from([n for n in TensorProto.DataType.values() if n]).map(tensor_kind)
kinds = st.recursive(
    elements | elements.map(lambda kind: f"sparse_{kind}"),
    lambda inner: (
        st.builds("{}({})".format, st.sampled_from(["seq", "optional"]), inner)
        | inner.map("map(string,{})".format)
    ),
    max_leaves=4,
)


@given(kinds)
def test_there_and_back(kind):
    assert kind_of(proto_of(kind)) == kind


def test_every_type_that_the_runtime_lists():
    ports = [
        port for rows in operators().values() for row in rows for port in row.inputs + row.outputs
    ]
    known = {
        name.lower() for name, _ in TensorProto.DataType.items()
    }  # an old onnx lacks the newest dtypes of the runtime
    listed_kinds = {
        k
        for port in ports
        for k in port.takes
        if known.issuperset(re.findall(r"tensor\((\w+)\)", k))
    }
    assert len(listed_kinds) > 50
    assert {kind for kind in listed_kinds if kind_of(proto_of(kind)) != kind} == set()


@given(st.text())
def test_any_text_is_some_type_or_none(text):
    assert isinstance(proto_of(text), TypeProto)


def test_what_tells_no_type():
    assert kind_of(TypeProto()) is None
    assert tensor_kind(0) is None and tensor_kind(999) is None


def test_a_deep_type_costs_no_stack():
    assert kind_of(proto_of("seq(" * 3000 + "tensor(float)" + ")" * 3000)).count("seq(") == 3000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tensor(float)", "float32"),
        ("seq(tensor(double))", "seq(float64)"),
        ("map(int64,tensor(string))", "map(int64,string)"),
        ("sparse_tensor(float)", "sparse_tensor(float)"),
    ],
)
def test_the_notation(kind, text):
    assert to_notation(kind) == text


def test_lists_are_in_the_order_of_the_dtypes():
    assert (
        join_types(["tensor(float)", "seq(tensor(float))", "tensor(int8)"])
        == "int8, float32, seq(float32)"
    )

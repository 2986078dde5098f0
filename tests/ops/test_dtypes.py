"""Element types and their names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from pyopnb.errors import InputError
from pyopnb.ops.dtypes import DTYPES, dtype


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_every_way_to_name_a_row(row):
    for name in (
        row,
        row.name,
        row.name.upper(),
        f" {row.name} ",
        row.onnx,
        TensorProto.DataType.Name(row.onnx),
        row.numpy,
    ):
        assert dtype(name) is row
    assert dtype(row.numpy.type) is row
    assert str(row) == row.name


@pytest.mark.parametrize("row", DTYPES, ids=str)
def test_rows_agree_with_onnx(row):
    assert helper.tensor_dtype_to_np_dtype(row.onnx) == row.numpy


def test_rows_are_unique():
    for field in ("name", "onnx", "runtime", "numpy"):
        assert len({getattr(row, field) for row in DTYPES}) == len(DTYPES)


def test_every_type_of_a_tensor_has_a_row():
    rows = {row.onnx for row in DTYPES}
    missing = {
        TensorProto.DataType.Name(number)
        for number in TensorProto.DataType.values()
        if number not in rows
    }
    assert missing - {"FLOAT6E2M3", "FLOAT6E3M2"} == {
        "UNDEFINED"
    }  # ONNX Runtime has no element type for these two


NUMPY_2_STRINGS = [np.dtypes.StringDType] if hasattr(np.dtypes, "StringDType") else []


def test_bits():
    for row in DTYPES:
        if row.name != "string" and row.bits >= 8:
            assert row.numpy.itemsize * 8 == row.bits
    assert {row.bits for row in DTYPES if row.name in ("int4", "uint4", "float4_e2m1fn")} == {4}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (str, "string"),
        (object, "string"),
        (np.str_, "string"),
        (np.dtype("U7"), "string"),
        *((kind(), "string") for kind in NUMPY_2_STRINGS),
        (np.dtype(">f4"), "float32"),
        (np.longlong, "int64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        ("double", "float64"),
        ("FLOAT", "float32"),
    ],
)
def test_other_names(value, name):
    assert dtype(value).name == name


class Anything:
    """To np.dtype this is object."""


@pytest.mark.parametrize(
    "value",
    [
        "float33",
        "",
        "any",
        0,
        99,
        -1,
        True,
        None,
        1.0,
        dict,
        Anything,
        bytes,
        np.floating,
        np.dtype("S3"),
        np.dtype("M8[s]"),
    ],
)
def test_what_is_no_dtype(value):
    with pytest.raises(InputError, match=r"^dtype .*: expected one of bool, int8, .*, got \w+ "):
        dtype(value)

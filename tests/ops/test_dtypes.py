"""Element types and their names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from pyopnb.engine.ops.dtypes import DTYPES, dtype


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

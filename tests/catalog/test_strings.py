"""Operators of onnxruntime-extensions on strings and files of images, against that package."""

import io
import os

import numpy as np
import onnxruntime as ort
import onnxruntime_extensions
import pytest
from entry_calls import equal, near, run
from onnx import TensorProto, helper
from PIL import Image
from systems import needs_gray_images

# The import of onnxruntime_extensions gives later processes the protobuf in pure Python, which is
# slow and refuses names that are no UTF-8.
os.environ.pop("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", None)

IMAGES = "com.microsoft.extensions"
KINDS = {
    "U": TensorProto.STRING,
    "O": TensorProto.STRING,
    "i": TensorProto.INT64,
    "b": TensorProto.BOOL,
    "u": TensorProto.UINT8,
}


def by_extensions(op, inputs, results, attrs, domain="ai.onnx.contrib"):
    names = [f"i{number}" for number in range(len(inputs))]
    outputs = [f"o{number}" for number in range(len(results))]
    node = helper.make_node(op, names, outputs, domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "extensions",
        [
            helper.make_tensor_value_info(name, KINDS[array.dtype.kind], array.shape)
            for name, array in zip(names, inputs, strict=True)
        ],
        [
            helper.make_tensor_value_info(name, KINDS[array.dtype.kind], None)
            for name, array in zip(outputs, results, strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = ort.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, dict(zip(names, inputs, strict=True)))


def texts(*strings):
    return np.array(strings, dtype=object)


ROWS = "black\t0 1 2\nwhite\t2 3 4\n中文\t3 4 4"
CASES = [
    ("MaskedFill", [texts("a", "b", "c"), np.array([True, False, True])], {}),
    ("MaskedFill", [texts("a"), np.array([False])], {}),
    ("SegmentExtraction", [np.int64([0, 0, 1, 1, 2, 2, 0, 3])], {}),
    ("SegmentExtraction", [np.int64([[4, 4, 1]])], {}),
    ("SegmentExtraction", [np.int64([0])], {}),
    ("StringECMARegexReplace", [texts("abc abd", "xab"), texts("a(b)"), texts("[$1$&]")], {}),
    (
        "StringECMARegexReplace",
        [texts("abc abd", "xAb"), texts("a(b)"), texts("<$1>")],
        {"global_replace": 0, "ignore_case": 1},
    ),
    ("StringMapping", [texts("a", "z")], {"map": "a\tb\nc\td"}),
    ("StringToVector", [texts("black", "x", "中文")], {"map": ROWS, "unk": "-1 -1 -1"}),
    ("StringToVector", [np.array([["black", "x"]], object)], {"map": ROWS, "unk": "-1 -1 -1"}),
    ("StringToVector", [np.array("black", object)], {"map": ROWS, "unk": "-1 -1 -1"}),
    ("StringToVector", [np.array([], object)], {"map": ROWS, "unk": "-1 -1 -1"}),
    ("StringToVector", [texts("black", "x")], {"map": "black\t7", "unk": "-1"}),
    ("VectorToString", [np.int64([2, 9])], {"map": "a\t0 1\nb\t2 9", "unk": "unk"}),
    ("VectorToString", [np.array(2)], {"map": "a\t0\nb\t2", "unk": "unk"}),
    ("VectorToString", [np.zeros((0, 2), np.int64)], {"map": "a\t0 1", "unk": "unk"}),
    ("VectorToString", [np.int64([[2], [9]])], {"map": "a\t0\nb\t2\n", "unk": "unk"}),
    ("StringToVector", [texts("black", "")], {"map": "black\t7 8\n\n", "unk": "-1 -1"}),
    (
        "StringECMARegexReplace",
        [texts("abcd", "xbx"), texts("b(c)?"), texts("[$`|$'|$1|$7|$$1]")],
        {},
    ),
    (
        "StringECMARegexReplace",
        [texts("Éa", "xéx"), texts("é|(x)"), texts("\\\\$01")],
        {"ignore_case": 1},
    ),
    ("StringMapping", [np.array("a", object)], {"map": "a\tb\nc\td"}),
    ("StringMapping", [np.array([["a"], ["q"]], object)], {"map": "a\tb\nc\td"}),
    ("MaskedFill", [np.array([], object), np.array([], bool)], {}),
    ("MaskedFill", [texts("a", "b"), np.array([False, False])], {}),
    ("SegmentExtraction", [np.int64([])], {}),
    ("SegmentExtraction", [np.int64([0, 0])], {}),
    ("SegmentExtraction", [np.int64([3, 3, 3])], {}),
    ("StringECMARegexReplace", [np.array("abc", object), texts("b"), texts("$&$&")], {}),
    ("StringECMARegexReplace", [texts("a.b$", "é"), texts("."), texts("$$")], {}),
    ("StringECMARegexReplace", [texts("abc"), texts("(x)?b"), texts("<$1>")], {}),
    ("StringECMARegexReplace", [texts("aab", "b"), texts("a*"), texts("-")], {}),
    ("StringRegexSplitWithOffsets", [np.array([], object), texts("(,)"), texts("(,)")], {}),
    ("StringRegexSplitWithOffsets", [texts(",,a,"), texts("(,)"), texts("( )")], {}),
    ("StringRegexSplitWithOffsets", [texts("a,b"), texts("(,)"), texts("")], {}),
    ("VectorToString", [np.int64([0, 2, 9])], {"map": "a\t0\nb\t2", "unk": "unk"}),
    ("VectorToString", [np.int64([[0, 1], [2, 9]])], {"map": "a\t0 1\nb\t2 3", "unk": "unk"}),
    ("StringRegexSplitWithOffsets", [texts("a b, c", "d"), texts(r"(\s|,)"), texts("(,)")], {}),
    ("StringRegexSplitWithOffsets", [texts("é,bé", ""), texts("(,)"), texts("(,)")], {}),
    ("StringRegexSplitWithOffsets", [texts("a b"), texts(" "), texts(" ")], {}),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    CASES,
    ids=[f"{case[0]}{number}" for number, case in enumerate(CASES)],
)
def test_strings_are_those_of_the_extensions(op, inputs, attrs):
    results = run(f"ai.onnx.contrib::{op}", *inputs, **attrs)
    results = results if isinstance(results, tuple) else (results,)
    expected = by_extensions(op, inputs, results, attrs)
    for result, array in zip(results, expected, strict=True):
        assert result.shape == array.shape
        equal(result, array)


@pytest.mark.parametrize(
    ("mode", "format", "error"),
    [
        ("RGB", "PNG", 0),
        pytest.param("L", "PNG", 0, marks=needs_gray_images),
        ("RGB", "JPEG", 6),
    ],
)
def test_files_of_images_are_those_of_the_extensions(mode, format, error):
    rows, columns = np.mgrid[:24, :32]
    pixels = np.stack([columns * 7, rows * 9, (rows + columns) * 4], -1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, format)
    data = np.frombuffer(file.getvalue(), np.uint8)
    decoded = run(f"{IMAGES}::DecodeImage", data)
    theirs = by_extensions("DecodeImage", [data], [decoded], {}, IMAGES)
    near(decoded, theirs[0], 0, error)
    encoded = run(f"{IMAGES}::EncodeImage", decoded, format="png")
    equal(by_extensions("DecodeImage", [encoded], [decoded], {}, IMAGES)[0], decoded)

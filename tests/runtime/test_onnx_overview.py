"""What ONNX's Python API overview shows, example by example, runs in a session: models as they come out of each of its functions.

https://onnx.ai/onnx/repo-docs/PythonAPIOverview.html, whose headings the sections here have.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.compose
import onnx.inliner
import pytest
from onnx import (
    ModelProto,
    TensorProto,
    helper,
    numpy_helper,
    parser,
    shape_inference,
    version_converter,
)
from onnx.external_data_helper import convert_model_to_external_data, load_external_data_for_model
from onnx.tools import update_model_dims

import pyopnb

pytestmark = pytest.mark.filterwarnings("ignore::pyopnb.errors.VersionsLowered")

F = np.float32
X = np.arange(6, dtype=F).reshape(3, 2)


def scaled() -> ModelProto:
    """A model with a weight, in the versions that onnx writes by itself."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 2]) for name in "xy")
    weight = numpy_helper.from_array(F([[2, 3]]), "w")
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"])], "scaled", [x], [y], [weight]
        )
    )


def gives(model: object, **more: object) -> bool:
    return bool(np.array_equal(pyopnb.Session(model, **more)(x=X)["y"], X * F([[2, 3]])))


# ---- Loading and saving, with and without external data ----------------------------------------------------------------------


def test_load_and_save(tmp_path) -> None:
    onnx.save(scaled(), tmp_path / "m.onnx")
    assert gives(onnx.load(tmp_path / "m.onnx"))
    assert gives(tmp_path / "m.onnx")


def test_converting_and_saving_with_external_data(tmp_path) -> None:
    options = {
        "all_tensors_to_one_file": True,
        "location": "weights",
        "size_threshold": 0,
        "convert_attribute": False,
    }
    onnx.save_model(scaled(), tmp_path / "m.onnx", save_as_external_data=True, **options)
    assert gives(tmp_path / "m.onnx")
    assert gives(onnx.load(tmp_path / "m.onnx"))


def test_converting_to_external_data_and_loading_it_from_another_folder(tmp_path) -> None:
    model, data = scaled(), tmp_path / "data"
    data.mkdir()
    convert_model_to_external_data(
        model, all_tensors_to_one_file=True, location="weights", size_threshold=0
    )
    onnx.save(model, data / "m.onnx")
    (data / "m.onnx").rename(tmp_path / "m.onnx")
    apart = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert gives(apart, base_dir=data)
    load_external_data_for_model(apart, str(data))
    assert gives(apart)


# ---- Manipulating TensorProto and NumPy array --------------------------------------------------------------------------------


def test_arrays_as_tensors_and_back(tmp_path) -> None:
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(X).SerializeToString())
    tensor = TensorProto.FromString((tmp_path / "x.pb").read_bytes())
    assert (
        pyopnb.run(scaled(), x=numpy_helper.to_array(tensor))["y"].tolist()
        == (X * F([[2, 3]])).tolist()
    )


def test_the_conversion_utilities_tell_the_dtype_of_a_feed() -> None:
    for number in (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.BOOL,
    ):
        x, y = (helper.make_tensor_value_info(name, number, ["N"]) for name in "xy")
        model = helper.make_model(
            helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
        )
        result = pyopnb.run(model, x=np.zeros(2, helper.tensor_dtype_to_np_dtype(number)))["y"]
        assert helper.np_dtype_to_tensor_dtype(result.dtype) == number


# ---- Creating a model by helper functions ------------------------------------------------------------------------------------


def pad(pads: int, shape: list[int], names: list[str], **attrs: object) -> ModelProto:
    """The example of Pad, by what differs between the editions of the overview."""
    kinds = {
        "X": (TensorProto.FLOAT, [3, 2]),
        "pads": (pads, shape),
        "value": (TensorProto.FLOAT, []),
    }
    inputs = [helper.make_tensor_value_info(name, *kinds[name]) for name in names]
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [3, 4])
    node = helper.make_node("Pad", names, ["Y"], mode="constant", **attrs)
    return helper.make_model(
        helper.make_graph([node], "test-model", inputs, [y]), producer_name="onnx-example"
    )


def test_a_model_by_helpers() -> None:
    model = pad(TensorProto.INT64, [4], ["X", "pads", "value"])
    onnx.checker.check_model(model, full_check=True)
    padded = pyopnb.Session(model)(X=X, pads=np.int64([0, 1, 0, 1]), value=F(9))["Y"]
    np.testing.assert_array_equal(padded, np.pad(X, ((0, 0), (1, 1)), constant_values=9))


def test_what_the_overview_prints_of_pad_is_no_model_and_it_is_said_why() -> None:
    """One edition declares ``pads`` as float, another gives ``value`` as an attr: onnx's checker refuses both."""
    of_floats = pad(TensorProto.FLOAT, [1, 4], ["X", "pads", "value"])
    with pytest.raises(shape_inference.InferenceError):
        onnx.checker.check_model(of_floats, full_check=True)
    with pytest.raises(pyopnb.errors.ModelError, match=r"input pads: expected int64, got float32"):
        pyopnb.Session(of_floats)
    with_attr = pad(TensorProto.INT64, [4], ["X", "pads"], value=0.0)
    with pytest.raises(
        onnx.checker.ValidationError, match="Unrecognized attribute: value for operator Pad"
    ):
        onnx.checker.check_model(with_attr)
    with pytest.raises(
        pyopnb.errors.ModelError, match="attr value: expected one of mode, got value"
    ):
        pyopnb.Session(with_attr)


# ---- Checking, shape inference, type inference of a function -----------------------------------------------------------------


def test_shape_inference() -> None:
    nodes = [helper.make_node("Transpose", [a], [b], perm=[1, 0, 2]) for a, b in ("XY", "YZ")]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3, 4)) for name in "XZ")
    model = helper.make_model(
        helper.make_graph(nodes, "two-transposes", [x], [z]), producer_name="onnx-examples"
    )
    onnx.checker.check_model(model)
    x = np.arange(24, dtype=F).reshape(2, 3, 4)
    for each in (model, shape_inference.infer_shapes(model)):
        assert pyopnb.run(each, X=x)["Z"].tolist() == x.tolist()
        assert pyopnb.trace(each, X=x)["Y"].shape == (3, 2, 4)


def test_shape_inference_and_checks_of_paths(tmp_path) -> None:
    path, inferred = str(tmp_path / "m.onnx"), str(tmp_path / "inferred.onnx")
    onnx.save(scaled(), path)
    onnx.checker.check_model(path)
    shape_inference.infer_shapes_path(path, inferred)
    assert gives(inferred)


def test_a_function() -> None:
    text = '<opset_import: ["" : 18], domain: "local"> CastTo <dtype> (x) => (y) { y = Cast <to : int = @dtype> (x) }'
    function = parser.parse_function(text)
    given, to = helper.make_tensor_type_proto(1, None), helper.make_attribute("dtype", 6)
    (kind,) = shape_inference.infer_function_output_types(function, [given], [to])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", kind.tensor_type.elem_type, [2])
    graph = helper.make_graph(
        [helper.make_node("CastTo", ["x"], ["y"], domain="local", dtype=6)], "g", [x], [y]
    )
    imports = [
        helper.make_opsetid("", onnx.defs.onnx_opset_version()),
        helper.make_opsetid("local", 1),
    ]
    model = helper.make_model(graph, functions=[function], opset_imports=imports)
    for each in (
        model,
        onnx.inliner.inline_local_functions(model),
    ):  # of the section on the inliner
        assert pyopnb.run(each, x=F([1.5, -2]))["y"].tolist() == [1, -2]


# ---- Converting the version --------------------------------------------------------------------------------------------------


def test_converting_the_version() -> None:
    model = scaled()
    model.opset_import[0].version = 13
    assert gives(version_converter.convert_version(model, onnx.defs.onnx_opset_version()))


# ---- Utility functions and tools ---------------------------------------------------------------------------------------------

SUM_AND_DIFFERENCE = (
    "agraph (float[N] A, float[N] B) => (float[N] C, float[N] D) { C = Add(A, B) D = Sub(A, B) }"
)
PRODUCT = "agraph (float[N] X, float[N] Y) => (float[N] Z) { Z = Mul(X, Y) }"


def of_text(text: str) -> ModelProto:
    return helper.make_model(parser.parse_graph(text))


def test_extracting(tmp_path) -> None:
    onnx.save(of_text(SUM_AND_DIFFERENCE), tmp_path / "m.onnx")
    onnx.utils.extract_model(tmp_path / "m.onnx", tmp_path / "part.onnx", ["A", "B"], ["D"])
    assert {
        name: value.tolist()
        for name, value in pyopnb.run(tmp_path / "part.onnx", F([3]), F([2])).items()
    } == {"D": [1]}


@pytest.mark.parametrize(
    ("io_map", "outputs", "expected"),
    [
        ([("C", "X"), ("D", "Y")], None, {"Z": [5]}),
        ([("C", "X"), ("C", "Y")], None, {"D": [1], "Z": [25]}),
        ([("C", "X"), ("C", "Y")], ["Z"], {"Z": [25]}),
    ],
)
def test_merging(io_map, outputs, expected) -> None:
    merged = onnx.compose.merge_models(
        of_text(SUM_AND_DIFFERENCE), of_text(PRODUCT), io_map=io_map, outputs=outputs
    )
    results = pyopnb.run(merged, A=F([3]), B=F([2]))
    assert {name: value.tolist() for name, value in results.items()} == expected


def test_a_prefix() -> None:
    model = of_text(PRODUCT)
    renamed = onnx.compose.add_prefix(model, prefix="m1/")
    assert pyopnb.run(renamed, {"m1/X": F([3]), "m1/Y": F([2])})["m1/Z"].tolist() == [6]
    onnx.compose.add_prefix(model, prefix="m1/", inplace=True)
    assert pyopnb.run(model, {"m1/X": F([3]), "m1/Y": F([2])})["m1/Z"].tolist() == [6]


def test_a_dimension_more() -> None:
    model = of_text(PRODUCT)
    expanded = onnx.compose.expand_out_dim(model, dim_idx=0)
    assert pyopnb.run(expanded, F([3]), F([2]))[0].tolist() == [[6]]
    onnx.compose.expand_out_dim(model, dim_idx=0, inplace=True)
    assert pyopnb.run(model, F([3]), F([2]))[0].tolist() == [[6]]


def test_dimensions_of_variable_length() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3, 4]) for name in "xy")
    model = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    )
    shape = ["seq", "batch", 3, -1]
    changed = update_model_dims.update_inputs_outputs_dims(model, {"x": shape}, {"y": shape})
    assert pyopnb.run(changed, x=np.ones((5, 1, 3, 7), F))["y"].shape == (5, 1, 3, 7)


# ---- Parser ------------------------------------------------------------------------------------------------------------------

LAYER = """agraph (float[N, 128] X, float[128, 10] W, float[10] B) => (float[N, 10] C)
           { T = MatMul(X, W) S = Add(T, B) C = Softmax(S) }"""


def test_texts() -> None:
    model = parser.parse_model(f'<ir_version: 7, opset_import: ["" : 10]> {LAYER}')
    feeds = {"X": np.ones((2, 128), F), "W": np.zeros((128, 10), F), "B": np.zeros(10, F)}
    for each in (model, of_text(LAYER)):
        np.testing.assert_allclose(pyopnb.run(each, feeds)["C"], np.full((2, 10), 0.1), rtol=1e-6)

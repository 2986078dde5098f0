"""The page on other tools, as far as the torch lane has them: its table, its code, and the things that do not work."""

import how_to
import numpy as np
import onnx
import onnx_ir
import onnxscript
import pytest
from onnxscript import FLOAT, script
from onnxscript import opset18 as op

import pyopnb

PAGE = "other_frameworks"
HERE = ["onnxscript", "onnxscript in eager mode", "onnx-ir", "spox"]
ELSEWHERE = ["jax2onnx", "tf2onnx"]  # tests/corpus/frameworks
BEHIND = ["A class of the ONNX reference implementation"]  # which is in no row of the table
CLIPPED = 2 * np.tanh(np.abs(np.float32([[-4, -1, 2, 3]])) / 2)


def test_every_row_of_the_table_is_tried_or_has_its_page():
    linked = [
        cells[2] if cells[0] in ("torch", "scikit-learn") else cells[0]
        for cells in how_to.rows(PAGE)
    ]
    anchors = [f"(#{heading.replace(' ', '-')})" for heading in HERE + ELSEWHERE]
    ends = [text[text.index("(") :] for text in linked]
    assert ends == [*anchors, "(torch.md)", "(scikit_learn.md)"]
    code = how_to.blocks(PAGE)
    assert list(code) == ["", *HERE, *ELSEWHERE, *BEHIND] and all(code.values())


def test_the_page_runs(tmp_path):
    names = how_to.run(PAGE, ["", *HERE, *BEHIND], tmp_path)
    for result, sign in (
        (names["result"][0], 1),
        (names["at_once"], 1),
        (names["from_ir"][0], 1),
        (names["from_spox"]["y"], -1),
    ):
        np.testing.assert_allclose(result, sign * CLIPPED, rtol=1e-6)
    assert [node.op_type for node in names["clipped"].to_model_proto().graph.node] == [
        "Abs",
        "SoftClip",
    ]


def test_a_function_of_onnxscript_is_a_model_wherever_one_goes_in(tmp_path):
    clipped = how_to.run(PAGE, ["", "onnxscript"], tmp_path)["clipped"]
    assert "SoftClip" in repr(pyopnb.show(clipped))
    assert pyopnb.parse(pyopnb.text(clipped)).graph.node[1].op_type == "SoftClip"
    assert pyopnb.diff(clipped, clipped.to_model_proto()).ok
    assert len(pyopnb.missing(clipped)) == 0
    assert (
        "SoftClip"
        in pyopnb.trace(clipped, x=np.ones((1, 4), np.float32)).model.graph.node[1].op_type
    )


@script(default_opset=op)
def with_attribute(x: FLOAT["N", 4], alpha: float) -> FLOAT["N", 4]:
    return op.Elu(x, alpha=alpha)


def test_what_onnxscript_makes_no_model_of(tmp_path):
    with pytest.raises(ValueError, match="required attributes cannot be exported as a model"):
        pyopnb.Session(with_attribute)
    clipped = how_to.run(PAGE, ["", "onnxscript"], tmp_path)["clipped"]
    with pytest.raises(
        Exception, match="Unable to create onnxruntime InferenceSession for executing demo.SoftClip"
    ):
        clipped(np.ones((1, 4), np.float32))


def test_external_data_of_an_ir_model_is_found(tmp_path):
    x, w = np.ones((1, 512), np.float32), np.arange(512, dtype=np.float32)
    added = pyopnb.model(
        [pyopnb.node("Add", "x w", "y")], {"x": "float32[N,512]"}, "y", initializers={"w": w}
    )
    onnx.save(
        added,
        tmp_path / "added.onnx",
        save_as_external_data=True,
        size_threshold=16,
        location="w.bin",
    )
    model = onnx_ir.load(tmp_path / "added.onnx")
    np.testing.assert_array_equal(pyopnb.Session(model)(x=x)["y"], x + w)
    assert pyopnb.diff(model, tmp_path / "added.onnx").ok
    with pytest.raises(
        pyopnb.errors.ModelError, match="expected a ModelProto, bytes or a path, got Graph"
    ):
        pyopnb.Session(model.graph)


def test_an_op_gets_its_types_from_onnxs_inference_in_onnxscript(tmp_path):
    clipped = how_to.run(PAGE, ["", "onnxscript"], tmp_path)["clipped"]
    inferred = onnx.shape_inference.infer_shapes(clipped.to_model_proto(), strict_mode=True)
    assert inferred.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 4
    assert (
        onnxscript.values.Opset("demo", 1)["SoftClip"].op_schema.attributes["limit"].default_value.f
        == 1
    )

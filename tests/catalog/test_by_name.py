"""Operators of the catalog are used by the names that they have in model files."""

import numpy as np
import onnx
import onnxruntime
import pytest
from entry_calls import equal, near
from test_fill import detector, feeds

import pyopnb
from pyopnb.__main__ import main
from pyopnb.catalog.index import entries


def test_call_check_lower_and_reference_take_them_by_name():
    fed = feeds()
    inputs = fed["boxes"], fed["scores"]
    expected = pyopnb.reference("TRT::EfficientNMS_TRT", *inputs, max_output_boxes=3)
    results = pyopnb.call("TRT::EfficientNMS_TRT", *inputs, max_output_boxes=3)
    for result, array in zip(results, expected, strict=True):
        equal(result, array)
    function = pyopnb.lower("TRT::EfficientNMS_TRT", *inputs, max_output_boxes=3)
    assert function.name == "EfficientNMS_TRT"
    checks = pyopnb.check("com.microsoft::BiasSplitGelu", np.ones((2, 4), "f"), np.ones(4, "f"))
    assert "pyopnb.catalog.com.microsoft::BiasSplitGelu" in str(checks)


def test_a_call_by_name_leaves_sessions_as_they_are():
    x = np.ones((1, 2, 2), np.float32)
    pyopnb.call("com.microsoft::BiasAdd", x, x[0, 0], x)
    assert pyopnb.registry.find("com.microsoft", "BiasAdd") is None


def test_an_op_of_the_users_goes_before():
    class BiasAdd:
        def compute(self, x, bias, skip):
            return -x

    pyopnb.registry.define(BiasAdd, "com.microsoft::BiasAdd")
    x = np.ones((1, 2, 2), np.float32)
    assert pyopnb.call("com.microsoft::BiasAdd", x, x[0, 0], x).tolist() == (-x).tolist()


def test_a_name_that_nobody_has_is_refused_as_before():
    with pytest.raises(pyopnb.errors.UnknownName):
        pyopnb.call("TRT::Nobody", np.ones(2, "f"))
    with pytest.raises(pyopnb.errors.UnknownName):
        pyopnb.check("TRT::Nobody", np.ones(2, "f"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TRT::EfficientNMS_TRT", r"does not take 1 input\. Try: pyopnb\.catalog"),
        ("ai.onnx.contrib::SentencepieceTokenizer", "Try: pip install onnxruntime-extensions"),
    ],
)
def test_a_call_that_the_catalog_cannot_run_says_why(name, said):
    with pytest.raises(pyopnb.errors.UnknownName, match=said):
        pyopnb.call(name, np.ones(2, "f"))


IMAGE, BOXES, ONES = np.ones((1, 4, 5, 5), "f"), np.ones((3, 4), "f"), np.ones(4, "f")
GRID, KERNEL = np.ones((1, 2, 2, 2), "f"), np.ones((2, 4, 3, 3), "f")


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "said"),
    [
        ("mmdeploy::grid_sampler", [IMAGE, GRID], {"padding_mode": 3}, "0, 1, 2, got int 3"),
        ("org.pytorch.aten::grid_sampler", [IMAGE, GRID, *np.int64([7, 0, 0])], {}, "got .7"),
        (
            "mmcv::MMCVRoiAlign",
            [IMAGE, np.ones((1, 5), "f")],
            {"output_height": 2, "output_width": 2, "mode": "sum"},
            "'avg', 'max'",
        ),
        ("mmcv::MMCVCornerPool", [IMAGE], {"mode": 4}, "one of 0, 1, 2, 3"),
        ("mmcv::SoftNonMaxSuppression", [BOXES, ONES[:3]], {"method": 3}, "one of 0, 1, 2"),
        ("TRT::EfficientNMS_TRT", [BOXES[None], BOXES[None]], {"box_coding": 2}, "one of 0, 1"),
        (
            "com.microsoft::GroupNorm",
            [IMAGE, ONES, ONES],
            {"groups": 2, "activation": 2},
            "one of 0, 1",
        ),
        (
            "com.microsoft::GroupNorm",
            [IMAGE[..., :4], ONES, ONES],
            {"groups": 3, "activation": 0},
            "3 groups",
        ),
        ("::ImageScaler", [IMAGE], {"bias": [1.0]}, "expected 4 numbers, got 1"),
        (
            "::GRUUnit",
            [IMAGE[0, :1], IMAGE[0, :1], np.int32([1] * 5), np.int32([0])],
            {},
            "expected 15",
        ),
        (
            "org.pytorch._caffe2::CollectRpnProposals",
            [BOXES, ONES],
            {},
            "expected 10 inputs, got 2",
        ),
        (
            "::CropAndResizeDynamic",
            [IMAGE, IMAGE[0, :1, None]],
            {"crop_width": 2, "crop_height": 2},
            "rois: expected",
        ),
        ("com.microsoft::NhwcConv", [IMAGE, KERNEL], {"auto_pad": "SAME"}, "'SAME_UPPER'"),
        ("mmcv::MMCVDeformConv2d", [IMAGE, IMAGE, KERNEL], {}, "18 channels, got 4"),
        (
            "org.pytorch.aten::embedding_bag",
            [BOXES, np.int64([0]), np.int64([0]), None, np.int64(3)],
            {},
            "0, 1 or 2, got 3",
        ),
        (
            "org.pytorch.aten::embedding_bag",
            [BOXES, np.int64([0]), np.int64([1])],
            {},
            "expected 0 first",
        ),
    ],
)
def test_a_value_that_no_definition_has_is_refused(name, inputs, attrs, said):
    """It would mean one of the known values, and give wrong numbers."""
    with pytest.raises((ValueError, pyopnb.errors.ModelError), match=said):
        pyopnb.call(name, *inputs, **attrs)


def test_the_catalog_is_a_table_that_can_be_searched(shell):
    assert len(pyopnb.catalog().rows) >= len(entries())
    (row,) = pyopnb.catalog("rotated TRTBatched").rows
    assert row[:2] == ("TRTBatchedRotatedNMS", "mmdeploy")
    assert not pyopnb.catalog("no such operator").rows
    # Operators that cannot run are listed with an advice.
    assert "cannot run" in str(pyopnb.catalog("SentencepieceTokenizer"))
    display = shell.display_formatter.format(pyopnb.catalog)[0]
    assert "EfficientNMS_TRT" in display["text/plain"] and "<table" in display["text/html"]
    listed = shell.run_line_magic("pyop", "catalog deformable attention")
    assert {row[0] for row in listed.rows} >= {"MultiscaleDeformableAttnPlugin_TRT"}


def test_an_output_without_a_type_is_filled():
    """The torch exporter declares none for the output of an operator that it does not know."""
    size = onnx.numpy_helper.from_array(np.int64([4, 4]), "size")
    node = onnx.helper.make_node(
        "adaptive_avg_pool2d", ["x", "size"], ["y"], domain="org.pytorch.aten"
    )
    inputs = [onnx.helper.make_tensor_value_info("x", 1, [1, 2, 8, 8])]
    outputs = [onnx.helper.make_empty_tensor_value_info("y")]
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("org.pytorch.aten", 1)]
    graph = onnx.helper.make_graph([node], "pool", inputs, outputs, [size])
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.warns(pyopnb.errors.Filled, match="1 Python node"):
        session = pyopnb.Session(model, fill=True)
    assert session(x=np.ones((1, 2, 8, 8), np.float32))["y"].shape == (1, 2, 4, 4)


def test_missing_guesses_names_only_where_they_are_near():
    def reason(op_type, domain=""):
        node = onnx.helper.make_node(op_type, ["x"], ["y"], domain=domain)
        infos = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
        graph = onnx.helper.make_graph([node], "g", infos[:1], infos[1:])
        opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid(domain, 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets[: 1 + bool(domain)])
        return pyopnb.missing(model)[0].reason

    assert "nearest: ::GridSample" in reason("GridSampler")
    assert "nearest" not in reason("ATen")
    assert "nearest" not in reason("AdamWOptimizer", "com.microsoft")


def test_the_command_line_lists_fills_and_lowers(tmp_path, capsys):
    assert main(["catalog", "EfficientNMS_TRT"]) == 0
    assert "ai.onnx" in capsys.readouterr().out
    model, plain, arrays = (str(tmp_path / name) for name in ("m.onnx", "plain.onnx", "x.npz"))
    onnx.save(detector(plugin_version="1"), model)
    np.savez(arrays, **feeds())
    assert main(["fill", model, "-o", plain]) == 0
    expected = pyopnb.Session(plain)(feeds())
    assert main(["fill", model, "--lower", "--feeds", arrays, "-o", plain]) == 0
    assert "by the catalog" in capsys.readouterr().err
    pyopnb.registry.clear()
    results = onnxruntime.InferenceSession(plain).run(None, feeds())
    for array, result in zip(expected.values(), results, strict=True):
        near(result, array, 1e-6)


def test_the_command_line_writes_nothing_that_would_not_run(tmp_path, capsys):
    node = pyopnb.node("acme::Swoosh", "x", "y")
    model = pyopnb.model(node, {"x": "float32[2]"}, {"y": "float32[2]"})
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["fill", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "filled.onnx")]) == 1
    assert "acme::Swoosh" in capsys.readouterr().err
    assert not (tmp_path / "filled.onnx").exists()

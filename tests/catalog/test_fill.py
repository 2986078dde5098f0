"""Models with operators that no runtime serves run with fill=True, by the catalog."""

import warnings

import numpy as np
import onnx
import pytest
from entry_calls import equal, near
from onnx import TensorProto, helper

import pyopnb


def detector(domain="TRT", **attrs):
    """The end of a YOLO file, as its exporter writes it: a plugin's attrs and no shapes of outputs."""
    attrs = {"score_threshold": 0.25, "iou_threshold": 0.45, "max_output_boxes": 5} | attrs
    outputs = ["num_dets", "det_boxes", "det_scores", "det_classes"]
    node = helper.make_node(
        "EfficientNMS_TRT", ["boxes", "scores"], outputs, domain=domain, name="nms", **attrs
    )
    inputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 8, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 8, 2]),
    ]
    dtypes = [TensorProto.INT32, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32]
    results = [
        helper.make_tensor_value_info(name, dtype, None)
        for name, dtype in zip(outputs, dtypes, strict=True)
    ]
    graph = helper.make_graph([node], "yolo", inputs, results)
    opsets = [helper.make_opsetid("", 13)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def filled_session(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = pyopnb.Session(model, fill=True)
    return session, [str(warning.message) for warning in caught]


def feeds():
    random = np.random.default_rng(0)
    corner = random.uniform(0, 20, (1, 8, 2))
    boxes = np.concatenate([corner, corner + 10], -1).astype(np.float32)
    return {"boxes": boxes, "scores": random.uniform(0, 1, (1, 8, 2)).astype(np.float32)}


@pytest.mark.parametrize("domain", ["TRT", "", "trt.plugins"])
def test_a_detector_for_tensorrt_runs_in_whichever_domain_its_exporter_wrote(domain):
    model = detector(domain, plugin_version="1", background_class=-1, score_activation=0)
    if domain != "":
        with pytest.raises(pyopnb.PyopError, match="fill=True, which runs it by pyopnb's catalog"):
            pyopnb.Session(model)
    session, warned = filled_session(model)
    assert any("1 Python node, run by the catalog" in text and "'nms'" in text for text in warned)
    results = session(**feeds())
    count = int(results["num_dets"][0, 0])
    assert 0 < count <= 5 and results["det_classes"].dtype == np.int32
    best = feeds()["scores"].max()
    assert results["det_scores"][0, 0] == best
    assert (np.diff(results["det_scores"][0, :count]) <= 0).all()


def test_missing_says_what_the_catalog_has():
    nodes = [
        pyopnb.node("acme::Swoosh", "x", "a"),
        pyopnb.node("com.microsoft::BiasAdd", ["a", "b", "x"], "y"),
    ]
    inputs = {"x": "float32[2,3,4]", "b": "float32[4]"}
    rows = pyopnb.missing(pyopnb.model(nodes, inputs, {"y": "float32[2,3,4]"}))
    assert [row.is_in_catalog for row in rows] == [False, True]
    table = str(rows)
    assert "catalog" in table.splitlines()[0]
    (of_catalog,) = [line for line in table.splitlines() if "has it" in line]
    assert "BiasAdd" in of_catalog


def test_an_op_of_the_users_goes_before_the_catalog():
    class EfficientNMS_TRT:
        def __init__(self, score_threshold: float, iou_threshold: float, max_output_boxes: int):
            self.most = max_output_boxes

        def compute(self, boxes, scores) -> ("int32[B,1]", "any[...]", "any[...]", "int32[...]"):
            rows = np.zeros((1, self.most, 4), np.float32)
            return np.int32([[42]]), rows, rows[..., 0], rows[..., 0].astype(np.int32)

    pyopnb.registry.define(EfficientNMS_TRT, "TRT::EfficientNMS_TRT")
    session, warned = filled_session(detector())
    assert not warned
    assert session(**feeds())["num_dets"].tolist() == [[42]]


@pytest.mark.parametrize(
    ("attrs", "inputs", "said"),
    [
        ({"nms_top_k": 7}, 2, r"takes score_threshold, .*, not nms_top_k"),
        ({}, 1, r"EfficientNMS_TRT does not take 1 input"),
    ],
)
def test_a_namesake_with_other_attrs_or_inputs_is_refused(attrs, inputs, said):
    model = detector(**attrs)
    del model.graph.node[0].input[inputs:]
    with pytest.warns(pyopnb.errors.Filled, match=said):
        pyopnb.fill(model)
    assert not pyopnb.missing(model)[0].is_in_catalog
    # Without fill=True, there is no advice that would not help.
    with pytest.raises(pyopnb.PyopError, match=rf"skeleton\(model, .*{said}"):
        pyopnb.Session(model)


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("domain", ["", "org.pytorch.aten"])
def test_a_bag_of_embeddings_runs_as_dlrm_has_it(domain, outputs):
    """The torch exporter writes three inputs, attributes with aten names, and four outputs; optimizers drop some."""
    text = """<ir_version: 6, opset_import: ["": 11, "org.pytorch.aten": 1]>
        g (int64[N] i, int64[B] o) => (float[B,3] z) <float[4,3] w = {0,1,2, 3,4,5, 6,7,8, 9,10,11}> {
            y, a, b, c = org.pytorch.aten.ATen<operator = "embedding_bag", mode = 0, sparse = 0>(w, i, o)
            z = Relu(y)
        }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[0].domain = domain
    del model.graph.node[0].output[outputs:]
    indices = {"i": np.int64([3, 1, 1]), "o": np.int64([0, 1])}
    session, warned = filled_session(model)
    assert any("by the catalog" in line for line in warned)
    assert session(**indices)["z"].tolist() == [[9, 10, 11], [6, 8, 10]]
    with pytest.warns(pyopnb.errors.Filled):
        plain = pyopnb.lower(pyopnb.fill(model), indices, strict=True)
    pyopnb.registry.clear()
    assert pyopnb.Session(plain)(**indices)["z"].tolist() == [[9, 10, 11], [6, 8, 10]]


def test_a_filled_file_loads_in_a_process_that_knows_nothing_of_it(tmp_path):
    with pytest.warns(pyopnb.errors.Filled):
        filled = pyopnb.fill(detector(plugin_version="1"))
    expected = pyopnb.Session(filled)(**feeds())
    onnx.save(filled, tmp_path / "filled.onnx")
    pyopnb.registry.clear()
    session, warned = filled_session(tmp_path / "filled.onnx")
    assert not warned
    for name, array in session(**feeds()).items():
        equal(array, expected[name])


@pytest.mark.parametrize("domain", ["TRT", ""])
def test_the_source_opens_as_a_cell_that_serves_from_then_on(domain, shell):
    model = detector(domain, plugin_version="1")
    filled, _ = filled_session(model)
    cell = pyopnb.skeleton(model, "nms")
    assert "class EfficientNMS_TRT" in cell and "NAMES" not in cell
    shell.run_cell(
        cell.replace("kept = suppress(", "kept = suppress(\n            # Edited.")
    ).raise_error()
    edited, warned = filled_session(model)
    assert not any("catalog" in text for text in warned)
    for name, array in edited(**feeds()).items():
        equal(array, filled(**feeds())[name])


def test_the_cell_of_a_second_name_serves_nodes_of_that_name(shell):
    node = pyopnb.node("TRT::BatchedNMS_TRT", ["b", "s"], ["n", "x", "y", "z"], topK=5, keepTopK=3)
    inputs = {"b": "float32[1,4,1,4]", "s": "float32[1,4,2]"}
    outputs = {"n": "int32[1,1]", "x": "float32[1,3,4]", "y": "float32[1,3]", "z": "float32[1,3]"}
    model = pyopnb.model(node, inputs, outputs)
    shell.run_cell(pyopnb.skeleton(model, "BatchedNMS_TRT")).raise_error()
    results = pyopnb.Session(model)(
        b=np.ones((1, 4, 1, 4), np.float32), s=np.full((1, 4, 2), 0.5, np.float32)
    )
    assert results["n"].tolist() == [[3]]


def test_kernels_of_the_runtime_are_left_alone():
    """com.microsoft::Gelu has a kernel, and the catalog has a namesake of nothing that runs."""
    model = pyopnb.model(
        [
            pyopnb.node("com.microsoft::Gelu", "x", "y"),
            pyopnb.node("com.microsoft::BiasAdd", ["y", "b", "x"], "z"),
        ],
        {"x": "float32[2,3,4]", "b": "float32[4]"},
        {"z": "float32[2,3,4]"},
    )
    with pytest.warns(pyopnb.errors.Filled, match="1 Python node, run by the catalog"):
        filled = pyopnb.fill(model)
    assert [node.domain for node in filled.graph.node] == [
        "com.microsoft",
        "pyopnb.catalog.com.microsoft",
    ]
    x, b = np.ones((2, 3, 4), np.float32), np.arange(4, dtype=np.float32)
    expected = pyopnb.call("com.microsoft::Gelu", x) + b + x
    near(pyopnb.Session(filled)(x=x, b=b)["z"], expected, 1e-6)


def test_import_pyopnb_imports_no_entry():
    import subprocess
    import sys

    code = "import sys, pyopnb; print([n for n in sys.modules if n.startswith('pyopnb.catalog')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr

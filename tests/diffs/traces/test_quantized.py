"""A float model against the quantized one that was made from it, in every form that onnxruntime writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import qdq_loss_debug
from quantizing import (
    FORMS,
    STATIC,
    Samples,
    float_model,
    in_four_bits,
    model_of,
    quantized,
    sample,
    scaled,
)
from transformer import transformer

import pyopnb
from pyopnb import diff, trace

ABSORBED = {"QDQ": {"c0", "s"}, "QOperator": {"c0", "s"}, "dynamic": set(), "4 bits": set()}


def two_traces(form: str, folder: Path, **options: Any) -> tuple[Any, Any]:
    model, x = float_model(form), sample(form, 9)
    return trace(model, x=x), trace(quantized(model, form, folder, **options), x=x)


@pytest.mark.parametrize("form", FORMS)
def test_every_float_tensor_has_its_counterpart(form: str, tmp_path: Path) -> None:
    a, b = two_traces(form, tmp_path)
    found = diff(a, b)
    names = {name for node in a.model.graph.node for name in node.output} - ABSORBED[form]
    rows = {row.tensor: row for row in found.quantization}
    assert names <= rows.keys() and found.only_a == ()
    matrices = {name for name in a.initializers if name.startswith("w")}
    assert {row.tensor for row in found.quantization if row.weight} >= matrices
    # A wrong pair has nothing in common: its noise is as large as the signal.
    assert all(row.sqnr > 15 for row in found.quantization)
    assert found.verdict == "different" and str(found.quantization[0]) in str(found)
    assert type(found).from_json(found.to_json()) == found
    assert "by its scale" in pyopnb.show(found)._repr_html_()


def test_runs_in_the_wrong_order_or_of_other_models_are_not_compared(tmp_path: Path) -> None:
    a, b = two_traces("QDQ", tmp_path)
    with pytest.raises(
        pyopnb.errors.InputError, match=r"the float model's run first.*diff\(b, a\)"
    ):
        diff(b, a)
    stranger = pyopnb.parse("(float[N,4] x) => (float[N,4] y) { y = Neg(x) }")
    found = diff(trace(stranger, x=np.ones((2, 4), np.float32)), b)
    assert found.quantization == () and "dB" not in str(found)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_an_absorbed_activation_is_no_difference(
    form: str, per_channel: bool, tmp_path: Path
) -> None:
    found = diff(*two_traces(form, tmp_path, per_channel=per_channel))
    for name in ("r0", "r1"):
        (tensor,) = (tensor for tensor in found.tensors if tensor.a == name)
        largest = tensor.diff.worst.facts.largest
        assert largest < 0.3, (name, largest)  # the numbers below 0 are up to 4 away


@pytest.mark.parametrize("form", STATIC)
@pytest.mark.parametrize("name", ["r0", "c1", "g", "p"])
def test_a_bad_scale_is_the_first_row(form: str, name: str, tmp_path: Path) -> None:
    a, b = two_traces(form, tmp_path)
    # Operators on quantized tensors name it after the Conv, and their biases count in it.
    scale = "c0_scale" if (form, name) == ("QOperator", "r0") else f"{name}_scale"
    model = scaled(b.model, scale, 1 / 16)
    rows = diff(a, trace(model, x=sample(form, 9))).quantization
    assert rows[0].tensor in ({"g", "f"} if name == "g" else {name})  # Flatten has g's scale
    assert rows[0].saturated > 0.3 and rows[0].alone < 15 < rows[3].alone
    low, high = rows[0].scale_range
    assert high - low < rows[0].range[1] - rows[0].range[0]


@pytest.mark.parametrize(("form", "name"), [("QDQ", "b1"), ("QOperator", "w1"), ("dynamic", "w1")])
def test_a_weight_with_the_levels_of_another_scale_is_the_first_row(
    form: str, name: str, tmp_path: Path
) -> None:
    model, x = float_model(form), sample(form, 9)
    ending = "_quantized_scale" if name == "b1" else "_scale"
    # A larger scale could hold the weight nearly as exactly.
    bad = scaled(quantized(model, form, tmp_path), f"{name}{ending}", 1.2)
    rows = diff(trace(model, x=x), trace(bad, x=x)).quantization
    assert rows[0].tensor == name and rows[0].weight and rows[0].alone < 15


@pytest.mark.parametrize(("form", "name"), [("QDQ", "r0"), ("QOperator", "c0")])
def test_an_activation_that_the_scale_does_not_absorb_is_the_first_row(
    form: str, name: str, tmp_path: Path
) -> None:
    """As the quantizer of onnxruntime leaves out a Relu after a Reshape of a Gemm."""
    a, b = two_traces(form, tmp_path)
    bad = scaled(b.model, f"{name}_scale", 2)
    for tensor in bad.graph.initializer:
        # Numbers below 0, which were cut off, are kept.
        if tensor.name == f"{name}_zero_point":
            middle = np.array(128 if tensor.data_type == onnx.TensorProto.UINT8 else 0)
            array = middle.astype(numpy_helper.to_array(tensor).dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    rows = diff(a, trace(bad, x=sample(form, 9))).quantization
    assert rows[0].tensor == "r0" and rows[0].alone < 5 and rows[0].saturated == 0


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_figures_are_those_of_onnxruntime(per_channel: bool, tmp_path: Path) -> None:
    model, x = float_model("QDQ"), sample("QDQ", 9)
    other = quantized(model, "QDQ", tmp_path, per_channel=per_channel)
    found = diff(trace(model, x=x, optimized=False), trace(other, x=x, optimized=False))
    rows = {row.tensor: row.sqnr for row in found.quantization}
    activations = []
    for name in ("float", "quantized"):
        path, exposed = tmp_path / f"{name}.onnx", tmp_path / f"{name} exposed.onnx"
        qdq_loss_debug.modify_model_output_intermediate_tensors(path, exposed)
        activations.append(qdq_loss_debug.collect_activations(str(exposed), Samples(x)))
    matching = qdq_loss_debug.create_activation_matching(activations[1], activations[0])
    errors = qdq_loss_debug.compute_activation_error(matching)
    assert len(errors) >= 9
    for name, error in errors.items():
        assert rows[name] == pytest.approx(error["xmodel_err"], rel=1e-6)
    weights = qdq_loss_debug.create_weight_matching(
        str(tmp_path / "float.onnx"), str(tmp_path / "quantized.onnx")
    )
    # Its difference of an int8 and another zero point than 0 overflows, which
    # spoils its figure of b2.
    weights.pop("b2", None)
    for name, error in qdq_loss_debug.compute_weight_error(weights).items():
        # A bias of 32 bits has noise that float32 hardly holds, and is
        # dequantized there in float64.
        assert rows[name] == pytest.approx(error, rel=1e-6 if name.startswith("w") else 1e-5)


def test_bits_and_ranges_are_those_of_the_scale(tmp_path: Path) -> None:
    a, b = two_traces("QDQ", tmp_path)
    (row,) = (row for row in diff(a, b).quantization if row.tensor == "x")
    scale = b.initializers["x_scale"]
    zero = b.initializers["x_zero_point"].astype(float)
    expected = (-128 - zero) * scale, (127 - zero) * scale
    assert row.scale_range == pytest.approx(expected) and row.range == (a["x"].min(), a["x"].max())
    assert row.bits == np.log2(np.unique(b["x_QuantizeLinear_Output"]).size)
    # The same sample was not seen in calibration: what is beyond its range is cut off.
    outside = (a["x"] < expected[0] - scale / 2) | (a["x"] > expected[1] + scale / 2)
    assert row.saturated == pytest.approx(outside.mean())


def test_scales_may_be_constant_nodes(tmp_path: Path) -> None:
    a, b = two_traces("QDQ", tmp_path)
    model = onnx.ModelProto.FromString(b.model.SerializeToString())
    scales = [x for x in model.graph.initializer if x.name.endswith(("_scale", "_zero_point"))]
    for tensor in scales:
        model.graph.initializer.remove(tensor)
        node = onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        model.graph.node.insert(0, node)
    found = diff(a, trace(model, x=sample("QDQ", 9)))
    assert found.quantization == diff(a, b).quantization


@pytest.mark.parametrize("form", FORMS)
def test_every_tensor_of_a_transformer_has_its_counterpart(form: str, tmp_path: Path) -> None:
    model = transformer(blocks=2)
    x = np.random.default_rng(0).normal(size=(1, 8, 32)).astype(np.float32)
    a = trace(model, x=x)
    b = trace(quantized(model, form, tmp_path, samples=[x]), x=x)
    found = diff(a, b)
    names = {name for node in model.graph.node for name in node.output}
    matrices = {name for name, array in a.initializers.items() if array.ndim == 2}
    rows = {row.tensor: row for row in found.quantization}
    assert names | matrices <= rows.keys() and found.only_a == ()
    # A name that is the same in both models pairs nothing wrong; the figures come from ONNX Runtime.
    for name in names:
        counterpart = rows[name].b
        endings = ("", "_quantized", "_DequantizeLinear_Output")
        assert counterpart.startswith(name) and counterpart.removeprefix(name) in endings
        if counterpart == name and not np.array_equal(a[name], b[name]):
            expected = ratio_of_onnxruntime(a[name], b[name])
            assert rows[name].sqnr == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("form", ["QDQ", "QOperator", "dynamic"])
@pytest.mark.parametrize("layout", ["", "<transB = 1>"])
def test_weights_of_a_gemm_are_compared_channel_by_channel(
    form: str, layout: str, tmp_path: Path
) -> None:
    shape = (48, 48)  # square, where a scale along the wrong axis would fit as well
    text = f"""<ir_version: 9, opset_import: ["": 17]> linear (float[N,48] x) => (float[N,48] y) {{
        g = Gemm{layout}(x, w, b)
        h = Gemm{layout}(g, v, c)
        y = Sigmoid(h)
    }}"""
    # Two weights: onnxruntime 1.25 turns one that two nodes share twice, so
    # that its model is wrong.
    model = model_of(text, {"w": shape, "v": shape, "b": (48,), "c": (48,)})
    channels = np.geomspace(1, 100, 48, dtype=np.float32)
    weight = numpy_helper.to_array(model.graph.initializer[0]) / np.float32(20)
    weight = (weight * channels).T if layout else weight * channels
    for tensor in model.graph.initializer[:2]:
        tensor.CopyFrom(numpy_helper.from_array(weight.astype(np.float32), tensor.name))
    other = quantized(model, form, tmp_path, per_channel=True, samples=[sample("dynamic")])
    x = sample("dynamic", 9)
    rows = {row.tensor: row for row in diff(trace(model, x=x), trace(other, x=x)).quantization}
    biases = set() if form == "dynamic" else {"b", "c"}
    assert {name for name, row in rows.items() if row.weight} == {"w", "v"} | biases
    for row in (rows["w"], rows["v"]):
        assert row.sqnr == pytest.approx(row.alone, abs=0.01) and row.sqnr > 40
    assert all(rows[name].sqnr > 30 for name in biases)
    found = pyopnb.sensitivity(model, other, {"x": x})
    assert all({"w", "v"} & {*node.tensors} for node in found.nodes if node.op == "Gemm")
    # The weight that quantize_dynamic turned around had this name in onnxruntime 1.25.
    for tensor in other.graph.initializer:
        tensor.name = tensor.name.replace("_Transposed", "")
    for node in other.graph.node:
        node.input[:] = [name.replace("_Transposed", "") for name in node.input]
    older = diff(trace(model, x=x), trace(other, x=x)).quantization
    assert {row.tensor: row.sqnr for row in older} == {k: row.sqnr for k, row in rows.items()}


def ratio_of_onnxruntime(values: np.ndarray, quantized: np.ndarray) -> float:
    return qdq_loss_debug.compute_signal_to_quantization_noice_ratio(values, quantized)


@pytest.mark.parametrize("block", [16, 32])
def test_a_packed_weight_is_what_the_kernel_multiplies_by(block: int) -> None:
    model = float_model("4 bits")
    a, b = (trace(m, x=sample("4 bits")) for m in (model, in_four_bits(model, block)))
    rows = {row.tensor: row for row in diff(a, b).quantization}
    four = in_four_bits(model, block)
    for node in [node for node in four.graph.node if node.op_type == "MatMulNBits"]:
        weight = node.input[1].removesuffix("_Q4")
        matrix = a.initializers[weight]
        one = onnx.ModelProto.FromString(four.SerializeToString())
        del one.graph.node[:], one.graph.input[:], one.graph.output[:]
        one.graph.node.append(node)
        for infos, name in ((one.graph.input, node.input[0]), (one.graph.output, node.output[0])):
            infos.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        multiplied = pyopnb.run(one, np.eye(len(matrix), dtype=np.float32))[0]
        expected = ratio_of_onnxruntime(matrix, multiplied)
        assert rows[weight].sqnr == pytest.approx(expected, rel=1e-5) and rows[weight].bits <= 4


def test_weights_of_four_bits_in_a_qdq_model() -> None:
    """As MatMulNBitsQuantizer writes them with QuantFormat.QDQ."""
    model = float_model("4 bits")
    other = onnx.ModelProto.FromString(model.SerializeToString())
    other.ir_version, other.opset_import[0].version = 10, 21
    weight = numpy_helper.to_array(model.graph.initializer[0])
    blocks = np.abs(weight).reshape(-1, 16, weight.shape[1]).max(1) / 7
    scale = np.repeat(blocks, 16, 0)
    levels = np.rint(weight / scale).astype(ml_dtypes.int4)
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(levels, "w0_DQ_Q4"))
    other.graph.initializer.append(numpy_helper.from_array(blocks, "w0_DQ_scales"))
    names = ["w0_DQ_Q4", "w0_DQ_scales"], ["w0_DQ_Q4_output"]
    node = onnx.helper.make_node("DequantizeLinear", *names, axis=0, block_size=16)
    other.graph.node[0].input[1] = "w0_DQ_Q4_output"
    other.graph.node.insert(0, node)
    found = diff(trace(model, x=sample("4 bits")), trace(other, x=sample("4 bits")))
    (row,) = (row for row in found.quantization if row.weight)
    numbers = levels.astype(np.float32) * scale
    assert row.tensor == "w0" and row.sqnr == pytest.approx(
        ratio_of_onnxruntime(weight, numbers), rel=1e-6
    )


def test_the_rounding_of_a_node_is_not_that_of_its_exact_weight() -> None:
    levels = np.random.default_rng(0).integers(0, 16, (16, 64)).astype(np.uint8)
    scale = np.full((16, 2), 0.5, np.float32)
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
        g (float[N,64] x) => (float[N,16] y) {
            y = com.microsoft.MatMulNBits<K=64, N=16, bits=4, block_size=32, accuracy_level=4>(x, B, s)
        }"""
    packed = onnx.parser.parse_model(text)
    blocks = (levels[:, 0::2] | levels[:, 1::2] << 4).reshape(16, 2, 16)
    packed.graph.initializer.append(numpy_helper.from_array(blocks, "B"))
    packed.graph.initializer.append(numpy_helper.from_array(scale, "s"))
    weight = (levels.astype(np.float32) - 8).T * 0.5
    nodes = [pyopnb.node("MatMul", "x w", "y")]
    wide = pyopnb.model(
        nodes, {"x": "float32[N,64]"}, {"y": "float32[N,16]"}, initializers={"w": weight}
    )
    x = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    x[:, 7] *= 300
    found = diff(trace(wide, x=x), trace(packed, x=x))
    first, last = found.quantization
    assert first.tensor == "y" and "int8: accuracy_level=4" in str(first)
    assert last.weight and last.sqnr == np.inf
    assert "kernels that round" in str(pyopnb.sensitivity(wide, packed, {"x": x}))

"""Operators that the onnx reference computes wrongly, against ONNX Runtime kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from node_tests import WRITTEN_FOR
from onnx import helper

import pyopnb

RNG = np.random.default_rng(0)
INT8_LOWEST = -128


def F(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def kernel(
    op: str, *inputs: np.ndarray | None, opset: int, outputs: int = 1, **attrs: Any
) -> list[np.ndarray]:
    """Run one node in ONNX Runtime."""
    inputs = tuple(value if value is None else np.asarray(value) for value in inputs)
    names = ["" if value is None else f"x{place}" for place, value in enumerate(inputs)]
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if name}
    results = [f"y{place}" for place in range(outputs)]
    infos = []
    for name, value in feeds.items():
        type_ = helper.np_dtype_to_tensor_dtype(value.dtype)
        infos.append(helper.make_tensor_value_info(name, type_, value.shape))
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attrs)],
        "one",
        infos,
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)


def agree(op: str, *inputs: np.ndarray | None, opset: int, outputs: int = 1, **attrs: Any) -> None:
    expected = kernel(op, *inputs, opset=opset, outputs=outputs, **attrs)
    found = pyopnb.reference(op, *inputs, opset=opset, outputs=outputs, **attrs)
    for one, other in zip(found if outputs > 1 else [found], expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if one.dtype.kind in "biuOU":
            assert np.array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


LAYERS = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {
    "LSTM": ["HardSigmoid", "Relu", "Softsign"],
    "GRU": ["HardSigmoid", "LeakyRelu"],
    "RNN": ["Relu"],
}


@pytest.mark.parametrize("op", LAYERS)
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"clip": 0.3},
        {"activations": True},
        {"activations": True, "activation_alpha": [0.3, 0.2], "activation_beta": [0.6]},
        {"input_forget": 1},
        {"linear_before_reset": 1},
    ],
    ids=str,
)
def test_recurrent_layers(op: str, attrs: dict[str, Any]) -> None:
    if not onnx.defs.get_schema(op, 14).attributes.keys() >= attrs.keys():
        return
    is_old = onnxruntime.__version__ != WRITTEN_FOR[1]
    if op == "RNN" and ("activation_beta" in attrs or is_old):
        # The kernel of RNN reads beyond numbers that its activations do not take; the kernel of
        # onnxruntime 1.25 takes no length 0 either.
        return
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        values = dict(attrs)
        if "activations" in attrs:
            values["activations"] = ACTIVATIONS[op] * count
        gates, states = LAYERS[op] * 5, [F(count, 3, 5)]
        if op == "LSTM":
            states += [F(count, 3, 5), F(count, 15)]
        layer = [F(4, 3, 2), F(count, gates, 2), F(count, gates, 5), F(count, 2 * gates)]
        # The last state of an empty sequence is 0 only in newer kernels of RNN.
        for lengths in (None, np.int32([4, int(op == "RNN"), 2])):
            agree(
                op,
                *layer,
                lengths,
                *states,
                opset=14,
                outputs=3 if op == "LSTM" else 2,
                hidden_size=5,
                direction=direction,
                **values,
            )


@pytest.mark.parametrize("op", LAYERS)
def test_a_recurrent_layer_with_the_batch_first(op: str) -> None:
    gates = LAYERS[op] * 5
    layer = F(2, gates, 2), F(2, gates, 5)
    x, states = F(4, 3, 2), [F(2, 3, 5) for _ in range(2 if op == "LSTM" else 1)]
    attrs: dict[str, Any] = {"direction": "bidirectional", "hidden_size": 5, "opset": 14}
    attrs["outputs"] = len(states) + 1
    outputs, *last = pyopnb.reference(op, x, *layer, None, None, *states, **attrs)
    turned = [state.swapaxes(0, 1) for state in states]
    found, *found_last = pyopnb.reference(
        op, x.swapaxes(0, 1), *layer, None, None, *turned, layout=1, **attrs
    )
    assert np.array_equal(found, outputs.transpose(2, 0, 1, 3))
    for one, other in zip(found_last, last, strict=True):
        assert np.array_equal(one, other.swapaxes(0, 1))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_transposed_convolutions(axes: int, group: int) -> None:
    x, weight = F(2, 4, 5, 4, 3)[:, :, *[slice(None)] * axes, *[0] * (3 - axes)], (4, 3)
    kernels = F(*weight, *[3] * axes)
    for attrs in (
        {},
        {"strides": [3] + [2] * (axes - 1), "output_padding": [1] * axes},
        {"pads": [1] + [0] * (2 * axes - 1), "dilations": [2] * axes},
        {"strides": [2] * axes, "auto_pad": "SAME_UPPER"},
        {"strides": [2] * axes, "auto_pad": "SAME_LOWER"},
        {"strides": [2] * axes, "output_shape": [2 * size for size in x.shape[2:]]},
        {"strides": [3] * axes, "output_shape": [3 * size + 2 for size in x.shape[2:]]},
    ):
        agree("ConvTranspose", x, kernels, F(3 * group), opset=11, group=group, **attrs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [2, 1]},
        {"pads": [1, 0, 0, 1], "strides": [2, 2]},
        {"pads": [1, 1, 1, 1], "strides": [3, 2], "ceil_mode": 1},
        {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "VALID"},
        {"dilations": [2, 1], "pads": [1, 1, 0, 0]},
    ],
    ids=str,
)
def test_poolings(attrs: dict[str, Any]) -> None:
    x = F(2, 3, 7, 8)
    for order in (0, 1):
        shape = {"kernel_shape": [3, 2], "storage_order": order}
        agree("MaxPool", x, opset=12, outputs=2, **shape, **attrs)
    for count in (0, 1):
        shape = {"kernel_shape": [3, 2], "count_include_pad": count}
        agree("AveragePool", x, opset=19, **shape, **attrs)
    agree("LpPool", x, opset=18, kernel_shape=[3, 2], p=3, **attrs)


def test_maxima_of_the_lowest_numbers_and_of_nan() -> None:
    lowest = np.full((1, 1, 2), INT8_LOWEST, np.int8)
    found = pyopnb.reference("MaxPool", lowest, opset=12, outputs=2, kernel_shape=[2], pads=[1, 1])
    assert found[0].tolist() == [[[-128] * 3]] and found[1].tolist() == [[[0, 0, 1]]]
    values, places = pyopnb.reference(
        "MaxPool", np.float32([[[1, np.nan, 3]]]), outputs=2, kernel_shape=[2]
    )
    assert np.isnan(values).all() and places.tolist() == [[[1, 1]]]


def test_a_correction_inside_a_body_that_the_reference_runs() -> None:
    x = F(1, 2, 2)
    node = helper.make_node("Softmax", ["x"], ["y"])
    body = pyopnb.model(node, {"x": "float32[1,2,2]"}, {"y": "float32[1,2,2]"}, opset=11)
    found = pyopnb.reference(
        "If",
        np.array(True),
        then_branch=_constant(body, x),
        else_branch=_constant(body, x),
        opset=11,
        outputs=1,
    )
    assert np.allclose(found, pyopnb.reference("Softmax", x, opset=11))
    assert not np.allclose(found, pyopnb.reference("Softmax", x, opset=13))


def _constant(body: onnx.ModelProto, x: np.ndarray) -> onnx.ModelProto:
    """Turn the input of a model into a constant."""
    copy = onnx.ModelProto()
    copy.CopyFrom(body)
    del copy.graph.input[:]
    copy.graph.initializer.append(onnx.numpy_helper.from_array(x, "x"))
    return copy


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1.0, 1.0, 2.0, 3.0], [1, 1, 0.5, 0.7], [1, 1, 1.7, 0.12]])
def test_resize(mode: str, scales: list[float]) -> None:
    x, factors = F(1, 1, 6, 9), np.float32(scales)
    for way in (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "asymmetric",
    ):
        attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": way}
        agree("Resize", x, None, factors, opset=19, **attrs)
        if mode != "nearest":
            agree("Resize", x, None, factors, opset=18, antialias=1, **attrs)
        else:
            for rounding in ("round_prefer_ceil", "floor", "ceil"):
                agree("Resize", x, None, factors, opset=13, nearest_mode=rounding, **attrs)
    agree(
        "Resize",
        *(x, np.float32([0.1, -0.2, 0.8, 1.1]), factors[2:]),
        opset=18,
        mode=mode,
        axes=[2, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    )
    ends = np.int64([1, 1, 4, 11])
    way = "align_corners"
    agree("Resize", x, None, None, ends, opset=13, mode=mode, coordinate_transformation_mode=way)
    for policy in ("stretch", "not_larger", "not_smaller"):
        attrs = {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        agree("Resize", x, None, None, np.int64([3, 11]), opset=18, **attrs)
    none = np.float32([])
    way = "tf_half_pixel_for_nn"
    agree("Resize", x, none, factors, opset=11, mode=mode, coordinate_transformation_mode=way)
    cubic = {"cubic_coeff_a": -0.5, "exclude_outside": 1}
    agree("Resize", x, none, factors, opset=13, mode=mode, **(cubic if mode == "cubic" else {}))
    if mode != "cubic":
        agree("Resize", x, factors, opset=10, mode=mode)
    if mode != "cubic" and min(scales) >= 1:
        agree("Upsample", x, factors, opset=9, mode=mode)
        agree("Upsample", x, opset=7, mode=mode, scales=scales)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_grid_sample_before_20(mode: str) -> None:
    grid = RNG.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)
    for padding in ("zeros", "border", "reflection"):
        agree("GridSample", F(2, 2, 5, 6), grid, opset=16, mode=mode, padding_mode=padding)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_before_16_are_not_shifted(mode: str) -> None:
    regions = np.float32([[0, 0, 4, 5], [1, 2, 9, 7], [-2, -3, 3, 3], [8, 8, 20, 30]])
    attrs = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": 2}
    agree("RoiAlign", F(2, 3, 10, 12), regions, np.int64([0, 1, 0, 1]), opset=10, **attrs)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_quantization(op: str, opset: int) -> None:
    x = RNG.integers(-120, 120, (3, 4, 5)).astype(np.int8)
    if op == "QuantizeLinear":
        x = F(3, 4, 5) * 100
        # Numbers beyond int32 are limited too.
        x[0, 0] = [1e10, -1e10, 2.5, np.inf, -0.5]
    agree(op, x, np.float32(0.5), np.int8(3), opset=opset)
    if opset > 10:
        for axis in (0, 1, -1):
            count = x.shape[axis]
            agree(op, x, np.abs(F(count)), np.arange(count, dtype=np.int8), opset=opset, axis=axis)
    if opset > 20:
        agree(op, x, np.abs(F(3, 4, 3)), opset=opset, axis=2, block_size=2, **_int8(op))
    if op == "DequantizeLinear":
        agree(op, x, np.float32(0.5), opset=opset)
        agree(op, np.int32([2**31 - 1, -7]), np.float32(0.5), opset=opset)


def _int8(op: str) -> dict[str, Any]:
    """Without a zero point, an attr says the dtype."""
    return {"output_dtype": onnx.TensorProto.INT8} if op == "QuantizeLinear" else {}


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_that_cuts(mode: str) -> None:
    pads = np.int64([-1, 2, 1, -1])
    agree("Pad", F(4, 5), pads, opset=19, mode=mode)
    agree("Pad", F(3, 4, 5), pads, None, np.int64([1, -1]), opset=19, mode=mode)
    if mode == "constant":
        agree("Pad", F(4, 5), opset=2, pads=pads.tolist(), value=2.5)
        agree("Pad", F(4, 5) > 0, pads, np.array(True), opset=13)
        agree("Pad", F(0, 5), np.int64([1, 1, 0, 0]), np.float32(3), opset=13)


def test_tensors_of_one_element_where_scalars_are_wanted() -> None:
    for count in (np.array(3), np.array([3])):
        for values in (
            np.float32([0, 1]),
            np.float32([np.inf, 1]),
            np.array(["no", "yes"], object),
        ):
            agree("OneHot", np.int64([0, 2, -1, 3]), count, values, opset=11)
    for axis in (np.array(1), np.array([-1])):
        for attrs in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
            agree("CumSum", F(3, 4), axis, opset=14, **attrs)


@pytest.mark.parametrize("opset", [8, 13])
def test_means_of_shapes_that_broadcast(opset: int) -> None:
    agree("Mean", F(3), F(2, 1, 3), F(4, 1), opset=opset)


def test_normalizations() -> None:
    x, statistics = F(2, 3, 4), [np.abs(F(3)) + 1 for _ in range(4)]
    agree("BatchNormalization", x, *statistics, opset=14, outputs=3, training_mode=1, momentum=0.7)
    places = [np.abs(F(3, 4)) + 1 for _ in range(4)]
    agree("BatchNormalization", x, *places, opset=7, spatial=0)
    agree("LayerNormalization", x, F(3, 4), F(3, 4), opset=17, outputs=3, axis=1)
    agree("MeanVarianceNormalization", x, opset=13, axes=[0, 2])
    double = pyopnb.reference("MeanVarianceNormalization", x.astype(float), axes=[2])
    np.testing.assert_allclose(double.std(axis=2), 1)
    half = x.astype(np.float16)
    expected = pyopnb.reference("LayerNormalization", half.astype(np.float32), np.float32([1] * 4))
    found = pyopnb.reference("LayerNormalization", half, np.float16([1] * 4))
    assert np.array_equal(found, expected.astype(np.float16))
    agree("LpNormalization", x, opset=13, p=1, axis=1)
    agree("GlobalLpPool", x, opset=2, p=3)
    agree("LogSoftmax", np.float32([[1000, 1001, -1000]]), opset=13)
    agree("Flatten", F(2, 0, 3), opset=13, axis=2)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_of_extremes_beside_nan(op: str) -> None:
    x = RNG.integers(0, 3, (3, 4, 5)).astype(np.float32)
    x.ravel()[::3] = np.nan
    for last in (0, 1):
        agree(op, x, opset=13, axis=1, select_last_index=last)
        agree(op, np.nan_to_num(x).astype(np.uint8), opset=13, keepdims=0, select_last_index=last)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("MaxPool", [F(0, 2, 5, 5)], {"kernel_shape": [3, 3]}),
        ("AveragePool", [F(0, 2, 5, 5)], {"kernel_shape": [3, 3]}),
        ("ConvTranspose", [F(0, 4, 5, 5), F(4, 2, 3, 3)], {"group": 2}),
        ("Resize", [F(0, 2, 3, 3), None, np.float32([1, 1, 2, 2])], {"mode": "linear"}),
        ("GridSample", [F(0, 2, 3, 3), F(0, 4, 4, 2)], {}),
        ("MeanVarianceNormalization", [F(0, 3, 2, 2)], {}),
        ("LogSoftmax", [F(0, 3)], {}),
    ],
)
def test_empty_batches(op: str, inputs: list[Any], attrs: dict[str, Any]) -> None:
    agree(op, *inputs, opset=17, **attrs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("LSTM", [F(3, 2, 2), F(1, 20, 2), F(1, 20, 5)], {"hidden_size": 5, "outputs": 3}),
        ("ConvTranspose", [F(1, 2, 4, 4), F(2, 2, 3, 3), F(4)], {"group": 2}),
        ("MaxPool", [F(1, 2, 5, 5)], {"kernel_shape": [3, 3], "outputs": 2}),
        ("AveragePool", [F(1, 2, 5, 5)], {"kernel_shape": [3, 3]}),
        ("GridSample", [F(1, 2, 3, 3), F(1, 4, 4, 2)], {}),
        ("LayerNormalization", [F(2, 3), F(3)], {}),
        ("CumSum", [F(2, 3), np.int64(0)], {}),
    ],
)
def test_other_floats(op: str, inputs: list[Any], attrs: dict[str, Any], dtype: str) -> None:
    made = np.dtype(getattr(ml_dtypes, dtype, dtype))
    narrow = [value.astype(made) if value.dtype == np.float32 else value for value in inputs]
    wide = [value.astype(float) if value.dtype == made else value for value in narrow]
    many = attrs.get("outputs", 1) > 1
    found = pyopnb.reference(op, *narrow, **attrs)
    expected = pyopnb.reference(op, *wide, **attrs)
    for one, other in zip(
        found if many else [found], expected if many else [expected], strict=True
    ):
        assert one.dtype == (made if other.dtype.kind == "f" else other.dtype)
        # Rounded once, however many steps there are.
        np.testing.assert_allclose(one.astype(float), other, rtol=0.005, atol=0.005)


# ---- what is refused ---------------------------------------------------------------------------


def test_a_failure_of_the_reference_names_the_operator_and_the_types() -> None:
    refused = r"reference of ::Bernoulli: expected inputs .* got float32\[1\]: ValueError: p < 0"
    with pytest.raises(pyopnb.errors.ModelError, match=refused) as caught:
        pyopnb.reference("Bernoulli", np.float32([-1]))
    assert isinstance(caught.value.__cause__, ValueError)


def test_attrs_that_the_reference_computes_wrongly_are_refused() -> None:
    q, k, v = F(1, 1, 1, 2), F(1, 1, 1, 2), F(1, 1, 1, 2)
    with pytest.raises(pyopnb.errors.ModelError, match="with softcap and a fourth output"):
        pyopnb.reference("Attention", q, k, v, softcap=1.0, outputs=4)
    if onnx.__version__ == WRITTEN_FOR[0]:
        pyopnb.reference("Attention", q, k, v, softcap=1.0, qk_matmul_output_mode=1, outputs=4)
    integers = pyopnb.node("RandomNormal", "", "y", dtype=onnx.TensorProto.INT32, shape=[2])
    with pytest.warns(pyopnb.errors.Filled, match="expected a float dtype, got dtype 6"):
        pyopnb.fill(pyopnb.model(integers, {}, {"y": "int32[2]"}, opset=14))

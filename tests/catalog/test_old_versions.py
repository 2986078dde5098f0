"""Operators of ONNX opsets 1 to 6 in the versions that differ, against today's kernels of ONNX Runtime."""

import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from entry_calls import equal, near
from onnx import TensorProto, helper

import pyopnb

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(1, 2, (2, 3, 4, 5)).astype(np.float32)
SCALE = RANDOM.uniform(1, 2, 3).astype(np.float32)
AS_CHANNELS = SCALE[:, None, None]
SEQUENCE = RANDOM.standard_normal((4, 2, 3)).astype(np.float32)


def old_model(op, opset, inputs, outputs=1, **attrs):
    names = [f"i{number}" for number in range(len(inputs))]
    results = [f"o{number}" for number in range(outputs)]
    ports = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    names = [name if array is not None else "" for name, array in zip(names, inputs, strict=True)]
    dtype = TensorProto.BOOL if op in {"And", "Or", "Xor", "Equal", "Greater", "Less"} else None
    if dtype is None:
        dtype = ports[0].type.tensor_type.elem_type
    if op == "Cast":
        dtype = TensorProto.DataType.Value(attrs["to"])
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attrs)],
        "old",
        ports,
        [helper.make_tensor_value_info(name, dtype, None) for name in results],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)


def run_old(op, opset, *inputs, outputs=1, **attrs):
    """Run a node of an old opset as users do; the catalog must be what runs it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = pyopnb.Session(old_model(op, opset, inputs, outputs, **attrs), fill=True)
    assert any("by the catalog" in str(warning.message) for warning in caught)
    feeds = {f"i{number}": array for number, array in enumerate(inputs) if array is not None}
    results = session(feeds)
    return [results[f"o{number}"] for number in range(outputs)]


@pytest.mark.parametrize("opset", [1, 3, 6])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow"])
def test_arithmetic_broadcasts_from_an_axis(op, opset):
    (result,) = run_old(op, opset, X, SCALE, broadcast=1, axis=1)
    near(result, pyopnb.call(op, X, AS_CHANNELS), 1e-6)
    (result,) = run_old(op, opset, X, X[0, 0], broadcast=1)
    near(result, pyopnb.call(op, X, X[0, 0]), 1e-6)


def test_inputs_of_two_shapes_need_the_attribute():
    with pytest.raises(ValueError, match="broadcast=1"):
        run_old("Add", 6, X, SCALE, axis=1)


def test_quotients_of_integers_are_cut_off():
    a, b = np.int32([7, -7, 7, -7, 0]), np.int32([2, 2, -2, -2, 3])
    assert run_old("Div", 6, a, b)[0].tolist() == pyopnb.call("Div", a, b).tolist()


@pytest.mark.parametrize("op", ["And", "Or", "Xor", "Equal", "Greater", "Less"])
def test_comparisons_broadcast_from_an_axis(op):
    a, b = X, np.float32([1.2, 1.5, 1.8])
    if op in {"And", "Or", "Xor"}:
        a, b = a > 1.5, b > 1.4
    if op == "Equal":
        a, b = a.astype(np.int32), b.astype(np.int32)
    (result,) = run_old(op, 1, a, b, broadcast=1, axis=1)
    equal(result, pyopnb.call(op, a, np.ascontiguousarray(b[:, None, None])))


def test_flags_that_the_file_declares_as_integers_are_bool():
    """PyTorch 0.3 declared the result of Equal as int8, also in the ONNX test data."""
    model = old_model("Equal", 2, [np.int32([1, 2]), np.int32([1, 3])])
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT8
    with pytest.warns(pyopnb.errors.Filled, match="declares its output as int8, and it is bool"):
        session = pyopnb.Session(model, fill=True)
    assert session(i0=[1, 2], i1=[1, 3])["o0"].tolist() == [True, False]


@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_consumed_inputs_change_nothing(op, dtype):
    tensors = [(X + shift).astype(dtype) for shift in (0, 0.5, -0.25)]
    (result,) = run_old(op, 1, *tensors, consumed_inputs=[0, 0, 0])
    expected = pyopnb.call(op, *[tensor.astype(np.float32) for tensor in tensors]).astype(dtype)
    near(result, expected, 1e-6)


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(transposed):
    a, b, c = X[0, 0], X[0, 1].T.copy(), SCALE[0] * np.arange(4, dtype=np.float32)
    expected = pyopnb.call("Gemm", a, b, c, alpha=0.5, beta=2.0)
    if transposed:
        a, b = a.T.copy(), b.T.copy()
    attrs = {"transA": transposed, "transB": transposed, "alpha": 0.5, "beta": 2.0, "broadcast": 1}
    near(run_old("Gemm", 1, a, b, c, **attrs)[0], expected, 1e-5)


@pytest.mark.parametrize("opset", [1, 6])
def test_batch_normalization_in_a_test(opset):
    mean, variance, bias = SCALE + 1, SCALE, -SCALE
    attrs = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    (result,) = run_old(
        "BatchNormalization", opset, X, SCALE, bias, mean, variance, is_test=1, **attrs
    )
    expected = pyopnb.call("BatchNormalization", X, SCALE, bias, mean, variance)
    near(result, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("spatial", [0, 1])
def test_batch_normalization_in_training(spatial):
    shape = (3,) if spatial else (3, 4, 5)
    scale, bias, mean, variance = RANDOM.uniform(1, 2, (4, *shape)).astype(np.float32)
    results = run_old(
        "BatchNormalization",
        6,
        X,
        scale,
        bias,
        mean,
        variance,
        outputs=5,
        momentum=0.75,
        spatial=spatial,
    )
    x = X.astype(np.float64)
    axes = (0, 2, 3) if spatial else 0
    batch_mean, batch_variance = x.mean(axes), x.var(axes)
    wide = [
        array[:, None, None] if spatial else array
        for array in (batch_mean, batch_variance, scale, bias)
    ]
    expected = (x - wide[0]) / np.sqrt(wide[1] + 1e-5) * wide[2] + wide[3]
    moved = [
        0.75 * old + 0.25 * new for old, new in ((mean, batch_mean), (variance, batch_variance))
    ]
    for result, array in zip(results, (expected, *moved, batch_mean, batch_variance), strict=True):
        near(result, array, 1e-4, 1e-5)


def test_instance_normalization_and_clip():
    (result,) = run_old("InstanceNormalization", 1, X, SCALE, -SCALE, consumed_inputs=[0, 0, 0])
    expected = pyopnb.call("InstanceNormalization", X, SCALE, -SCALE)
    near(result, expected, 1e-4, 1e-5)
    equal(run_old("Clip", 1, X, min=1.25, max=1.5)[0], X.clip(1.25, 1.5))
    half = np.float16([-np.inf, 3, 7])
    assert run_old("Clip", 1, half, max=5.0)[0].tolist() == [-np.inf, 3, 5]


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_needs_to_be_a_test(opset):
    result, mask = run_old("Dropout", opset, X, outputs=2, is_test=1)
    equal(result, X)
    equal(mask, np.ones_like(X))
    with pytest.raises(ValueError, match="is_test=1"):
        run_old("Dropout", opset, X)


def test_forms_of_lists_and_texts():
    (tiled,) = run_old("Tile", 1, X, np.float32([2]), np.float32([1]))
    equal(tiled, np.tile(X, (1, 2, 1, 1)))
    equal(run_old("Concat", 1, X, X)[0], np.concatenate([X, X], 1))
    for first, second in (
        run_old("Split", 1, X, outputs=2, axis=1, split=[1, 2]),
        run_old("Split", 1, X, np.float32([1, 2]), outputs=2, axis=1),
    ):
        equal(first, X[:, :1])
        equal(second, X[:, 1:])
    with pytest.raises(ValueError, match=r"split=\[…\]"):
        run_old("Split", 1, X, outputs=2)
    for dtype, text in ((np.int32, "INT32"), (np.float64, "DOUBLE"), (np.bool_, "BOOL")):
        (converted,) = run_old("Cast", 1, X - 1, to=text)
        assert converted.dtype == dtype
        equal(converted, (X - 1).astype(dtype))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample_is_the_next_versions(mode):
    (result,) = run_old("Upsample", 1, X, height_scale=2.0, width_scale=3.0, mode=mode)
    mode = "linear" if mode == "bilinear" else mode
    expected = pyopnb.call("Upsample", X, opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode=mode)
    near(result, expected, 1e-5)


def test_global_lp_pool():
    for p in (1, 2, 3):
        expected = np.linalg.norm(X.reshape(2, 3, -1), ord=p, axis=-1)[..., None, None]
        near(run_old("GlobalLpPool", 1, X, p=float(p))[0], expected, 1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [4, 2]], ids=str)
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_todays(op, direction, lengths):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    directions = 2 if direction == "bidirectional" else 1
    weight = RANDOM.standard_normal((directions, gates * 5, 3)).astype(np.float32)
    recurrence = RANDOM.standard_normal((directions, gates * 5, 5)).astype(np.float32)
    bias = RANDOM.standard_normal((directions, gates * 10)).astype(np.float32)
    state = RANDOM.standard_normal((directions, 2, 5)).astype(np.float32)
    counts = None if lengths is None else np.int32(lengths)
    inputs = [SEQUENCE, weight, recurrence, bias, counts, state]
    if op == "LSTM":
        peephole = RANDOM.standard_normal((directions, 15)).astype(np.float32)
        inputs += [state[..., ::-1].copy(), peephole]
    attrs = {"hidden_size": 5, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = directions - 1
    outputs = 3 if op == "LSTM" else 2
    results = run_old(op, 3, *inputs, outputs=outputs, output_sequence=1, **attrs)
    expected = pyopnb.call(op, *inputs, opset=7, outputs=outputs, **attrs)
    for result, array in zip(results, expected, strict=True):
        near(result, array, 1e-4, 1e-5)


@pytest.mark.parametrize(
    "attrs",
    [{}, {"pads": [0, 1], "strides": [2, 1]}, {"pads": [1, 0, 0, 1]}, {"auto_pad": "SAME_UPPER"}],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_average_pool_leaves_the_padding_out(attrs, dtype):
    """PyTorch 0.3 wrote a padding for each axis, and not for each of its ends."""
    x = X.astype(dtype)
    (result,) = run_old("AveragePool", 1, x, kernel_shape=[2, 3], **attrs)
    pads = attrs.get("pads", [0] * 4)
    if "auto_pad" in attrs:
        pads = [0, 1, 1, 1]
    top, left, *ends = pads if len(pads) == 4 else pads * 2
    strides = attrs.get("strides", [1, 1])
    height = (4 + top + ends[0] - 2) // strides[0] + 1
    width = (5 + left + ends[1] - 3) // strides[1] + 1
    assert result.shape == (2, 3, height, width) and result.dtype == dtype
    for i, j in np.ndindex(height, width):
        row, column = i * strides[0] - top, j * strides[1] - left
        window = x[:, :, max(row, 0) : row + 2, max(column, 0) : column + 3].astype(np.float64)
        near(
            result[:, :, i, j],
            window.mean((2, 3)),
            1e-6 if dtype == "float32" else 1e-3,
        )


FLAGS, WHOLE = X > 1.5, X.astype(np.int64)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        *[
            (op, [X, SCALE], {"broadcast": 1, "axis": 1})
            for op in ("Add", "Sub", "Mul", "Div", "Pow")
        ],
        *[(op, [FLAGS, FLAGS[0, 0]], {"broadcast": 1}) for op in ("And", "Or", "Xor")],
        ("Equal", [WHOLE, WHOLE[0, 0]], {"broadcast": 1}),
        *[(op, [X, X[0, 0]], {"broadcast": 1}) for op in ("Greater", "Less")],
        *[(op, [X, X + 1], {}) for op in ("Sum", "Max", "Min", "Mean", "Concat")],
        ("Gemm", [X[0, 0], X[0, 1].T.copy(), X[0, 0, 0, :4]], {"broadcast": 1}),
        ("BatchNormalization", [X, *[SCALE] * 4], {"is_test": 1}),
        ("InstanceNormalization", [X, SCALE, SCALE], {}),
        ("Cast", [X], {"to": "INT32"}),
        ("Clip", [X], {"min": 1.2, "max": 1.5}),
        ("Dropout", [X], {"is_test": 1}),
        ("GlobalLpPool", [X], {"p": 2.0}),
        ("AveragePool", [X], {"kernel_shape": [2, 3], "pads": [0, 1]}),
        ("Upsample", [X], {"height_scale": 2.0, "width_scale": 2.0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_model_of_an_old_opset_runs_in_plain_onnx_runtime(op, inputs, attrs):
    """Its opset is raised, as operators of the first ones do not broadcast; and a node need not want all outputs."""
    with pytest.warns(pyopnb.errors.Filled):
        filled = pyopnb.fill(old_model(op, 1, inputs, **attrs))
    feeds = {f"i{number}": array for number, array in enumerate(inputs)}
    expected = pyopnb.Session(filled)(feeds)["o0"]
    plain = pyopnb.lower(filled, feeds, strict=True)
    session = ort.InferenceSession(plain.SerializeToString())
    near(session.run(None, feeds)[0], expected, 1e-5)


def test_the_tiles_of_a_tile_are_part_of_its_form():
    """The form has the value of an input in it, so that it needs a constant: fed, it would be ignored."""
    model = old_model("Tile", 1, [X, np.float32([2]), np.float32([1])])
    feeds = {"i0": X, "i1": np.float32([2]), "i2": np.float32([1])}
    with pytest.warns(pyopnb.errors.Filled):
        filled = pyopnb.fill(model)
    with pytest.raises(pyopnb.errors.NotLowered, match="i1: expected a constant"):
        pyopnb.lower(filled, feeds, strict=True)
    for name in ("i1", "i2"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(feeds[name], name))
    with pytest.warns(pyopnb.errors.Filled):
        plain = pyopnb.lower(pyopnb.fill(model), {"i0": X}, strict=True)
    session = ort.InferenceSession(plain.SerializeToString())
    equal(session.run(None, {"i0": X})[0], np.tile(X, (1, 2, 1, 1)))


def test_an_old_version_is_not_run_by_an_op_of_its_name():
    """AveragePool-1 asks today's ONNX Runtime kernel, also where a skeleton has defined ::AveragePool."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)

    class AveragePool:
        def __init__(self, kernel_shape: list[int]):
            self.kernel_shape = kernel_shape

        def compute(self, X):
            return pyopnb.reference("::AveragePool", X, opset=1, kernel_shape=self.kernel_shape)

    pyopnb.registry.define(AveragePool, "::AveragePool")
    pooled = pyopnb.call("::AveragePool", x, kernel_shape=[3, 3])
    equal(pooled, [[[[5, 6], [9, 10]]]])

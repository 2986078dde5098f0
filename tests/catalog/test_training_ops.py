"""Operators of onnxruntime-training against differences of the forward operators, and fused ones against parts."""

import numpy as np
import pytest
from entry_calls import equal, near, run, softmax

import pyopnb


def differences(function, x, gradient, step=1e-6):
    """The gradient of sum(gradient * function(x)) by central differences in float64."""
    slope = np.empty_like(x)
    for index in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            ends.append((function(moved) * gradient).sum())
        slope[index] = (ends[0] - ends[1]) / (2 * step)
    return slope


@pytest.mark.parametrize("axis", [-1, 1])
def test_slopes_of_activations_are_their_differences(axis):
    random = np.random.default_rng(0)
    x, gradient = random.standard_normal((2, 2, 3, 4))
    from math import erf

    gelu = np.vectorize(lambda value: 0.5 * value * (1 + erf(value / 2**0.5)))
    relu_slope = run("com.microsoft::ReluGrad", gradient, x)
    equal(relu_slope, np.where(x > 0, gradient, 0))
    gelu_slope = run("com.microsoft::GeluGrad", gradient, x)
    near(gelu_slope, differences(gelu, x, gradient), 1e-6, 1e-8)
    y = softmax(x, axis)
    slope = run("com.microsoft::SoftmaxGrad_13", gradient, y, axis=axis)
    expected = differences(lambda v: softmax(v, axis), x, gradient)
    near(slope, expected, 1e-6, 1e-8)
    slope = run("com.microsoft::LogSoftmaxGrad_13", gradient, np.log(y), axis=axis)
    expected = differences(lambda v: np.log(softmax(v, axis)), x, gradient)
    near(slope, expected, 1e-6, 1e-8)


def test_the_gradient_of_a_layer_normalization():
    random = np.random.default_rng(1)
    x, gradient = random.standard_normal((2, 3, 2, 4))
    scale = random.standard_normal((2, 4))
    mean = x.mean((1, 2), keepdims=True)
    deviation = 1 / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)

    def normalize(values, scales):
        centered = values - values.mean((1, 2), keepdims=True)
        return centered / np.sqrt(values.var((1, 2), keepdims=True) + 1e-5) * scales

    of_input, of_scale, of_bias = run(
        "com.microsoft::LayerNormalizationGrad", gradient, x, scale, mean, deviation, axis=1
    )
    expected = differences(lambda values: normalize(values, scale), x, gradient)
    near(of_input, expected, 1e-4, 1e-7)
    expected = differences(lambda scales: normalize(x, scales), scale, gradient)
    near(of_scale, expected, 1e-6, 1e-8)
    near(of_bias, gradient.sum(0), 1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1])
def test_cross_entropy_is_onnx_runtimes_and_its_gradient_the_differences(
    reduction, weighted, ignored
):
    random = np.random.default_rng(2)
    scores = random.standard_normal((4, 3, 2))
    labels = random.integers(0, 3, (4, 2))
    labels[0] = 2
    weights = [random.uniform(0.5, 2, 3)] if weighted else [None]
    attrs = {"reduction": reduction}
    extra = [] if ignored is None else [np.int64(ignored)]
    loss, log_probability = run(
        "com.microsoft::SoftmaxCrossEntropyLossInternal", scores, labels, *weights, *extra, **attrs
    )
    onnx_attrs = attrs if ignored is None else {**attrs, "ignore_index": ignored}
    given = [weight for weight in weights if weight is not None]

    def onnx_loss(values):
        return pyopnb.call("SoftmaxCrossEntropyLoss", values, labels, *given, **onnx_attrs)

    near(loss, onnx_loss(scores), 1e-9)
    near(log_probability, np.log(softmax(scores, 1)), 1e-9)
    gradient = random.standard_normal(loss.shape)
    slope = run(
        "com.microsoft::SoftmaxCrossEntropyLossInternalGrad",
        *(gradient, log_probability, labels, *weights, *extra),
        **attrs,
    )
    expected = differences(onnx_loss, scores, gradient)
    near(slope, expected, 1e-5, 1e-8)
    slope = run(
        "com.microsoft::SoftmaxCrossEntropyLossGrad",
        *(gradient, log_probability, labels, *weights),
        **onnx_attrs,
    )
    near(slope, expected, 1e-5, 1e-8)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", [None, np.float32([0, 2, 0])])
def test_labels_of_which_none_counts(reduction, weights):
    """The kernels divide by no 0, and leave label -1 out unless a node says another."""
    scores = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    labels = np.int64([-1, -1, -1, -1]) if weights is None else np.int64([0, 2, 2, -1])
    loss, log_probability = run(
        "com.microsoft::SoftmaxCrossEntropyLossInternal",
        scores,
        labels,
        weights,
        reduction=reduction,
    )
    assert not loss.any()
    for name in ("SoftmaxCrossEntropyLossInternalGrad", "SoftmaxCrossEntropyLossGrad"):
        slope = run(
            f"com.microsoft::{name}",
            *(np.ones_like(loss), log_probability, labels, weights),
            reduction=reduction,
        )
        assert not slope.any()


def test_a_loss_has_the_dtype_that_its_node_says():
    scores = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float16)
    labels = np.int64([0, 2, 1, 1])
    loss, log_probability = run(
        "com.microsoft::SoftmaxCrossEntropyLossInternal", scores, labels, output_type=1
    )
    assert loss.dtype == np.float32 and log_probability.dtype == np.float16
    wide = scores.astype(np.float64)
    near(loss, -np.log(softmax(wide, 1))[np.arange(4), labels].mean(), 1e-6)
    bias = np.full((4, 3), 1e-4, np.float16)
    slope = run(
        "com.microsoft::SoftmaxCrossEntropyLossInternalGrad",
        *(np.float32(1), log_probability, labels, None, None, bias),
        output_type=1,
    )
    expected = (np.exp(log_probability.astype(float)) - np.eye(3)[labels]) / 4
    assert slope.dtype == np.float32
    near(slope, expected + bias.astype(float), 1e-5)


def test_gradients_of_dropouts_use_the_mask_they_get():
    random = np.random.default_rng(3)
    gradient = random.standard_normal((5, 9)).astype(np.float32)
    mask = random.uniform(0, 1, (5, 9)) < 0.7
    ratio, training = np.float32(0.25), np.bool_(True)
    slope = run("com.microsoft::DropoutGrad", gradient, mask, ratio, training)
    expected = np.where(mask, gradient / 0.75, 0)
    near(slope, expected, 1e-6)
    equal(run("com.microsoft::DropoutGrad", gradient, mask, ratio, np.bool_(False)), gradient)
    bits = np.zeros(2, np.uint32)
    for number, is_kept in enumerate(mask.ravel()):
        bits[number // 32] |= np.uint32(int(is_kept) << number % 32)
    packed = run("com.microsoft::BitmaskDropoutGrad", gradient, bits, ratio, training)
    equal(packed, slope)
    near(packed, expected, 1e-6)


def test_what_training_accumulates_and_concatenates():
    total, value = np.float32([1, 2]), np.float32([10, 20])
    updated, added = run("com.microsoft::InPlaceAccumulatorV2", total, value, np.array([False]))
    assert updated.item() is True and added.tolist() == [11, 22]
    _, started = run("com.microsoft::InPlaceAccumulatorV2", total, value, np.array([True]))
    assert started.tolist() == [10, 20]
    a, b = np.ones((2, 1), np.float32), np.zeros((2, 3), np.float32)
    joined, lengths = run("com.microsoft::ConcatTraining", a, b, axis=1)
    equal(joined, np.concatenate([a, b], 1))
    assert lengths.tolist() == [1, 3]


def test_yielded_outputs_get_the_gradient_of_their_sum():
    nodes = [
        pyopnb.node("Mul", ["x", "w"], "output"),
        pyopnb.node("com.microsoft::YieldOp", "output", "output_grad", full_shape_outputs=[0]),
        pyopnb.node("Mul", ["output_grad", "x"], "w_grad"),
    ]
    model = pyopnb.model(nodes, {"x": "float32[3]", "w": "float32[3]"}, {"w_grad": "float32[3]"})
    x, w = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    with pytest.warns(pyopnb.errors.Filled), pytest.warns(UserWarning, match="of their sum"):
        session = pyopnb.Session(model, fill=True)
    # The derivative of sum(w * x) by w.
    assert session(x=x, w=w)["w_grad"].tolist() == x.tolist()
    name = "com.microsoft::YieldOp"
    with pytest.warns(UserWarning, match="as of their sum"):
        gradient = run(name, x, w, non_differentiable_outputs=[0])
    equal(gradient, np.ones_like(x))


@pytest.mark.parametrize(
    ("activation", "attrs"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"alpha": 0.1}),
        ("Elu", {"alpha": 0.7}),
        ("Selu", {"alpha": 1.5, "gamma": 1.1}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("Softplus", {}),
        ("Softmax", {"axis": 1}),
    ],
)
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_product_with_an_activation_is_both(activation, attrs, transposed):
    random = np.random.default_rng(4)
    a = random.standard_normal((2, 4, 3), np.float32)
    b = random.standard_normal((2, 4, 5) if transposed else (2, 3, 5), np.float32)
    if transposed:
        a = random.standard_normal((2, 4, 6), np.float32)
    product = pyopnb.call("com.microsoft::FusedMatMul", a, b, alpha=0.5, transA=transposed)
    expected = pyopnb.call(activation, product, **attrs)
    named = {f"activation_{name}": value for name, value in attrs.items()}
    result = run(
        "com.microsoft::FusedMatMulActivation",
        *(a, b),
        activation=activation,
        alpha=0.5,
        transA=transposed,
        **named,
    )
    near(result, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_batch_axis_that_is_moved_is_fused_matmuls(side):
    random = np.random.default_rng(5)
    a = random.standard_normal((4, 2, 3) if side == "A" else (2, 4, 3), np.float32)
    b = random.standard_normal((3, 2, 5) if side == "B" else (2, 3, 5), np.float32)
    attrs = {f"transBatch{side}": 1}
    expected = pyopnb.call("com.microsoft::FusedMatMul", a, b, **attrs)
    result = run("com.microsoft::FusedMatMulActivation", a, b, activation="Relu", **attrs)
    near(result, np.maximum(expected, 0), 1e-4, 1e-5)


def test_gates_of_wavlm_are_the_schemas_formula():
    random = np.random.default_rng(6)
    batch, length, heads, size = 2, 3, 2, 4
    query = random.standard_normal((batch, length, heads * size), np.float32)
    query_bias = random.standard_normal(heads * size).astype(np.float32)
    bias = random.standard_normal((1, heads, length, length), np.float32)
    weight = random.standard_normal((size, 8), np.float32)
    gate_bias = random.standard_normal(8).astype(np.float32)
    scale = random.standard_normal((1, heads, 1, 1), np.float32)
    result = run(
        "com.microsoft::GatedRelativePositionBias",
        *(query, query_bias, bias, weight, gate_bias, scale),
        num_heads=heads,
    )
    for image, head, row in np.ndindex(batch, heads, length):
        vector = (query[image, row] + query_bias)[head * size : (head + 1) * size].astype(float)
        gates = vector @ weight + gate_bias
        update = 1 / (1 + np.exp(-gates[:4].sum()))
        reset = 1 / (1 + np.exp(-gates[4:].sum()))
        share = update * (reset * scale[0, head, 0, 0] - 1) + 2
        near(result[image, head, row], share * bias[0, head, row], 1e-4)


def test_the_rotation_of_gemma_rounds_as_its_script():
    random = np.random.default_rng(7)
    angles = random.uniform(0, 6, (2, 3, 4)).astype(np.float32)
    query, turned = random.standard_normal((2, 2, 5, 3, 4)).astype(np.float16)
    rotated, _ = run("com.microsoft::GemmaRotaryEmbedding", angles, query, turned, query, turned)
    sine, cosine = np.sin(angles).astype(np.float16), np.cos(angles).astype(np.float16)
    equal(rotated, query * cosine[:, None] + turned * sine[:, None])

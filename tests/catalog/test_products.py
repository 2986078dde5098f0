"""Products, normalizations and quantizers of com.microsoft without a CPU kernel, against kernels and formulas."""

import ml_dtypes
import numpy as np
import pytest
from entry_calls import equal, near, run

import pyopnb

RANDOM = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RANDOM.standard_normal(shape).astype(dtype)


def nbits(outputs, columns, bits, block=32):
    """Return packed weights and their scales."""
    blocks = -(-columns // block)
    packed = RANDOM.integers(0, 256, (outputs, blocks, block * bits // 8)).astype(np.uint8)
    return packed, RANDOM.uniform(0.01, 0.1, (outputs, blocks)).astype(np.float32)


def kernel_product(x, weights, bits, bias=None, block=32):
    """MatMulNBits of ONNX Runtime."""
    packed, scales = weights
    attrs = {"K": x.shape[-1], "N": len(packed), "bits": bits, "block_size": block}
    product = pyopnb.call("com.microsoft::MatMulNBits", x, packed, scales, **attrs)
    return product if bias is None else product + bias


def silu(x):
    return x / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("has_skip", [False, True])
@pytest.mark.parametrize("has_norm", [False, True])
def test_the_gated_product_of_few_bits(has_skip, has_norm):
    x, skip, scale = normal(2, 3, 64), normal(2, 3, 64), normal(64)
    gate, up = nbits(8, 64, 4), nbits(8, 64, 4)
    gate_bias, up_bias = normal(8), normal(8)
    result, total = run(
        "com.microsoft::MatMulNBitsMlp",
        *(x, skip if has_skip else None, scale if has_norm else None),
        *(*gate, gate_bias, *up, up_bias),
        **{"K": 64, "N": 8, "block_size": 32, "activation": "silu"},
    )
    expected_total = x + skip if has_skip else x
    near(total, expected_total, 1e-6)
    source = expected_total
    if has_norm:
        source = pyopnb.call("RMSNormalization", expected_total, scale, epsilon=1e-5)
    expected = silu(kernel_product(source, gate, 4, gate_bias)) * kernel_product(
        source, up, 4, up_bias
    )
    near(result, expected, 1e-3, 1e-4)


def test_three_projections_of_few_bits():
    x, skip, scale = normal(2, 1, 64), normal(2, 1, 64), normal(64)
    weights = [nbits(8, 64, 4), nbits(4, 64, 4), nbits(4, 64, 4)]
    biases = [normal(8), None, normal(4)]
    inputs = [x, skip, scale]
    for pair, bias in zip(weights, biases, strict=True):
        inputs += [*pair, bias]
    *projections, total = run(
        "com.microsoft::MatMulNBitsQkv", *inputs, K=64, Nq=8, Nkv=4, block_size=32
    )
    near(total, x + skip, 1e-6)
    source = pyopnb.call("RMSNormalization", x + skip, scale, epsilon=1e-6)
    for result, pair, bias in zip(projections, weights, biases, strict=True):
        near(result, kernel_product(source, pair, 4, bias), 1e-3, 1e-4)


@pytest.mark.parametrize("is_empty", [False, True])
def test_an_adapter_of_low_rank(is_empty):
    x, base = normal(3, 64), nbits(8, 64, 4)
    down, up = nbits(5, 64, 8), nbits(8, 5, 8)
    expected = kernel_product(x, base, 4)
    if is_empty:
        up = (up[0][:, :0], up[1])
    else:
        inner = kernel_product(x, down, 8)
        levels = up[0].reshape(8, -1)[:, :5].astype(float) - 128
        expected = expected + inner @ (levels * up[1]).T
    result = run("com.microsoft::MatMulNBitsQLoRA", x, *base, *down, *up, K=64, N=8)
    near(result, expected, 1e-3, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("has_scale", [False, True])
def test_weights_of_eight_bit_floats(dtype, has_scale):
    a = normal(2, 3, 20, dtype=dtype)
    b = normal(5, 20).astype(ml_dtypes.float8_e4m3fn)
    scales = RANDOM.uniform(0.5, 2, (5, 2)).astype(np.float32)
    bias = normal(5, dtype=dtype)
    a_scale = np.float32(0.01) if has_scale else None
    result = run(
        "com.microsoft::MatMulBlockQuantizedFp8Weight", a, b, scales, a_scale, bias, block_size=16
    )
    wide = a.astype(np.float64)
    if has_scale:
        levels = (a.astype(np.float32) / a_scale).clip(-448, 448).astype(ml_dtypes.float8_e4m3fn)
        wide = levels.astype(np.float64) * float(a_scale)
    expected = np.empty((2, 3, 5))
    for place in np.ndindex(2, 3, 5):
        row, output = wide[place[:2]], place[2]
        terms = [row[k] * float(b[output, k]) * float(scales[output, k // 16]) for k in range(20)]
        expected[place] = sum(terms) + float(bias[output])
    tolerance = 2e-2 if dtype != "float16" else 2e-3
    near(result.astype(np.float64), expected, tolerance, tolerance)
    assert result.dtype == dtype


def test_weights_of_four_bit_floats():
    a = normal(3, 32, dtype="float16")
    levels = np.arange(5 * 32).reshape(5, 32) % 16
    packed = (levels[:, ::2] | levels[:, 1::2] << 4).astype(np.uint8)
    values = levels.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    scales = RANDOM.uniform(0.5, 2, (5, 2)).astype(ml_dtypes.float8_e4m3fn)
    shared, bias = np.float32(0.25), normal(5, dtype="float16")
    result = run(
        "com.microsoft::MatMulBlockQuantizedFp4Weight",
        a,
        packed,
        scales.view(np.uint8),
        shared,
        None,
        bias,
    )
    weights = values * np.repeat(scales.astype(np.float64), 16, axis=1) * 0.25
    expected = a.astype(np.float64) @ weights.astype(np.float16).astype(np.float64).T + bias
    near(result, expected, 2e-3, 2e-3)


@pytest.mark.parametrize("activation", ["NONE", "RELU", "GELU"])
@pytest.mark.parametrize("kind", ["float32", "float8_e4m3fn", "float8_e5m2"])
def test_gemm_of_eight_bit_floats(activation, kind):
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    a, b, c = normal(3, 4).astype(dtype), normal(2, 4).astype(dtype), normal(3, 2)
    scales = [np.float32([number]) for number in (0.5, 2.0, 1.0)]
    attrs = {"transB": 1, "alpha": 0.5, "beta": 2.0, "activation": activation, "dtype": 1}
    result = run("com.microsoft::GemmFloat8", a, b, c, *scales, **attrs)
    scale = 1 if kind == "float32" else 0.5 * 2.0
    total = 0.5 * scale * (a.astype(np.float64) @ b.astype(np.float64).T) + 2 * c
    if activation == "RELU":
        total = np.maximum(total, 0)
    if activation == "GELU":
        total = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    near(result, total, 1e-4, 1e-5)


def test_a_result_of_eight_bits_saturates():
    a = np.full((1, 1), 400, np.float32)
    result = run("com.microsoft::GemmFloat8", a, a, dtype=17)
    assert result.dtype == ml_dtypes.float8_e4m3fn and float(result[0, 0]) == 448


@pytest.mark.parametrize("limit", [0.0, 1.5])
@pytest.mark.parametrize("together", [False, True])
def test_swiglu_is_its_formula(limit, together):
    gate, up = normal(2, 3, 4) * 3, normal(2, 3, 4) * 3
    gate[0, 0, 0] = -200
    attrs = {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": limit}
    inputs = [np.concatenate([gate, up], -1)] if together else [gate, up]
    result = run("com.microsoft::SwiGLU", *inputs, **attrs)
    first, second = gate.astype(np.float64), up.astype(np.float64)
    if limit:
        first, second = np.minimum(first, limit), second.clip(-limit, limit)
    expected = first / (1 + np.exp(-1.7 * first)) * (second + 1)
    near(result, expected, 1e-5, 1e-40)


def test_the_router_and_its_expert_are_three_nodes():
    x, weight = normal(2, 5, 6, dtype="float16"), normal(6, 3 + 2 * 4, dtype="float16")
    router, activated = run("com.microsoft::RouterGateUpProj", x, weight, router_size=3)
    product = (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float16)
    near(router, product[..., :3], 2e-3, 2e-3)
    expected = silu(product[..., 3:7]) * product[..., 7:].astype(np.float64)
    near(activated, expected, 5e-3, 5e-3)


@pytest.mark.parametrize("has_prologue", [False, True])
def test_streams_are_mixed_by_the_formula(has_prologue):
    branches, hidden, rank = 3, 4, 2
    width = branches * hidden
    streams, scale = normal(2, 5, width), normal(width)
    down, up, inject = normal(width, rank), normal(rank, width), normal(width, branches)
    before = [normal(2, 5, hidden), normal(2, 5, branches)] if has_prologue else []
    attrs = {"gate_mul": 2.0, "gate_div": 0.5, "silu_alpha": 1.5, "reduction_scale": 0.25}
    results = run(
        "com.microsoft::HyperConnectionLowRankMix",
        *(streams, scale, down, up, inject, *before),
        num_branches=branches,
        **attrs,
    )
    for place in np.ndindex(2, 5):
        mixed = streams[place].astype(float).reshape(branches, hidden)
        if has_prologue:
            mixed = mixed + np.outer(before[1][place], before[0][place])
        root = np.sqrt((mixed**2).mean(1, keepdims=True) + 1e-5)
        normalized = mixed / root * scale.reshape(branches, hidden)
        inner = 1.5 * (normalized.ravel() @ down)
        gates = 1 / (1 + np.exp(-((inner / (1 + np.exp(-inner))) @ up)))
        output = 0.25 * (normalized * gates.reshape(branches, hidden)).sum(0)
        next_gate = 2 / (1 + np.exp(-(normalized.ravel() @ inject) / 0.5))
        for result, expected in zip(results, (output, next_gate, mixed.ravel()), strict=True):
            near(result[place], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("kept", [0, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_history_moves_on_by_captured_inputs(kept, dtype):
    batch, channels, width, capacity = 2, 3, 4, 5
    source, capture = normal(30, dtype=dtype), normal(40, dtype=dtype)
    target = normal(30, dtype=dtype)
    starts = [3, 5, 2]
    size = source.itemsize
    metadata = np.int64(
        [*(start * size for start in starts), batch, channels, width, capacity, kept]
    )
    result = run("com.microsoft::ConvStateReplay", source, capture, target, metadata)
    expected = target.copy()
    for b, c, p in np.ndindex(batch, channels, width):
        if p + kept < width:
            element = source[starts[0] + (b * channels + c) * width + p + kept]
        else:
            element = capture[starts[2] + (b * capacity + p + kept - width) * channels + c]
        expected[starts[1] + (b * channels + c) * width + p] = element
    equal(result, expected)


@pytest.mark.parametrize("per_key", [False, True])
def test_a_recurrent_state_repeats_captured_steps(per_key):
    heads, values, keys, key_heads, capacity, kept = 4, 3, 2, 2, 3, 2
    decay_width = keys if per_key else 1
    starts = {"source": 1, "destination": 2, "decay": 0}
    starts["key"] = capacity * heads * decay_width
    starts["delta"] = starts["key"] + capacity * key_heads * keys
    source, target, capsule = normal(30), normal(30), normal(90)
    numbers = [heads, values, keys, key_heads, capacity, kept]
    result = run(
        "com.microsoft::GatedDeltaNetStateReplay",
        *(source, capsule, target, np.int64([*starts.values(), *numbers])),
    )
    expected = target.astype(float)
    for h, v, i in np.ndindex(heads, values, keys):
        state = float(source[1 + (h * values + v) * keys + i])
        for t in range(kept):
            place = (t * heads + h) * decay_width + (i if per_key else 0)
            state *= capsule[place]
            key = capsule[starts["key"] + (t * key_heads + h * key_heads // heads) * keys + i]
            state += float(key) * capsule[starts["delta"] + (t * heads + h) * values + v]
        expected[2 + (h * values + v) * keys + i] = state
    near(result, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("input_dtype", ["float16", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("prefill", [0, 1])
@pytest.mark.parametrize("base_position", [False, True])
def test_normalized_and_rotated(input_dtype, prefill, base_position):
    x = normal(2, 3, 2, 8, dtype=input_dtype)
    scale = RANDOM.uniform(0.5, 2, 6).astype(np.float32)
    angles = RANDOM.uniform(0, 3, (9, 2))
    cosine, sine = (
        np.cos(angles).astype(ml_dtypes.bfloat16),
        np.sin(angles).astype(ml_dtypes.bfloat16),
    )
    positions = np.int64([4]) if base_position else RANDOM.integers(0, 9, (2, 3))
    attrs = {
        "rotary_embedding_dim": 4,
        "input_start": 1,
        "input_width": 6,
        "output_fp16": input_dtype == "float16",
    }
    result, normalized = run(
        "com.microsoft::RMSNormRotary",
        x,
        scale,
        positions,
        cosine,
        sine,
        np.int32(prefill),
        **attrs,
    )
    assert result.shape == (2, 3, 12)
    for image, token, head in np.ndindex(2, 3, 2):
        row = x[image, token, head, 1:7].astype(float)
        row = row / np.sqrt((row**2).mean() + 1e-6) * scale
        near(normalized[image, token, head], row, 1e-2, 1e-3)
        position = 4 + token if base_position else positions[image, token]
        c, s = cosine[position].astype(float), sine[position].astype(float)
        turned = np.concatenate([row[:2] * c - row[2:4] * s, row[:2] * s + row[2:4] * c, row[4:]])
        shown = result[image, token, head * 6 : head * 6 + 6].astype(float)
        near(shown, turned, 2e-2, 2e-2)


def test_matrices_by_rows_and_by_columns():
    x, scale = normal(2, 3, 4) * 40, np.float32(0.5)
    x[0, 0, 0] = 1e6
    rows = run("com.microsoft::QuantizeWithOrder", x, scale, order_input=1, order_output=1)
    expected = np.rint(x / 0.5).clip(-128, 127)
    equal(rows, expected)
    columns = run("com.microsoft::QuantizeWithOrder", x, scale, order_input=1, order_output=0)
    for image in range(2):
        assert columns[image].ravel().tolist() == expected[image].ravel(order="F").tolist()
    back = run(
        "com.microsoft::DequantizeWithOrder", columns, scale, order_input=0, order_output=1, to=1
    )
    equal(back, expected * 0.5)
    with pytest.raises(ValueError, match="order 2"):
        run("com.microsoft::QuantizeWithOrder", x, scale, order_input=1, order_output=2)


def test_quantized_gelu_and_normalization():
    x = np.arange(-128, 128).astype(np.int8).reshape(4, 64)
    result = run("com.microsoft::QOrderedGelu", x, np.float32(0.05), np.float32(0.04))
    expected = np.rint(pyopnb.call("Gelu", x * np.float32(0.05)) / 0.04).clip(-128, 127)
    near(result, expected, 0, 1)
    assert (result == expected).mean() > 0.98
    scale, bias = normal(64), normal(64)
    result = run(
        "com.microsoft::QOrderedLayerNormalization",
        x,
        np.float32(0.05),
        scale,
        bias,
        np.float32(0.04),
    )
    normalized = pyopnb.call("LayerNormalization", x * np.float32(0.05), scale, bias)
    expected = np.rint(normalized / 0.04).clip(-128, 127)
    near(result, expected, 0, 1)
    assert (result == expected).mean() > 0.98


@pytest.mark.parametrize("is_transposed", [False, True])
def test_quantized_product_by_columns(is_transposed):
    a = RANDOM.integers(-128, 128, (2, 3, 5)).astype(np.int8)
    b = RANDOM.integers(-128, 128, (5, 4)).astype(np.int8)
    c = RANDOM.integers(-128, 128, (1, 3, 4)).astype(np.int8)
    stored = np.ascontiguousarray(b.T)
    if not is_transposed:
        stored = stored.reshape(5, 4)
    scale_b, bias = RANDOM.uniform(0.001, 0.002, 4).astype(np.float32), normal(4)
    orders = {"order_A": 1, "order_B": 0, "order_Y": 1}
    result = run(
        "com.microsoft::QOrderedMatMul",
        *(a, np.float32(0.5), stored, scale_b, np.float32(0.25), bias, c, np.float32(0.1)),
        **orders,
    )
    real = 0.5 * (a.astype(float) @ (b.astype(float) * scale_b)) + bias + 0.1 * c
    equal(result, np.rint(real / 0.25).clip(-128, 127))


@pytest.mark.parametrize("activation", ["", "Relu", "Clip"])
@pytest.mark.parametrize("has_residual", [False, True])
def test_a_fused_convolution_is_three_nodes(activation, has_residual):
    x, weight, bias = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    attrs = {"pads": [1, 0, 1, 1], "strides": [2, 1], "group": 2}
    expected = pyopnb.call("Conv", x, weight, bias, **attrs)
    extra = []
    if has_residual:
        residual = normal(*expected.shape)
        expected = expected + residual
        extra = [np.ascontiguousarray(np.moveaxis(residual, 1, -1))]
    if activation == "Relu":
        expected = np.maximum(expected, 0)
    if activation == "Clip":
        expected = expected.clip(-0.5, 1)
        attrs["activation_params"] = [-0.5, 1.0]
    if activation:
        attrs["activation"] = activation
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    result = run("com.microsoft::NhwcFusedConv", last, weight, bias, *extra, **attrs)
    near(np.moveaxis(result, -1, 1), expected, 1e-4, 1e-5)

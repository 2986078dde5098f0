"""The operators that ONNX Runtime has on GPUs only, against its own kernels and formulas."""

import numpy as np
import pytest
from entry_calls import equal, near, run

import pyopnb


def normalized_groups(x, gamma, beta, groups, epsilon):
    """GroupNorm by its definition in float64; x is [N,C,...]."""
    result = np.empty(x.shape)
    size = x.shape[1] // groups
    for image in range(len(x)):
        for group in range(groups):
            share = slice(group * size, (group + 1) * size)
            block = x[image, share].astype(np.float64)
            result[image, share] = (block - block.mean()) / np.sqrt(block.var() + epsilon)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return result * gamma.astype(float).reshape(shape) + beta.astype(float).reshape(shape)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mean", [0, 1000])
def test_group_norm(channels_last, activation, dtype, mean):
    random = np.random.default_rng(0)
    x = (random.standard_normal((2, 8, 5, 3)) + mean).astype(dtype)
    gamma, beta = random.standard_normal((2, 8)).astype(np.float32)
    expected = normalized_groups(x, gamma, beta, 4, 1e-5)
    if activation:
        expected = expected / (1 + np.exp(-expected))
    fed = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channels_last else x
    attrs = {"activation": activation, "groups": 4, "channels_last": channels_last}
    result = run("com.microsoft::GroupNorm", fed, gamma, beta, **attrs)
    assert result.dtype == dtype
    result = np.moveaxis(result, -1, 1) if channels_last else result
    tolerance = 2e-3 if dtype == "float16" or mean else 1e-5
    near(result, expected, tolerance, tolerance)


@pytest.mark.parametrize("skip_shape", [(2, 5, 3, 8), (2, 1, 1, 8), (2, 8)], ids=str)
def test_skip_group_norm_adds_before_it_normalizes(skip_shape):
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 5, 3, 8), np.float32)
    skip = random.standard_normal(skip_shape, np.float32)
    gamma, beta, bias = random.standard_normal((3, 8)).astype(np.float32)
    total = x + skip.reshape(2, *([1, 1] if skip.ndim == 2 else skip_shape[1:3]), 8) + bias
    expected = normalized_groups(np.moveaxis(total, -1, 1), gamma, beta, 2, 1e-5)
    result, added = run(
        "com.microsoft::SkipGroupNorm", x, gamma, beta, skip, bias, activation=0, groups=2
    )
    near(np.moveaxis(result, -1, 1), expected, 1e-4, 1e-5)
    near(added, total, 1e-6, 1e-6)


def test_bias_split_gelu_is_split_add_and_gelu():
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 3, 8), np.float32)
    bias = random.standard_normal(8).astype(np.float32)
    left, right = np.split(x + bias, 2, axis=-1)
    gelu = pyopnb.call("Gelu", np.ascontiguousarray(right))
    result = run("com.microsoft::BiasSplitGelu", x, bias)
    near(result, left * gelu, 1e-5, 1e-6)


@pytest.mark.parametrize("has_bias", [False, True])
def test_gemm_fast_gelu_is_matmul_and_fast_gelu(has_bias):
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 4, 5), np.float32)
    weight = random.standard_normal((5, 3), np.float32)
    bias = [random.standard_normal(3).astype(np.float32)] if has_bias else []
    expected = pyopnb.call("com.microsoft::FastGelu", pyopnb.call("MatMul", x, weight), *bias)
    result = run("com.microsoft::GemmFastGelu", x, weight, *bias)
    near(result, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_nhwc_conv_is_conv_with_channels_last(group, auto_pad):
    random = np.random.default_rng(4)
    x = random.standard_normal((2, 4, 9, 7), np.float32)
    weight = random.standard_normal((6, 4 // group, 3, 2), np.float32)
    bias = random.standard_normal(6).astype(np.float32)
    attrs = {"strides": [2, 1], "group": group, "auto_pad": auto_pad}
    if auto_pad == "NOTSET":
        attrs |= {"pads": [1, 0, 2, 1], "dilations": [1, 2]}
    expected = pyopnb.call("Conv", x, weight, bias, **attrs)
    last = [np.ascontiguousarray(np.moveaxis(array, 1, -1)) for array in (x, weight)]
    result = run("com.microsoft::NhwcConv", *last, bias, **attrs)
    near(np.moveaxis(result, -1, 1), expected, 1e-4, 1e-5)


def test_padding_is_removed_and_restored():
    x = np.arange(2 * 4 * 3, dtype=np.float32).reshape(2, 4, 3)
    counts = np.int32([2, 3])
    tokens, offsets, begins, longest = run("com.microsoft::RemovePadding", x, counts)
    assert offsets.tolist() == [[0, 1, 4, 5], [6, 2, 3, 7]]
    assert begins.tolist() == [0, 2, 5] and longest.tolist() == [3]
    equal(tokens, x.reshape(8, 3)[[0, 1, 4, 5, 6]])
    restored = run("com.microsoft::RestorePadding", tokens, offsets)
    expected = x.copy()
    expected[0, 2:] = expected[1, 3:] = 0
    equal(restored, expected)


def t5_bucket(position, bidirectional, buckets, most):
    """The published formula; position is key minus query."""
    bucket = 0
    if bidirectional:
        buckets //= 2
        bucket += buckets if position > 0 else 0
        position = abs(position)
    else:
        position = -min(position, 0)
    exact = buckets // 2
    if position < exact:
        return bucket + position
    share = np.log(position / exact) / np.log(most / exact)
    return bucket + min(buckets - 1, exact + int(share * (buckets - exact)))


@pytest.mark.parametrize("bidirectional", [0, 1])
def test_relative_position_bias_is_t5s(bidirectional):
    table = np.random.default_rng(5).standard_normal((32, 3)).astype(np.float32)
    result = run(
        "com.microsoft::RelativePositionBias",
        table,
        np.int64([20]),
        np.int64([300]),
        max_distance=128,
        is_bidirectional=bidirectional,
    )
    assert result.shape == (1, 3, 20, 300)
    for query, key in [(0, 0), (3, 3), (0, 7), (7, 0), (19, 0), (0, 15), (0, 50), (2, 299)]:
        bucket = t5_bucket(key - query, bidirectional, 32, 128)
        np.testing.assert_array_equal(result[0, :, query, key], table[bucket], f"{query} {key}")


@pytest.mark.parametrize("inner", [0, 1])
def test_bias_softmax_repeats_rows_of_the_bias(inner):
    random = np.random.default_rng(6)
    data = random.standard_normal((3, 2, 4, 5), np.float32)
    if inner:
        bias = random.standard_normal((3, 1, 1, 5)).astype(np.float32)
    else:
        bias = random.standard_normal((1, 2, 4, 5)).astype(np.float32)
    expected = pyopnb.call("Softmax", data + bias, axis=-1)
    result = run("com.microsoft::BiasSoftmax", data, bias, is_inner_broadcast=inner, axis=3)
    near(result, expected, 1e-5, 1e-7)


def test_dropouts_drop_nothing_outside_training():
    data, bias = np.ones((5, 7), np.float32), np.arange(7, dtype=np.float32)
    total, mask = run("com.microsoft::BiasDropout", data, bias)
    equal(total, data + bias)
    assert mask.all() and mask.shape == data.shape
    total, bits = run("com.microsoft::BitmaskBiasDropout", data, bias, data)
    equal(total, data + bias + data)
    assert bits.tolist() == [0xFFFFFFFF, 0b111]
    kept, bits = run("com.microsoft::BitmaskDropout", data, np.float32(0), np.bool_(True))
    equal(kept, data)


def test_dropouts_in_training_keep_what_their_masks_say():
    random = np.random.default_rng(9)
    data, residual = random.standard_normal((2, 64, 33), np.float32)
    bias = random.standard_normal(33).astype(np.float32)
    ratio, training = np.float32(0.25), np.bool_(True)
    total, mask = run("com.microsoft::BiasDropout", data, bias, residual, ratio, training)
    expected = np.where(mask, (data + bias) / 0.75, 0) + residual
    near(total, expected, 1e-5, 1e-6)
    assert 0.7 < mask.mean() < 0.8
    # With one seed, all three drop the same elements, and do so in each run.
    for _ in range(2):
        _, mask = run("com.microsoft::BiasDropout", data, bias, None, ratio, training, seed=5)
        kept, bits = run("com.microsoft::BitmaskDropout", data, ratio, training, seed=5)
        near(kept, np.where(mask, data / 0.75, 0), 1e-6)
        inputs = (data, bias, residual, ratio, training)
        total, same_bits = run("com.microsoft::BitmaskBiasDropout", *inputs, seed=5)
        expected = np.where(mask, (data + bias) / 0.75, 0) + residual
        near(total, expected, 1e-5, 1e-6)
        assert bits.tolist() == same_bits.tolist()
    for number, is_kept in enumerate(mask.ravel()):
        assert (bits[number // 32] >> np.uint32(number % 32)) & 1 == is_kept
    with pytest.raises(ValueError, match="less than 1"):
        run("com.microsoft::BitmaskDropout", data, np.float32(1), training)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_fourier_transforms_are_numpys_and_back(axes, dtype):
    x = np.random.default_rng(7).standard_normal((3, 4, 6)).astype(dtype)
    spectrum = run("com.microsoft::Rfft", x, signal_ndim=axes)
    expected = np.fft.rfftn(x.astype(np.float64), axes=range(-axes, 0))
    tolerance = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    near(spectrum[..., 0], expected.real, tolerance, tolerance)
    near(spectrum[..., 1], expected.imag, tolerance, tolerance)
    back = run("com.microsoft::Irfft", spectrum, signal_ndim=axes)
    near(back, x, tolerance, tolerance)


def test_complex_products():
    random = np.random.default_rng(8)
    a = random.standard_normal((2, 3, 2), np.float32)
    b = random.standard_normal((3, 2), np.float32)
    left, right = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for name, expected in (("ComplexMul", left * right), ("ComplexMulConj", left * right.conj())):
        product = run(f"com.microsoft::{name}", a, b)
        near(product[..., 0], expected.real, 1e-5, 1e-6)
        near(product[..., 1], expected.imag, 1e-5, 1e-6)


def test_is_all_finite_looks_for_what_it_is_told_to():
    nan, infinity = np.float32([1, np.nan]), np.float32([np.inf])
    finite = np.float32([[1, 2]])
    assert run("com.microsoft::IsAllFinite", finite, finite).item() is True
    assert run("com.microsoft::IsAllFinite", finite, nan).item() is False
    assert run("com.microsoft::IsAllFinite", nan, isinf_only=1).item() is True
    assert run("com.microsoft::IsAllFinite", infinity, isnan_only=1).item() is True
    assert run("com.microsoft::IsAllFinite", infinity, isinf_only=1).item() is False


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_arithmetic_does_not_wrap(dtype):
    every = np.arange(256).astype(dtype)
    zero = np.asarray(100, dtype)
    product = run("com.microsoft::MulInteger", every, zero, every[::-1].copy())
    expected = (every.astype(int) - 100) * every[::-1].astype(int)
    equal(product, expected)
    assert product.dtype == np.int32
    total = run("com.microsoft::ReduceSumInteger", every.reshape(2, 128), axes=[1], keepdims=0)
    equal(total, every.reshape(2, 128).astype(int).sum(1))
    mean = run(
        "com.microsoft::QLinearReduceMean",
        every.reshape(2, 128),
        np.float32(0.5),
        zero,
        np.float32(0.25),
        np.asarray(3, dtype),
        axes=[1],
        keepdims=1,
    )
    dequantized = (every.reshape(2, 128).astype(np.float64) - 100) * 0.5
    limits = np.iinfo(dtype)
    expected = np.rint(dequantized.mean(1, keepdims=True) / 0.25) + 3
    equal(mean, expected.clip(limits.min, limits.max))


def test_an_embedding_refuses_an_index_outside():
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    rows = run("com.microsoft::TorchEmbedding", weight, np.int64([[2, 0]]))
    assert rows.tolist() == [[[4, 5], [0, 1]]]
    with pytest.raises(IndexError, match="from 0 to 2"):
        run("com.microsoft::TorchEmbedding", weight, np.int64([-1]))

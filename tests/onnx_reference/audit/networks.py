"""Calls of the layers of networks."""

from __future__ import annotations

import io

import numpy as np
import onnx.parser

from audit.cases import ABSENT, combined, dtypes_of, each, floats, generates, integers

F = np.float32
I = np.int64  # noqa: E741

_AUTO = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


def _windows(schema, kernel):
    """The attributes of a sliding window over two axes, one changed at a time and a few together."""
    base = {"kernel_shape": kernel}
    choices = {
        "strides": [[2, 2], [2, 1], [1, 3]],
        "pads": [[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0]],
        "dilations": [[2, 2], [1, 2]],
        "auto_pad": _AUTO,
        "ceil_mode": [0, 1],
        "count_include_pad": [0, 1],
        "storage_order": [0, 1],
    }
    yield from each(schema, base, **choices)
    for auto in _AUTO[1:]:
        for strides in ([2, 2], [1, 2], [3, 2]):
            yield {**base, "auto_pad": auto, "strides": strides}
            if "dilations" in schema.attributes and auto != "VALID":
                yield {**base, "auto_pad": auto, "strides": strides, "dilations": [2, 1]}
    for attrs in combined(
        schema, ceil_mode=[0, 1], count_include_pad=[0, 1], dilations=[ABSENT, [2, 1]]
    ):
        for strides in ([2, 2], [3, 2]):
            for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]):
                yield {**base, "strides": strides, "pads": pads, **attrs}


@generates("AveragePool", "LpPool", "MaxPool")
def pool(schema):
    powers = [ABSENT]
    if schema.name == "LpPool":
        powers = [ABSENT, 1, 3] if schema.since_version >= 2 else [ABSENT, 1.0, 3.0]
    counts = [1]
    if schema.name == "MaxPool" and schema.since_version >= 8:
        counts = [1, 2]
    for p in powers:
        for count in counts:
            for attrs in _windows(schema, [3, 2]):
                yield [floats(2, 3, 7, 8)], {**attrs, "p": p}, count
    for count in counts:
        for shape in ((1, 2, 9), (1, 2, 5, 6, 4)):
            rank = len(shape) - 2
            yield [floats(*shape)], {"kernel_shape": [2] * rank}, count
            yield (
                [floats(*shape)],
                {
                    "kernel_shape": [3] * rank,
                    "strides": [2] * rank,
                    "pads": [1, *[0] * (rank - 1), *[1] * rank],
                },
                count,
            )
            if "storage_order" in schema.attributes:
                yield [floats(*shape)], {"kernel_shape": [2] * rank, "storage_order": 1}, count
            if "ceil_mode" in schema.attributes:
                yield (
                    [floats(*shape)],
                    {"kernel_shape": [2] * rank, "strides": [2] * rank, "ceil_mode": 1},
                    count,
                )
        yield [integers(1, 2, 5, 5, high=3).astype(F)], {"kernel_shape": [2, 2]}, count
        yield [-np.ones((1, 1, 3, 3), F)], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, count
        for dtype in dtypes_of(schema):
            yield [floats(1, 2, 5, 5, dtype=dtype)], {"kernel_shape": [2, 2]}, count


@generates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(schema):
    for shape in ((2, 3, 4, 5), (2, 3, 4), (2, 3, 2, 3, 4), (1, 1, 1, 1)):
        yield [floats(*shape)], {}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, 4, 5, dtype=dtype)], {}


@generates("GlobalLpPool")
def global_lp_pool(schema):
    for p in (ABSENT, 1, 2, 3):
        value = p if p is ABSENT or schema.since_version >= 2 else float(p)
        for shape in ((2, 3, 4, 5), (2, 3, 4), (2, 3, 2, 3, 4)):
            yield [floats(*shape)], {"p": value}


@generates("MaxRoiPool")
def max_roi_pool(schema):
    rois = F([[0, 0, 0, 4, 5], [1, 1, 2, 6, 7], [0, 2, 2, 2, 2], [1, 0, 0, 7, 7]])
    for attrs in combined(
        schema, pooled_shape=[[1, 1], [2, 2], [3, 2]], spatial_scale=[ABSENT, 0.5, 1.0]
    ):
        yield [floats(2, 3, 8, 8), rois], attrs


@generates("MaxUnpool")
def max_unpool(schema):
    x = F([[[[1, 2], [3, 4]]]])
    indices = I([[[[5, 7], [13, 15]]]])
    base = {"kernel_shape": [2, 2]}
    yield [x, indices], {**base, "strides": [2, 2]}
    yield [x, I([[[[0, 1], [3, 8]]]])], base
    yield [x, I([[[[0, 1], [3, 4]]]])], {**base, "strides": [2, 2], "pads": [0, 0, 1, 1]}
    yield (
        [floats(2, 3, 2, 2), (np.arange(6).reshape(2, 3, 1, 1) * 16 + I([[0, 3], [9, 14]]))],
        {**base, "strides": [2, 2]},
    )
    yield [floats(1, 1, 3), I([[[0, 3, 5]]])], {"kernel_shape": [2], "strides": [2]}
    yield [x, indices, I([1, 1, 5, 5])], {**base, "strides": [2, 2]}
    yield [x, indices, I([1, 1, 4, 4])], {**base, "strides": [2, 2]}


@generates("Conv")
def conv(schema):
    x, w, b = floats(2, 4, 7, 6), floats(6, 4, 3, 2), floats(6)
    for attrs in _windows(schema, [3, 2]):
        yield [x, w], attrs
        yield [x, w, b], attrs
    yield [x, w], {}
    for group in (2, 4):
        yield [x, floats(8, 4 // group, 3, 2)], {"group": group}
        yield (
            [x, floats(8, 4 // group, 3, 2), floats(8)],
            {"group": group, "pads": [1, 0, 0, 1], "strides": [2, 1], "dilations": [1, 2]},
        )
    for shape in ((2, 4, 9), (1, 4, 4, 5, 6)):
        kernel = (2,) * (len(shape) - 2)
        yield [floats(*shape), floats(3, 4, *kernel)], {}
        yield (
            [floats(*shape), floats(4, 2, *kernel), floats(4)],
            {"group": 2, "strides": [2] * len(kernel)},
        )
        yield [floats(*shape), floats(3, 4, *kernel)], {"auto_pad": "SAME_LOWER"}
    for dtype in dtypes_of(schema):
        yield [floats(1, 2, 5, 5, dtype=dtype), floats(3, 2, 2, 2, dtype=dtype)], {}
    yield [floats(0, 4, 7, 6), w], {}


@generates("ConvTranspose")
def conv_transpose(schema):
    x, w, b = floats(2, 4, 4, 5), floats(4, 6, 3, 2), floats(6)
    choices = {
        "strides": [[2, 2], [1, 3]],
        "pads": [[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 0]],
        "dilations": [[2, 2], [1, 2]],
        "auto_pad": ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"],
    }
    for attrs in each(schema, {}, **choices):
        yield [x, w], attrs
        yield [x, w, b], {**attrs, "kernel_shape": [3, 2]}
    for auto in ("SAME_UPPER", "SAME_LOWER"):
        yield [x, w], {"auto_pad": auto, "strides": [2, 2]}
        yield [x, w], {"auto_pad": auto, "strides": [2, 3], "output_shape": [8, 15]}
        yield [x, w], {"auto_pad": auto, "strides": [2, 3], "output_shape": [9, 14]}
    yield [x, w], {"strides": [2, 2], "output_padding": [1, 1]}
    yield [x, w], {"strides": [3, 2], "output_padding": [2, 0], "pads": [1, 0, 0, 1]}
    yield [x, w], {"strides": [2, 2], "output_shape": [9, 10]}
    yield [x, w], {"strides": [2, 2], "output_shape": [8, 11]}
    for group in (2, 4):
        for per in (1, 2):
            yield [x, floats(4, per, 3, 2)], {"group": group}
            yield (
                [x, floats(4, per, 3, 2), floats(per * group)],
                {"group": group, "strides": [2, 2], "pads": [1, 0, 0, 1], "dilations": [1, 2]},
            )
    for shape in ((2, 4, 6), (1, 4, 3, 2, 3)):
        kernel = (2,) * (len(shape) - 2)
        yield [floats(*shape), floats(4, 3, *kernel)], {"strides": [2] * len(kernel)}
        yield [floats(*shape), floats(4, 3, *kernel)], {"group": 2}
    for dtype in dtypes_of(schema):
        yield [floats(1, 2, 4, 4, dtype=dtype), floats(2, 3, 2, 2, dtype=dtype)], {}


@generates("ConvInteger")
def conv_integer(schema):
    x, w = (
        integers(2, 4, 7, 6, high=255, dtype=np.uint8),
        integers(6, 4, 3, 2, high=255, dtype=np.uint8),
    )
    zero = [np.uint8(3), np.uint8(5)]
    for attrs in _windows(schema, [3, 2]):
        if attrs.get("auto_pad", "NOTSET") != "NOTSET" and "dilations" in attrs:
            continue
        yield [x, w], attrs
        yield [x, w, zero[0]], attrs
    yield [x, w, *zero], {}
    yield [x, w, np.uint8(3), integers(6, high=9, dtype=np.uint8)], {}
    yield [x, integers(4, 2, 3, 2, high=255, dtype=np.uint8), zero[0]], {"group": 2}
    yield [x, integers(4, 4, 3, 2, low=-100, high=100, dtype=np.int8), zero[0]], {}
    yield (
        [
            integers(2, 4, 7, 6, low=-100, high=100, dtype=np.int8),
            integers(4, 4, 3, 2, low=-100, high=100, dtype=np.int8),
        ],
        {},
    )


@generates("MatMulInteger")
def matmul_integer(schema):
    a, b = integers(2, 3, high=255, dtype=np.uint8), integers(3, 4, high=255, dtype=np.uint8)
    s = integers(3, 4, low=-100, high=100, dtype=np.int8)
    yield [a, b], {}
    yield [a, b, np.uint8(3)], {}
    yield [a, b, np.uint8(3), np.uint8(7)], {}
    yield [a, b, None, np.uint8(7)], {}
    yield [a, s, np.uint8(3), np.int8(-7)], {}
    yield [a, s, np.uint8(3), integers(4, high=7, dtype=np.int8)], {}
    yield [a, b, integers(2, 1, high=7, dtype=np.uint8)], {}
    yield [integers(2, 2, 3, high=255, dtype=np.uint8), b, np.uint8(3), np.uint8(9)], {}
    yield [integers(2, 3, low=-100, high=100, dtype=np.int8), s, np.int8(3), np.int8(-7)], {}


def _scales(*values):
    return [F(value) for value in values]


@generates("QLinearConv")
def qlinear_conv(schema):
    x, w = (
        integers(1, 4, 7, 6, high=255, dtype=np.uint8),
        integers(6, 4, 3, 2, high=255, dtype=np.uint8),
    )
    signed = integers(6, 4, 3, 2, low=-100, high=100, dtype=np.int8)

    def call(x, w, wz, bias=None, ws=F(0.02), xz=np.uint8(120), yz=np.uint8(128)):
        inputs = [x, F(0.05), xz, w, ws, wz, F(0.4), yz]
        return [*inputs, bias] if bias is not None else inputs

    for attrs in _windows(schema, [3, 2]):
        if attrs.get("auto_pad", "NOTSET") != "NOTSET" and "dilations" in attrs:
            continue
        yield call(x, w, np.uint8(100)), attrs
    bias = integers(6, low=-500, high=500, dtype=np.int32)
    yield call(x, w, np.uint8(100), bias), {}
    yield call(x, signed, np.int8(0), bias), {}
    yield call(x, signed, np.zeros(6, np.int8), bias, np.linspace(0.01, 0.05, 6, dtype=F)), {}
    yield call(x, integers(4, 2, 3, 2, high=255, dtype=np.uint8), np.uint8(100)), {"group": 2}
    yield (
        call(
            integers(1, 4, 7, 6, low=-100, high=100, dtype=np.int8),
            signed,
            np.int8(0),
            bias,
            xz=np.int8(3),
            yz=np.int8(-2),
        ),
        {},
    )


@generates("QLinearMatMul")
def qlinear_matmul(schema):
    a, b = integers(2, 3, high=255, dtype=np.uint8), integers(3, 4, high=255, dtype=np.uint8)
    s = integers(3, 4, low=-100, high=100, dtype=np.int8)
    yield [a, F(0.05), np.uint8(120), b, F(0.02), np.uint8(100), F(0.1), np.uint8(128)], {}
    yield [a, F(0.05), np.uint8(120), s, F(0.02), np.int8(-3), F(0.01), np.uint8(128)], {}
    yield (
        [
            a,
            F(0.05),
            np.uint8(120),
            s,
            np.linspace(0.01, 0.05, 4, dtype=F),
            np.zeros(4, np.int8),
            F(0.1),
            np.uint8(128),
        ],
        {},
    )
    yield (
        [
            integers(2, 3, low=-100, high=100, dtype=np.int8),
            F(0.05),
            np.int8(2),
            s,
            F(0.02),
            np.int8(-3),
            F(0.1),
            np.int8(-1),
        ],
        {},
    )
    yield (
        [
            integers(2, 2, 3, high=255, dtype=np.uint8),
            F(0.05),
            np.uint8(120),
            b,
            F(0.02),
            np.uint8(100),
            F(0.1),
            np.uint8(128),
        ],
        {},
    )


@generates("QuantizeLinear")
def quantize(schema):
    version = schema.since_version
    x = F([[0, 1.5, -3.2, 100], [0.25, -0.25, 0.75, 1000], [-1000, 2.5, 3.5, np.inf]])
    for zero in (
        None,
        np.uint8(0),
        np.uint8(128),
        np.int8(-3),
        *([np.uint16(300), np.int16(-5)] if version >= 21 else []),
    ):
        yield ([x, F(0.5)] if zero is None else [x, F(0.5), zero]), {}
    yield [np.int32([1, 5, -3]), F(2), np.uint8(3)], {}
    if version >= 13:
        for axis in (ABSENT, 0, 1, -1, -2):
            size = x.shape[axis if axis is not ABSENT else 1]
            yield (
                [x, np.linspace(0.1, 2, size, dtype=F), integers(size, high=200, dtype=np.uint8)],
                {"axis": axis},
            )
            yield [x, np.linspace(0.1, 2, size, dtype=F)], {"axis": axis}
    if version >= 19:
        yield [x.astype(np.float16), np.float16(0.5), np.uint8(3)], {}
        import ml_dtypes as m

        for dtype in (m.float8_e4m3fn, m.float8_e5m2, m.float8_e4m3fnuz, m.float8_e5m2fnuz):
            for saturate in (ABSENT, 0, 1):
                yield [x, F(0.5), np.zeros((), dtype)], {"saturate": saturate}
    if version >= 21:
        import ml_dtypes as m

        for dtype in (m.int4, m.uint4):
            yield [x, F(0.5), np.zeros((), dtype)], {}
        for number in (2, 3, 4, 5):
            yield [x, F(0.5)], {"output_dtype": number}
        for axis in (0, 1, -1):
            block = 3 if axis == 0 else 2
            scale = floats(1, 4, low=0.5) if axis == 0 else floats(3, 2, low=0.5)
            yield [x, scale], {"axis": axis, "block_size": block}
            yield [x, scale, np.full(scale.shape, 3, np.int8)], {"axis": axis, "block_size": block}
    if version >= 23:
        for precision in (1, 10):
            yield [x, F(0.5), np.uint8(3)], {"precision": precision}


@generates("DequantizeLinear")
def dequantize(schema):
    version = schema.since_version
    for dtype in dtypes_of(schema):
        if dtype is np.int32:
            yield [integers(3, 4, low=-1000, high=1000, dtype=dtype), F(0.5)], {}
            continue
        x = integers(3, 4, high=100, dtype=dtype)
        yield [x, F(0.5)], {}
        yield [x, F(0.5), dtype(3)], {}
    x = integers(3, 4, high=255, dtype=np.uint8)
    if version >= 13:
        for axis in (ABSENT, 0, 1, -1, -2):
            size = x.shape[axis if axis is not ABSENT else 1]
            yield (
                [x, np.linspace(0.1, 2, size, dtype=F), integers(size, high=200, dtype=np.uint8)],
                {"axis": axis},
            )
            yield [x, np.linspace(0.1, 2, size, dtype=F)], {"axis": axis}
    yield [np.uint8(7), F(0.5), np.uint8(3)], {}
    yield [integers(5, high=200, dtype=np.uint8), F(0.25), np.uint8(3)], {}
    if version >= 19:
        import ml_dtypes as m

        yield [x, np.float16(0.5), np.uint8(3)], {}
        for dtype in (m.float8_e4m3fn, m.float8_e5m2, m.float8_e4m3fnuz, m.float8_e5m2fnuz):
            yield [floats(3, 4).astype(dtype), F(0.5)], {}
    if version >= 21:
        for axis in (0, 1, -1):
            block = 3 if axis == 0 else 2
            scale = floats(1, 4, low=0.5) if axis == 0 else floats(3, 2, low=0.5)
            yield [x, scale], {"axis": axis, "block_size": block}
            yield [x, scale, np.full(scale.shape, 3, np.uint8)], {"axis": axis, "block_size": block}
        for dtype in (m.int4, m.uint4):
            yield [integers(3, 4, high=7, dtype=np.int8).astype(dtype), F(0.5)], {}
    if version >= 23:
        yield [x, F(0.5), np.uint8(3)], {"output_dtype": 10}
        yield [x, F(0.5), np.uint8(3)], {"output_dtype": 1}


@generates("DynamicQuantizeLinear")
def dynamic_quantize(schema):
    for x in (floats(3, 4), floats(5, low=0.5), floats(5, low=-3, high=-1), floats(), F([0.5])):
        yield [x], {}, 3


# ---- normalizations ----------------------------------------------------------------------------


@generates("BatchNormalization")
def batch_normalization(schema):
    version = schema.since_version
    hint = {"consumed_inputs": [0, 0, 0, 1, 1]} if version < 6 else {}

    def stats(count=3, dtype=F):
        return [
            floats(count, low=0.5, dtype=dtype),
            floats(count, low=-1, dtype=dtype),
            floats(count, low=-0.5, dtype=dtype),
            floats(count, low=0.2, dtype=dtype),
        ]

    for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 4)):
        for epsilon in (ABSENT, 0.1):
            attrs = {"epsilon": epsilon, **hint}
            x = floats(*shape)
            if version < 7:
                yield [x, *stats()], {**attrs, "is_test": 1}
                yield [x, *stats()], {**attrs, "is_test": 1, "spatial": 1}
                for momentum in (ABSENT, 0.5):
                    yield [x, *stats()], {**attrs, "is_test": 0, "momentum": momentum}, 5
                continue
            yield [x, *stats()], attrs
            if version < 14:
                for momentum in (ABSENT, 0.5):
                    yield [x, *stats()], {**attrs, "momentum": momentum}, 5
            else:
                yield [x, *stats()], {**attrs, "training_mode": 0}
                for momentum in (ABSENT, 0.5):
                    yield [x, *stats()], {**attrs, "momentum": momentum, "training_mode": 1}, 3
    if version < 9:
        x = floats(2, 3, 4)
        rest = [floats(3, 4, low=0.5), floats(3, 4), floats(3, 4, low=-0.5), floats(3, 4, low=0.2)]
        test = {"is_test": 1} if version < 7 else {}
        yield [x, *rest], {"spatial": 0, **hint, **test}
        yield [floats(2, 3, 4), *stats()], {"spatial": 1, **hint, **test}
    for dtype in dtypes_of(schema):
        test = {"is_test": 1} if version < 7 else {}
        yield [floats(2, 3, 4, dtype=dtype), *stats(dtype=dtype)], {**hint, **test}


@generates("InstanceNormalization")
def instance_normalization(schema):
    for shape in ((2, 3, 4, 5), (2, 3, 4)):
        for attrs in combined(schema, epsilon=[ABSENT, 0.1], consumed_inputs=[ABSENT, [0, 0, 0]]):
            yield [floats(*shape), floats(3, low=0.5), floats(3)], attrs
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, 4, dtype=dtype), floats(3, dtype=dtype), floats(3, dtype=dtype)], {}


@generates("LayerNormalization", "RMSNormalization")
def layer_normalization(schema):
    rms = schema.name.startswith("RMS")
    for axis in (ABSENT, 0, 1, 2, -1, -2):
        shape = (2, 3, 4)[axis if axis is not ABSENT else 2 :]
        for epsilon in (ABSENT, 0.1):
            attrs = {"axis": axis, "epsilon": epsilon}
            x, scale, bias = floats(2, 3, 4), floats(*shape, low=0.5), floats(*shape)
            yield [x, scale], attrs
            if not rms:
                yield [x, scale, bias], attrs
                yield [x, scale, bias], attrs, 3
    for dtype in dtypes_of(schema):
        for stash in (ABSENT, 1):
            yield [floats(2, 3, 4, dtype=dtype), floats(4, dtype=dtype)], {"stash_type": stash}
    yield [floats(2, 3, 4), floats(1)], {}


@generates("GroupNormalization")
def group_normalization(schema):
    for groups in (1, 2, 4):
        for epsilon in (ABSENT, 0.1):
            yield (
                [floats(2, 4, 3, 2), floats(4, low=0.5), floats(4)],
                {"num_groups": groups, "epsilon": epsilon},
            )
            yield (
                [floats(2, 4, 3), floats(4, low=0.5), floats(4)],
                {"num_groups": groups, "epsilon": epsilon},
            )
    for dtype in dtypes_of(schema):
        for stash in (ABSENT, 1):
            yield (
                [floats(2, 4, 3, dtype=dtype), floats(4, dtype=dtype), floats(4, dtype=dtype)],
                {"num_groups": 2, "stash_type": stash},
            )


@generates("LRN")
def lrn(schema):
    for attrs in combined(
        schema, size=[1, 3, 5], alpha=[ABSENT, 0.5], beta=[ABSENT, 0.5], bias=[ABSENT, 2.0]
    ):
        yield [floats(2, 6, 3, 4)], attrs
    yield [floats(2, 6, 3)], {"size": 3}
    yield [floats(2, 6)], {"size": 3}
    yield [floats(2, 6, 3, 2)], {"size": 2, "alpha": 0.5}


# ---- sampling ----------------------------------------------------------------------------------


@generates("Upsample")
def upsample(schema):
    version = schema.since_version
    for mode in (ABSENT, "nearest", "bilinear" if version < 7 else "linear"):
        for scales in (
            [1.0, 1.0, 2.0, 3.0],
            [1.0, 1.0, 1.5, 2.5],
            [1.0, 1.0, 1.0, 1.0],
            [1.0, 1.0, 1.6, 1.0],
        ):
            x = floats(1, 2, 3, 4)
            if version == 1:
                yield [x], {"mode": mode, "height_scale": scales[2], "width_scale": scales[3]}
            elif version < 9:
                yield [x], {"mode": mode, "scales": scales}
            else:
                yield [x, F(scales)], {"mode": mode}
    if version == 7:
        yield [floats(3)], {"scales": [2.0]}
        yield [floats(2, 3)], {"scales": [2.0, 1.5]}
    if version == 9:
        yield [floats(3), F([2.0])], {}
        yield [floats(2, 3), F([2.0, 1.5])], {"mode": "linear"}


@generates("Resize")
def resize(schema):
    version = schema.since_version
    all_scales = [[1, 1, 2, 3], [1, 1, 1.5, 0.6], [1, 1, 0.5, 0.4], [1, 1, 1, 1], [1, 1, 3.3, 1]]
    if version == 10:
        for mode in (ABSENT, "nearest", "linear"):
            for scales in all_scales:
                yield [floats(1, 2, 5, 4), F(scales)], {"mode": mode}
        yield [floats(5), F([2])], {}
        yield [floats(5, 3), F([2, 0.5])], {"mode": "linear"}
        return
    no_roi = np.zeros(0, F) if version < 13 else None
    x = floats(1, 2, 5, 4)
    systems = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    systems += ["tf_half_pixel_for_nn"] if version < 13 else []
    systems += ["half_pixel_symmetric"] if version >= 19 else []
    for mode in (ABSENT, "nearest", "linear", "cubic"):
        for system in (ABSENT, *systems):
            for scales in all_scales:
                attrs = {"mode": mode, "coordinate_transformation_mode": system}
                yield [x, no_roi, F(scales)], attrs
            for sizes in ([1, 2, 7, 9], [1, 2, 3, 2], [1, 2, 1, 1]):
                yield [x, no_roi, np.zeros(0, F) if version < 13 else None, I(sizes)], attrs
    for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for system in systems:
            for scales in all_scales:
                yield (
                    [x, no_roi, F(scales)],
                    {
                        "mode": "nearest",
                        "nearest_mode": mode,
                        "coordinate_transformation_mode": system,
                    },
                )
    for coefficient in (-0.5, -0.75):
        for outside in (0, 1):
            for scales in all_scales:
                yield (
                    [x, no_roi, F(scales)],
                    {"mode": "cubic", "cubic_coeff_a": coefficient, "exclude_outside": outside},
                )
    roi = F([0, 0, 0.2, 0.1, 1, 1, 0.7, 0.9])
    wide = F([0, 0, -0.4, 0.1, 1, 1, 1.3, 0.9])
    for mode in ("nearest", "linear", "cubic"):
        for area in (roi, wide):
            for value in (ABSENT, 9.0):
                attrs = {
                    "mode": mode,
                    "coordinate_transformation_mode": "tf_crop_and_resize",
                    "extrapolation_value": value,
                }
                yield [x, area, np.zeros(0, F) if version < 13 else None, I([1, 2, 3, 3])], attrs
                yield [x, area, F([1, 1, 0.8, 1.5])], attrs
    yield [floats(5), no_roi, F([2])], {"mode": "linear"}
    yield [floats(5, 3), no_roi, F([2, 0.5])], {"mode": "linear"}
    if version < 18:
        return
    for mode in ("linear", "cubic", "nearest"):
        for antialias in (0, 1):
            for scales in all_scales:
                yield [x, None, F(scales)], {"mode": mode, "antialias": antialias}
            yield [x, None, None, I([1, 2, 3, 3])], {"mode": mode, "antialias": antialias}
    for axes in ([2, 3], [3, 2], [-1, -2], [2]):
        yield [x, None, F([2, 0.6][: len(axes)])], {"axes": axes, "mode": "linear"}
        yield [x, None, None, I([7, 3][: len(axes)])], {"axes": axes}
    for policy in ("stretch", "not_larger", "not_smaller"):
        yield [x, None, None, I([7, 9])], {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
        yield (
            [x, None, None, I([3, 2])],
            {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"},
        )
    area = F([0.2, 0.1, 0.7, 0.9])
    yield (
        [x, area, None, I([3, 3])],
        {"axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
    )


@generates("GridSample")
def grid_sample(schema):
    version = schema.since_version
    modes = ["bilinear", "nearest", "bicubic"] if version < 20 else ["linear", "nearest", "cubic"]
    for attrs in combined(
        schema,
        mode=[ABSENT, *modes],
        padding_mode=[ABSENT, "zeros", "border", "reflection"],
        align_corners=[ABSENT, 0, 1],
    ):
        yield [floats(2, 3, 4, 5), floats(2, 3, 2, 2, low=-1.4, high=1.4)], attrs
    if version >= 20:
        for attrs in combined(
            schema,
            mode=modes[:2],
            padding_mode=["zeros", "border", "reflection"],
            align_corners=[0, 1],
        ):
            yield [floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3, low=-1.4, high=1.4)], attrs
    yield [floats(1, 1, 3, 3), F([[[[-1, -1], [1, 1], [0, 0], [0.5, -0.5]]]])], {"mode": "nearest"}


@generates("AffineGrid")
def affine_grid(schema):
    for align in (ABSENT, 0, 1):
        yield [floats(2, 2, 3), I([2, 3, 4, 5])], {"align_corners": align}
        yield [floats(1, 3, 4), I([1, 2, 3, 4, 5])], {"align_corners": align}
        yield [floats(1, 2, 3), I([1, 1, 2, 2])], {"align_corners": align}


@generates("RoiAlign")
def roi_align(schema):
    rois = F([[0.3, 0.2, 4.1, 5.2], [1, 2, 6.5, 7.9], [2.2, 2.2, 2.4, 2.4], [-1.5, -1, 9, 9]])
    for attrs in combined(
        schema,
        mode=[ABSENT, "avg", "max"],
        coordinate_transformation_mode=[ABSENT, "half_pixel", "output_half_pixel"],
        sampling_ratio=[ABSENT, 2],
        spatial_scale=[ABSENT, 0.5],
    ):
        for sizes in ({}, {"output_height": 2, "output_width": 3}):
            yield [floats(2, 3, 8, 8), rois, I([0, 1, 0, 1])], {**attrs, **sizes}


@generates("Det")
def determinant(schema):
    for dtype in dtypes_of(schema):
        yield [floats(3, 3, dtype=dtype)], {}
    for shape in ((1, 1), (2, 2), (2, 3, 4, 4), (0, 2, 2), (5, 2, 2)):
        yield [floats(*shape)], {}
    yield [np.ones((2, 2), F)], {}


@generates("DeformConv")
def deform_conv(schema):
    x, w, offset = floats(1, 2, 5, 5), floats(3, 2, 2, 2), floats(1, 8, 4, 4, low=-1, high=1)
    yield [x, w, offset], {}
    yield [x, w, offset], {"kernel_shape": [2, 2]}
    yield [x, w, offset, floats(3)], {}
    yield [x, w, offset, floats(3), floats(1, 4, 4, 4, low=0)], {}
    yield [x, w, offset, None, floats(1, 4, 4, 4, low=0)], {}
    yield [x, w, floats(1, 8, 6, 6, low=-1, high=1)], {"pads": [1, 1, 1, 1]}
    yield [x, w, floats(1, 8, 2, 3, low=-1, high=1)], {"strides": [2, 2], "pads": [0, 1, 0, 1]}
    yield [x, w, floats(1, 8, 3, 3, low=-1, high=1)], {"dilations": [2, 2]}
    yield [x, floats(4, 1, 2, 2), offset], {"group": 2}
    yield [x, w, floats(1, 16, 4, 4, low=-1, high=1)], {"offset_group": 2}


@generates("NonMaxSuppression")
def suppression(schema):
    corners = F(
        [
            [
                [0, 0, 1, 1],
                [0, 0.1, 1, 1.1],
                [0, -0.1, 1, 0.9],
                [0, 10, 1, 11],
                [1, 1, 0, 0],
                [0, 100, 1, 101],
            ]
        ]
    )
    scores = F([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.9, 0.9, 0.2, 0.3, 0.3]]])
    for center in (ABSENT, 0, 1):
        for count in (I([3]), I([0]), I(2), I([10])):
            for overlap in (None, F([0.5]), F([0.0]), F(0.9)):
                for threshold in (None, F([0.0]), F([0.4]), F([-1.0])):
                    yield [corners, scores, count, overlap, threshold], {"center_point_box": center}
        yield [corners, scores], {"center_point_box": center}
    yield [floats(2, 5, 4), floats(2, 3, 5, low=0), I([3]), F([0.3])], {"center_point_box": 1}


# ---- recurrences -------------------------------------------------------------------------------

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


@generates("RNN", "GRU", "LSTM")
def recurrence(schema):
    name, version = schema.name, schema.since_version
    gates, count = _GATES[name], _ACTIVATIONS[name]
    steps, batch, size, hidden = 4, 3, 2, 5
    default = {"hidden_size": hidden}
    outputs = 3 if name == "LSTM" else 2
    if version < 7:
        default["output_sequence"] = 1

    def call(
        directions=1, bias=True, lengths=None, initial=False, peepholes=False, layout=0, **attrs
    ):
        x = floats(steps, batch, size)
        inputs = [
            x,
            floats(directions, gates * hidden, size, low=-1, high=1),
            floats(directions, gates * hidden, hidden, low=-0.8, high=0.8),
        ]
        inputs.append(floats(directions, 2 * gates * hidden, low=-0.5, high=0.5) if bias else None)
        inputs.append(lengths)
        state = floats(directions, batch, hidden, low=-1, high=1) if initial else None
        cell = floats(directions, batch, hidden, low=-1.5, high=1) if initial else None
        if layout:
            inputs[0] = np.ascontiguousarray(x.swapaxes(0, 1))
            state, cell = (
                None if s is None else np.ascontiguousarray(s.swapaxes(0, 1)) for s in (state, cell)
            )
            attrs["layout"] = 1
        inputs.append(state)
        if name == "LSTM":
            inputs.append(cell)
            inputs.append(floats(directions, 3 * hidden, low=-1, high=1) if peepholes else None)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return inputs, {**default, **attrs}, outputs

    lengths = np.int32([4, 2, 3])
    places = {"forward": 1, "reverse": 1, "bidirectional": 2}
    variants = [{}]
    if "linear_before_reset" in schema.attributes:
        variants += [{"linear_before_reset": 1}]
    if "input_forget" in schema.attributes:
        variants += [{"input_forget": 1}]
    for variant in variants:
        for direction, directions in places.items():
            if version == 1 and name == "GRU" and direction == "forward":
                direction = "forward"
            attrs = {"direction": direction, **variant}
            for bias in (True, False):
                for given in (None, lengths):
                    for initial in (False, True):
                        yield call(directions, bias, given, initial, **attrs)
            yield call(directions, clip=0.3, **attrs)
            yield call(directions, lengths=lengths, initial=True, clip=0.3, **attrs)
            if name == "LSTM":
                yield call(directions, initial=True, peepholes=True, **attrs)
                yield call(
                    directions, lengths=lengths, initial=True, peepholes=True, clip=0.5, **attrs
                )
            kinds = [
                ["Tanh", "Sigmoid", "Relu"],
                ["Relu", "Tanh", "Tanh"],
                ["Sigmoid", "Softsign", "Softplus"],
                ["HardSigmoid", "Elu", "Affine"],
                ["LeakyRelu", "ScaledTanh", "ThresholdedRelu"],
                ["Affine", "LeakyRelu", "HardSigmoid"],
                ["Elu", "ThresholdedRelu", "ScaledTanh"],
            ]
            for kind in kinds:
                yield call(
                    directions,
                    initial=True,
                    activations=kind[:count] * directions,
                    **_parameters(kind[:count] * directions),
                    **attrs,
                )
            yield call(
                directions,
                initial=True,
                activations=["HardSigmoid", "Elu", "LeakyRelu"][:count] * directions,
                **attrs,
            )
            if "layout" in schema.attributes:
                yield call(directions, layout=1, **attrs)
                yield call(directions, layout=1, initial=True, lengths=lengths, **attrs)
    for number in range(1, outputs + 1):
        yield *call()[:2], number
    if version < 7:
        yield call(output_sequence=0)[0], {"hidden_size": hidden, "output_sequence": 0}, 2
    steps = 1
    yield call()
    inputs, attrs, _ = call()
    yield inputs, {key: value for key, value in attrs.items() if key != "hidden_size"}, outputs


_ALPHA = {
    "Affine": 0.9,
    "LeakyRelu": 0.05,
    "ThresholdedRelu": 0.2,
    "ScaledTanh": 1.1,
    "HardSigmoid": 0.3,
    "Elu": 0.7,
}
_BETA = {"Affine": 0.1, "ScaledTanh": 0.8, "HardSigmoid": 0.4}


def _parameters(activations):
    """The numbers of those activations that take some."""
    alphas = [_ALPHA[name] for name in activations if name in _ALPHA]
    betas = [_BETA[name] for name in activations if name in _BETA]
    found = {}
    if alphas:
        found["activation_alpha"] = alphas
    if betas:
        found["activation_beta"] = betas
    return found


# ---- losses ------------------------------------------------------------------------------------


@generates("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(schema):
    both = schema.name.startswith("Softmax")
    for shape in ((3, 5), (3, 5, 2), (2, 5, 2, 3)):
        scores = floats(*shape)
        target = integers(shape[0], *shape[2:], high=5)
        for attrs in combined(
            schema, reduction=[ABSENT, "none", "mean", "sum"], ignore_index=[ABSENT, 1, -1]
        ):
            labels = (
                np.where(target == 1, attrs["ignore_index"], target)
                if attrs["ignore_index"] is not ABSENT
                else target
            )
            for weights in (None, floats(5, low=0.2)):
                inputs = [scores, labels] if weights is None else [scores, labels, weights]
                yield inputs, attrs
                if both:
                    yield inputs, attrs, 2
    for dtype in dtypes_of(schema):
        yield [floats(3, 5, dtype=dtype), np.int32([0, 3, 4])], {}


# ---- attention ---------------------------------------------------------------------------------


@generates("Attention")
def attention(schema):
    version = schema.since_version
    q, k, v = floats(2, 4, 3, 8), floats(2, 4, 5, 8), floats(2, 4, 5, 6)
    flat = floats(2, 3, 32), floats(2, 5, 32), floats(2, 5, 24)
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    for attrs in each(
        schema,
        {},
        scale=[0.3],
        is_causal=[0, 1],
        softcap=[2.0],
        softmax_precision=[1, 11, 10],
        left_window_size=[0, 1, 2],
        right_window_size=[0, 1],
    ):
        for mask in (
            None,
            floats(3, 5),
            floats(3, 5) > -1,
            floats(2, 1, 3, 5),
            floats(2, 4, 3, 5),
            floats(1, 1, 3, 5) > -1,
        ):
            yield [q, k, v, *([] if mask is None else [mask])], attrs
            yield [*flat, *([] if mask is None else [mask])], {**attrs, **heads}
    yield (
        [q, k, v],
        {"left_window_size": 1, "right_window_size": 0}
        if version >= 25
        else {"is_causal": 1, "scale": 0.1},
    )
    for group in (1, 2):
        yield [q, floats(2, group, 5, 8), floats(2, group, 5, 6)], {}
        yield (
            [flat[0], floats(2, 5, 8 * group), floats(2, 5, 6 * group)],
            {"q_num_heads": 4, "kv_num_heads": group},
        )
        yield (
            [q, floats(2, group, 5, 8), floats(2, group, 5, 6), floats(3, 5)],
            {"is_causal": 1, "softcap": 1.5},
        )
    for mode in (ABSENT, 0, 1, 2, 3):
        for causal in (0, 1):
            for mask in (None, floats(3, 5), floats(3, 5) > -1):
                for cap in (ABSENT, 2.0):
                    yield (
                        [q, k, v, mask],
                        {"qk_matmul_output_mode": mode, "is_causal": causal, "softcap": cap},
                        4,
                    )
    past = floats(2, 4, 2, 8), floats(2, 4, 2, 6)
    for causal in (ABSENT, 1):
        for mask in (None, floats(3, 7), floats(2, 4, 3, 7)):
            for outputs in (1, 3, 4):
                yield [q, k, v, mask, *past], {"is_causal": causal}, outputs
                yield [*flat, mask, *past], {"is_causal": causal, **heads}, outputs
    yield [floats(2, 4, 1, 8), k, v], {"is_causal": 1}
    yield [floats(2, 4, 7, 8), k, v], {"is_causal": 1}
    if version >= 24:
        for causal in (0, 1):
            yield [q, k, v, None, None, None, I([3, 5])], {"is_causal": causal}
            yield [q, k, v, floats(3, 5), None, None, I([4, 5])], {"is_causal": causal}
            yield [*flat, None, None, None, I([3, 5])], {"is_causal": causal, **heads}
        yield [q, k, v, floats(3, 4)], {}
    yield [q, k, v, np.zeros((3, 5), bool)], {}
    for dtype in dtypes_of(schema):
        yield (
            [
                floats(2, 4, 3, 8, dtype=dtype),
                floats(2, 4, 5, 8, dtype=dtype),
                floats(2, 4, 5, 6, dtype=dtype),
            ],
            {},
        )


@generates("RotaryEmbedding")
def rotary(schema):
    positions = I([[0, 1, 2], [2, 0, 4]])
    for interleaved in (ABSENT, 0, 1):
        for partial in (ABSENT, 4):
            half = 4 if partial is ABSENT else 2
            attrs = {"interleaved": interleaved, "rotary_embedding_dim": partial}
            cache = floats(6, half), floats(6, half, low=-1)
            direct = floats(2, 3, half), floats(2, 3, half, low=-1)
            yield [floats(2, 4, 3, 8), *cache, positions], attrs
            yield [floats(2, 4, 3, 8), *direct], attrs
            yield [floats(2, 3, 32), *cache, positions], {**attrs, "num_heads": 4}
            yield [floats(2, 3, 32), *direct], {**attrs, "num_heads": 4}
    for dtype in dtypes_of(schema):
        yield (
            [
                floats(2, 4, 3, 8, dtype=dtype),
                floats(6, 4, dtype=dtype),
                floats(6, 4, low=-1, dtype=dtype),
                positions,
            ],
            {},
        )


@generates("LinearAttention")
def linear_attention(schema):
    batch, steps, d_k, d_v = 2, 3, 4, 5
    for rule in (ABSENT, "linear", "gated", "delta", "gated_delta"):
        for q_heads, kv_heads in ((2, 2), (4, 2), (2, 1)):
            for past in (None, floats(batch, kv_heads, d_k, d_v)):
                for scale in (ABSENT, 0.3):
                    q, k, v = (
                        floats(batch, steps, q_heads * d_k),
                        floats(batch, steps, kv_heads * d_k, low=-1, high=1),
                        floats(batch, steps, kv_heads * d_v),
                    )
                    decays = (
                        [None]
                        if rule in ("linear", "delta")
                        else [
                            floats(batch, steps, kv_heads * d_k, low=-1, high=0),
                            floats(batch, steps, kv_heads, low=-1, high=0),
                        ]
                    )
                    betas = (
                        [None]
                        if rule in ("linear", "gated")
                        else [
                            floats(batch, steps, kv_heads, low=0, high=1),
                            floats(batch, steps, 1, low=0, high=1),
                        ]
                    )
                    for decay in decays:
                        for beta in betas:
                            attrs = {
                                "update_rule": rule,
                                "q_num_heads": q_heads,
                                "kv_num_heads": kv_heads,
                                "scale": scale,
                            }
                            yield [q, k, v, past, decay, beta], attrs, 2
                            yield [q, k, v, past, decay, beta], {**attrs, "chunk_size": 2}, 2


@generates("FlexAttention", domain="ai.onnx.preview")
def flex_attention(schema):
    tanh = onnx.parser.parse_graph("tanh (float[b,h,n,m] s) => (float[b,h,n,m] t) { t = Tanh (s) }")
    twice = onnx.parser.parse_graph(
        "twice (float[b,h,n,m] s) => (float[b,h,n,m] t) { t = Add (s, s) }"
    )
    for q_heads, kv_heads in ((2, 2), (4, 2), (3, 1)):
        for dtype in dtypes_of(schema):
            q = floats(2, q_heads, 3, 4, dtype=dtype)
            k = floats(2, kv_heads, 5, 4, low=-1, dtype=dtype)
            v = floats(2, kv_heads, 5, 6, dtype=dtype)
            for scale in (ABSENT, 0.3):
                yield [q, k, v], {"scale": scale}
        q, k, v = floats(2, q_heads, 3, 4), floats(2, kv_heads, 5, 4), floats(2, kv_heads, 5, 6)
        for score_mod, prob_mod in ((tanh, ABSENT), (ABSENT, twice), (tanh, twice)):
            yield [q, k, v], {"score_mod": score_mod, "prob_mod": prob_mod}
        for precision in (1, 11):
            yield [q, k, v], {"softmax_precision": precision}


@generates("CausalConvWithState")
def causal_conv(schema):
    for activation in (ABSENT, "none", "silu", "swish"):
        for bias in (None, floats(3)):
            for past in (None, floats(2, 3, 3)):
                for steps in (1, 2, 6):
                    yield (
                        [floats(2, 3, steps), floats(3, 1, 4), bias, past],
                        {"activation": activation},
                        2,
                    )
    yield [floats(2, 3, 4), floats(3, 1, 1)], {}, 2


# ---- images and texts --------------------------------------------------------------------------


PIXELS = integers(4, 5, 3, high=255, dtype=np.uint8)


def picture(kind):
    """An encoded picture."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, format=kind)
    return np.frombuffer(buffer.getvalue(), np.uint8)


@generates("ImageDecoder")
def image_decoder(schema):
    for kind in ("PNG", "BMP", "PPM", "TIFF"):
        for pixel in (ABSENT, "RGB", "BGR", "Grayscale"):
            yield [picture(kind)], {"pixel_format": pixel}


def _texts(*values):
    return np.array(values, object)


@generates("RegexFullMatch")
def regex(schema):
    for pattern in (r"[a-z]+\d", "", ".*", r"www\..*", "a|b"):
        yield [_texts("ab1", "", "www.x", "a", "aB1", "a\nb")], {"pattern": pattern}
    yield [np.array("a", object)], {"pattern": "a"}
    yield [_texts("ab1", "x")], {}


@generates("StringConcat")
def string_concat(schema):
    yield [_texts("a", "b", ""), _texts("x", "", "é")], {}
    yield [_texts("a", "b"), np.array("x", object)], {}
    yield [_texts("a", "b").reshape(2, 1), _texts("c", "d", "e")], {}


@generates("StringSplit")
def string_split(schema):
    for attrs in combined(
        schema, delimiter=[ABSENT, "", ",", " ", "--"], maxsplit=[ABSENT, 0, 1, 2]
    ):
        yield [_texts("a,b,c", " a  b ", "", "x--y--z", "a, b")], attrs, 2
        yield [_texts("a,b", "c").reshape(2, 1)], attrs, 2


@generates("StringNormalizer")
def string_normalizer(schema):
    for attrs in combined(
        schema,
        case_change_action=[ABSENT, "NONE", "LOWER", "UPPER"],
        is_case_sensitive=[ABSENT, 0, 1],
        stopwords=[ABSENT, ["Monday"], ["monday", "b"]],
        locale=[ABSENT, "en_US"],
    ):
        yield [_texts("Monday", "tuesday", "B", "Éa")], attrs
        yield [_texts("Monday", "tuesday").reshape(1, 2)], attrs


@generates("TfIdfVectorizer")
def tf_idf(schema):
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]
    base = {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 4],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
        "pool_int64s": pool,
    }
    x = np.int32([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    for mode in ("TF", "IDF", "TFIDF"):
        for weights in (ABSENT, [0.5, 1, 2, 3, 4, 5, 6.0]):
            for skip in (0, 1, 5):
                for lengths in ((1, 1), (1, 2), (2, 2)):
                    attrs = {
                        **base,
                        "mode": mode,
                        "weights": weights,
                        "max_skip_count": skip,
                        "min_gram_length": lengths[0],
                        "max_gram_length": lengths[1],
                    }
                    yield [x], attrs
                    yield [x[0].astype(np.int64)], attrs
    texts = {key: value for key, value in base.items() if key != "pool_int64s"}
    texts["pool_strings"] = [str(n) for n in pool]
    yield [x.astype(str).astype(object)], {**texts, "mode": "TF"}
    yield [x], {**base, "mode": "TF", "ngram_indexes": [6, 5, 4, 3, 2, 1, 0]}

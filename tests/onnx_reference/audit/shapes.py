"""Calls of operators that move, choose or count elements."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from audit.cases import ABSENT, SPECIAL, combined, dtypes_of, floats, generates, integers

F = np.float32
I = np.int64  # noqa: E741


def _texts(*shape):
    count = int(np.prod(shape))
    return np.array([f"s{n}" for n in range(count)], object).reshape(shape)


@generates("Reshape")
def reshape(schema):
    shapes = [[4, 6], [-1], [0, -1], [2, 0, 4], [1, 24, 1], [2, 3, 2, 2]]
    if schema.since_version < 5:
        for shape in shapes:
            yield [floats(2, 3, 4)], {"shape": shape}
        yield [floats(2, 3, 4)], {"shape": [24], "consumed_inputs": [0]}
        return
    for attrs in combined(schema, allowzero=[ABSENT, 0]):
        for shape in shapes:
            yield [floats(2, 3, 4), I(shape)], attrs
        yield [floats(), I([1, 1])], attrs
        yield [floats(1), np.zeros(0, I)], attrs
        yield [floats(0, 3), I([0, 3])], attrs
        yield [floats(0, 3), I([0, 1, 3])], attrs
    if "allowzero" in schema.attributes:
        yield [floats(0, 3), I([3, 0])], {"allowzero": 1}
        yield [floats(2, 0, 3), I([0, 6])], {"allowzero": 1}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype), I([3, 2])], {}
    yield [_texts(2, 3), I([6])], {}


@generates("Flatten")
def flatten(schema):
    axes = [ABSENT, 0, 1, 2, 3, *([-1, -3] if schema.since_version >= 11 else [])]
    for axis in axes:
        yield [floats(2, 3, 4)], {"axis": axis}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype)], {}
    yield [floats()], {"axis": 0}
    yield [floats(2, 0, 3)], {"axis": 2}


@generates("Squeeze")
def squeeze(schema):
    x = floats(1, 3, 1, 2, 1)
    choices = [
        ABSENT,
        [0],
        [2],
        [0, 4],
        [4, 0],
        *([[-1], [-3, 0]] if schema.since_version >= 11 else []),
    ]
    for axes in choices:
        if schema.since_version >= 13:
            yield ([x] if axes is ABSENT else [x, I(axes)]), {}
        else:
            yield [x], {"axes": axes}
    yield [floats(1)], {}
    for dtype in dtypes_of(schema):
        yield [floats(1, 3, dtype=dtype)], {}


@generates("Unsqueeze")
def unsqueeze(schema):
    for axes in [
        [0],
        [2],
        [0, 3],
        [3, 0],
        [1, 2],
        *([[-1], [-1, 0], [-2]] if schema.since_version >= 11 else []),
    ]:
        if schema.since_version >= 13:
            yield [floats(3, 2), I(axes)], {}
        else:
            yield [floats(3, 2)], {"axes": axes}
    x = [floats()], [I([0])]
    yield (x[0] + x[1], {}) if schema.since_version >= 13 else (x[0], {"axes": [0]})


@generates("Transpose")
def transpose(schema):
    for perm in (ABSENT, [0, 1, 2], [2, 0, 1], [1, 0, 2]):
        yield [floats(2, 3, 4)], {"perm": perm}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype)], {}
    yield [floats()], {}
    yield [floats(0, 2)], {}
    yield [_texts(2, 3)], {}


@generates("Concat")
def concat(schema):
    for axis in [
        *([ABSENT] if schema.since_version < 4 else []),
        0,
        1,
        2,
        *([-1, -3] if schema.since_version >= 11 else []),
    ]:
        for count in (1, 2, 3):
            yield [floats(2, 3, 4)] * count, {"axis": axis}
    yield [floats(2, 1), floats(2, 3), floats(2, 0)], {"axis": 1}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype), floats(1, 3, dtype=dtype)], {"axis": 0}


@generates("Split")
def split(schema):
    version = schema.since_version
    x = floats(6, 4, 5)
    for axis in [ABSENT, 0, 1, *([-2] if version >= 11 else [])]:
        size = x.shape[axis if axis is not ABSENT else 0]
        parts = [1, size - 3, 2]
        if version == 1:
            yield [x], {"axis": axis, "split": parts}, 3
            yield [x, F(parts)], {"axis": axis}, 3
            yield [x], {"axis": axis}, 2
        elif version < 13:
            yield [x], {"axis": axis, "split": parts}, 3
            yield [x], {"axis": axis}, 2
        else:
            yield [x, I(parts)], {"axis": axis}, 3
            if version < 18:
                yield [x], {"axis": axis}, 2
            else:
                yield [x], {"axis": axis, "num_outputs": 2}, 2
    if version >= 18:
        yield [x], {"num_outputs": 4}, 4
        yield [x], {"num_outputs": 1}, 1
        yield [floats(7)], {"num_outputs": 3}, 3
        yield [floats(5, 2)], {"num_outputs": 2}, 2
    yield ([floats(2)], {"split": [0, 2]}, 2) if version < 13 else ([floats(2), I([0, 2])], {}, 2)
    for dtype in dtypes_of(schema):
        inputs = [floats(4, 2, dtype=dtype)]
        yield inputs, {"num_outputs": 2} if version >= 18 else {}, 2


@generates("Slice")
def slices(schema):
    x = floats(5, 6, 7)
    plain = [
        ([1], [4], ABSENT),
        ([1, 0, 3], [3, 6, 5], ABSENT),
        ([0, -3], [-1, 1000], ABSENT),
        ([2], [4], [1]),
        ([1, 2], [4, 5], [2, 0]),
        ([3], [2], [0]),
        ([-100], [2], [0]),
    ]
    if schema.since_version < 10:
        for starts, ends, axes in plain:
            yield [x], {"starts": starts, "ends": ends, "axes": axes}
        return
    for kind in (np.int32, np.int64):
        for starts, ends, axes in plain:
            yield [x, kind(starts), kind(ends), *([] if axes is ABSENT else [kind(axes)])], {}
        for starts, ends, axes, steps in [
            ([4], [-100], [0], [-1]),
            ([0, 1], [5, 6], [0, 1], [2, 3]),
            ([-1], [0], [2], [-2]),
            ([5], [1], [-2], [-1]),
            ([100], [-100], [1], [-3]),
        ]:
            yield [x, kind(starts), kind(ends), kind(axes), kind(steps)], {}
        yield [x, kind([1]), kind([4]), None, kind([2])], {}
    yield [x, I([0]), I([2**63 - 1])], {}
    yield [x, I([-1]), I([-(2**63)]), I([0]), I([-1])], {}
    yield [x, I([2**31]), I([2**62]), I([0])], {}
    for dtype in dtypes_of(schema):
        yield [floats(4, 3, dtype=dtype), I([1]), I([3])], {}


@generates("Gather")
def gather(schema):
    negative = schema.since_version >= 11
    for axis in [ABSENT, 0, 1, 2, -1, -3]:
        for indices in (
            I(1),
            I([0, 1, 1]),
            I([[0, 1], [1, 0]]),
            I([-1, -2]) if negative else I([1]),
        ):
            yield [floats(2, 3, 4), indices], {"axis": axis}
    yield [floats(3), np.int32([2, 0])], {}
    yield [floats(3), np.zeros(0, I)], {}
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype), I([2, 0])], {}
    yield [_texts(3), I([2, 0])], {}


@generates("GatherElements")
def gather_elements(schema):
    for axis in (ABSENT, 0, 1, -1, -2):
        yield [floats(3, 4), integers(3, 4, low=-3, high=3)], {"axis": axis}
        yield [floats(3, 4), integers(2, 2, high=3, dtype=np.int32)], {"axis": axis}
    yield [floats(200), integers(150, high=200)], {}
    yield [floats(3), np.zeros(0, I)], {}
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype), I([[2, 0]])], {}


@generates("GatherND")
def gather_nd(schema):
    yield [floats(2, 3, 4), I([[0, 1], [1, 2]])], {}
    yield [floats(2, 3, 4), I([[0], [1], [-1]])], {}
    yield [floats(2, 3, 4), I([[[0, 1, 2]], [[1, 2, 3]]])], {}
    yield [floats(2, 3, 4), I([1, -1, 2])], {}
    if "batch_dims" in schema.attributes:
        yield [floats(2, 3, 4), I([[1], [0]])], {"batch_dims": 1}
        yield [floats(2, 3, 4), I([[[1], [2]], [[0], [1]]])], {"batch_dims": 1}
        yield [floats(2, 3, 4), I([[1, 2], [2, -1]])], {"batch_dims": 1}
        yield [floats(2, 3, 4, 5), integers(2, 3, 1, high=4)], {"batch_dims": 2}
        yield [floats(2, 3, 4, 5), integers(2, 3, 2, 2, high=4)], {"batch_dims": 2}
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype), I([[2, 0]])], {}


_REDUCE = [ABSENT, "none", "add", "mul"]


@generates("ScatterElements", "Scatter")
def scatter_elements(schema):
    reductions = _REDUCE if schema.since_version < 18 else [*_REDUCE, "min", "max"]
    for attrs in combined(
        schema,
        axis=[ABSENT, 0, 1, *([-1, -2] if schema.since_version >= 11 else [])],
        reduction=reductions,
    ):
        repeated = "reduction" in attrs and attrs["reduction"] not in (ABSENT, "none")
        indices = (
            I([[1, 0, 2, 0], [0, 2, 1, 2]]) if not repeated else I([[1, 1, 1, 0], [1, 2, 1, 2]])
        )
        if attrs.get("axis") in (1, -1):
            indices = I([[1, 0, 3], [0, 2, 1]]) if not repeated else I([[1, 1, 1], [1, 2, 1]])
        yield [floats(3, 4), indices, floats(*indices.shape, low=-3)], attrs
        if schema.since_version >= 11:
            yield (
                [floats(5), I([-1, 0]), floats(2)],
                {k: v for k, v in attrs.items() if k == "reduction"},
            )
    for dtype in dtypes_of(schema):
        for attrs in combined(schema, reduction=reductions):
            if np.dtype(dtype).kind == "b" and attrs.get("reduction", ABSENT) not in (
                ABSENT,
                "none",
            ):
                continue
            yield [floats(3, dtype=dtype), I([2, 0]), floats(2, dtype=dtype)], attrs
    yield [floats(3), np.zeros(0, I), floats(0)], {}


@generates("ScatterND")
def scatter_nd(schema):
    reductions = _REDUCE if schema.since_version < 18 else [*_REDUCE, "min", "max"]
    for attrs in combined(schema, reduction=reductions):
        yield [floats(3, 4), I([[0], [2]]), floats(2, 4)], attrs
        yield [floats(3, 4), I([[0, 1], [2, 3]]), floats(2)], attrs
        yield [floats(3, 4), I([[-1, 1], [2, -2]]), floats(2)], attrs
        yield [floats(2, 3, 4), I([[[0, 1]], [[1, 2]]]), floats(2, 1, 4)], attrs
        if attrs.get("reduction", ABSENT) not in (ABSENT, "none"):
            yield [floats(3), I([[1], [1], [1]]), floats(3, low=-3)], attrs
    for dtype in dtypes_of(schema):
        yield [floats(3, dtype=dtype), I([[2], [0]]), floats(2, dtype=dtype)], {}


@generates("TensorScatter")
def tensor_scatter(schema):
    past, update = floats(2, 3, 5, 4), floats(2, 3, 2, 4)
    for mode in (ABSENT, "linear", "circular"):
        yield [past, update], {"mode": mode}
        yield [past, update, I([3, 0])], {"mode": mode}
        yield [floats(2, 5, 4), floats(2, 2, 4), I([1, 2])], {"mode": mode, "axis": 1}
        yield [floats(2, 3, 4, 5), floats(2, 3, 4, 2), I([1, 2])], {"mode": mode, "axis": -1}
    yield [past, update, I([4, 3])], {"mode": "circular"}
    for dtype in dtypes_of(schema):
        yield [floats(2, 5, 4, dtype=dtype), floats(2, 2, 4, dtype=dtype)], {}


@generates("Tile")
def tile(schema):
    if schema.since_version < 6:
        for axis in (0, 1, 2):
            yield [floats(2, 3, 4), F(2), F(axis)], {}
        return
    for repeats in ([1, 1, 1], [2, 1, 3], [1, 2, 0]):
        yield [floats(2, 3, 4), I(repeats)], {}
    yield [floats(3), I([2])], {}
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype), I([2, 2])], {}


@generates("Expand")
def expand(schema):
    for a, shape in [
        ((3, 1), [3, 4]),
        ((3, 1), [2, 1, 6]),
        ((), [2, 2]),
        ((3, 4), [1]),
        ((3,), [0, 3]),
        ((1,), [0]),
    ]:
        yield [floats(*a), I(shape)], {}
    for dtype in dtypes_of(schema):
        yield [floats(3, 1, dtype=dtype), I([3, 2])], {}


@generates("Pad")
def pad(schema):
    version = schema.since_version
    name = "paddings" if version == 1 else "pads"
    modes = [ABSENT, "constant", "reflect", "edge", *(["wrap"] if version >= 19 else [])]
    for mode in modes:
        pads = [[0, 1, 2, 2, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
        if version >= 2:
            pads += [[0, -1, 0, 0, 1, -2], [0, 0, -1, 0, 0, -1]]
        for amounts in pads:
            x = floats(3, 4, 5)
            if version < 11:
                yield [x], {name: amounts, "mode": mode}
                if mode in (ABSENT, "constant"):
                    yield [x], {name: amounts, "mode": mode, "value": 1.5}
                continue
            yield [x, I(amounts)], {"mode": mode}
            if mode in (ABSENT, "constant"):
                yield [x, I(amounts), F(1.5)], {"mode": mode}
        if version >= 18:
            for axes in ([1], [-1], [2, 0], [0, 1]):
                yield (
                    [
                        floats(3, 4, 5),
                        I([1, 2] if len(axes) == 1 else [1, 0, 2, 1]),
                        None,
                        np.int64(axes),
                    ],
                    {"mode": mode},
                )
                yield (
                    [
                        floats(3, 4, 5),
                        I([1, 2] if len(axes) == 1 else [1, 0, 2, 1]),
                        F(2),
                        np.int32(axes),
                    ],
                    {"mode": mode},
                )
    if version >= 11:
        for dtype in dtypes_of(schema):
            yield [floats(2, 3, dtype=dtype), I([1, 0, 0, 1])], {}
            yield [floats(2, 3, dtype=dtype), I([1, 0, 0, 1]), np.array(1, dtype)], {}
        yield [floats(0, 2), I([1, 0, 1, 0])], {}
    if version >= 19:
        yield [floats(3), I([7, 5])], {"mode": "wrap"}


@generates("DepthToSpace")
def depth_to_space(schema):
    for attrs in combined(schema, blocksize=[1, 2], mode=[ABSENT, "DCR", "CRD"]):
        yield [floats(2, 8, 2, 3)], attrs
    yield [floats(1, 9, 1, 1)], {"blocksize": 3}
    for dtype in dtypes_of(schema):
        yield [floats(1, 4, 2, 2, dtype=dtype)], {"blocksize": 2}


@generates("SpaceToDepth")
def space_to_depth(schema):
    for attrs in combined(schema, blocksize=[1, 2], mode=[ABSENT, "DCR", "CRD"]):
        yield [floats(2, 3, 4, 6)], attrs
    for dtype in dtypes_of(schema):
        yield [floats(1, 1, 2, 2, dtype=dtype)], {"blocksize": 2}


@generates("Shape")
def shape(schema):
    for attrs in combined(
        schema, start=[ABSENT, 0, 1, -1, -2, 9, -9], end=[ABSENT, 2, -1, 0, 9, -9]
    ):
        yield [floats(2, 3, 4)], attrs
    yield [floats()], {}
    for dtype in dtypes_of(schema):
        yield [floats(0, 3, dtype=dtype)], {}
    yield [_texts(2, 2)], {}


@generates("Size", "NonZero")
def count(schema):
    for dtype in dtypes_of(schema):
        yield [floats(2, 3, dtype=dtype)], {}
    for sizes in [(), (1,), (0,), (2, 3, 4)]:
        yield [floats(*sizes)], {}
    yield [F([[0, -0.0, np.nan], [1, 0, 2]])], {}


@generates("OneHot")
def one_hot(schema):
    values = F([0.5, 2.5])
    for axis in (ABSENT, 0, 1, -1, -2, 2):
        for depth in (I(4), I([4]), F(4), F([4.0])):
            yield [I([[0, 3], [1, 2]]), depth, values], {"axis": axis}
    yield [F([0, 3, 1]), I(4), values], {}
    yield [I([0, -1, -4]) if schema.since_version >= 11 else I([0, 3]), I(4), values], {}
    yield [I([0, 7]), I(4), values], {}
    yield [I(2), I(4), values], {}
    yield [np.int32([0, 1]), np.int32(3), np.int64([5, 6])], {}


@generates("Compress")
def compress(schema):
    for axis in [ABSENT, 0, 1, *([-1, -2] if schema.since_version >= 11 else [])]:
        yield [floats(3, 4), np.array([True, False, True])], {"axis": axis}
        yield [floats(3, 4), np.array([False])], {"axis": axis}
    yield [_texts(3), np.array([True, False, True])], {}
    for dtype in dtypes_of(schema):
        yield [floats(3, dtype=dtype), np.array([False, True])], {"axis": 0}


@generates("Trilu")
def trilu(schema):
    for upper in (ABSENT, 0, 1):
        for k in (None, 0, 1, -1, 5, -5):
            inputs = [floats(2, 3, 4)] if k is None else [floats(2, 3, 4), I(k)]
            yield inputs, {"upper": upper}
        yield [floats(0, 3)], {"upper": upper}
        yield [floats(3, 3), I([1])], {"upper": upper}
    for dtype in dtypes_of(schema):
        yield [floats(3, 3, dtype=dtype)], {}


@generates("ReverseSequence")
def reverse_sequence(schema):
    for batch, time in ((ABSENT, ABSENT), (0, 1), (1, 0)):
        x = floats(3, 4, 2)
        length = x.shape[0 if batch == 0 else 1]
        limit = x.shape[1 if batch == 0 else 0]
        yield [x, integers(length, low=1, high=limit + 1)], {"batch_axis": batch, "time_axis": time}
    yield [floats(4, 2), I([4, 1])], {}
    for dtype in dtypes_of(schema):
        yield [floats(3, 2, dtype=dtype), I([3, 2])], {}


@generates("EyeLike")
def eye_like(schema):
    for attrs in combined(schema, dtype=[ABSENT, 1, 7, 6, 11], k=[ABSENT, 1, -2, 9]):
        yield [floats(3, 4)], attrs
        yield [integers(3, 2)], attrs
    for dtype in dtypes_of(schema):
        yield [floats(2, 2, dtype=dtype)], {}


@generates("Range")
def ranges(schema):
    for dtype in dtypes_of(schema):
        for values in ((1, 10, 3), (10, 1, -3), (0, 0, 1), (5, 1, 1), (0, 4, 1)):
            if np.dtype(dtype).kind == "u" and min(values) < 0:
                continue
            yield [np.array(value, dtype) for value in values], {}
    yield [F(0), F(1), F(0.1)], {}
    yield [F(1.5), F(-1), F(-0.5)], {}
    if "stash_type" in schema.attributes:
        for stash in (1, 11, 10):
            yield [np.float16(0), np.float16(5), np.float16(0.5)], {"stash_type": stash}


@generates("ConstantOfShape")
def constant_of_shape(schema):
    for shape in ([2, 3], [], [0], [2, 0]):
        yield [I(shape)], {}
        for value in (
            F([1.5]),
            np.int64([3]),
            np.array([True]),
            np.float64([2]),
            np.uint8([7]),
            np.float16([0.5]),
        ):
            yield [I(shape)], {"value": value}


@generates("Constant")
def constant(schema):
    for value in (
        F([[1, 2]]),
        np.int64(3),
        np.array([True]),
        floats(0),
        floats(2, dtype=np.float16),
        np.array(["a", "b"], object),
    ):
        yield [], {"value": numpy_helper.from_array(value)}
    if schema.since_version >= 12:
        yield [], {"value_float": 1.5}
        yield [], {"value_int": 3}
        yield [], {"value_string": "text"}
        yield [], {"value_floats": [1.0, 2.0]}
        yield [], {"value_ints": [1, 2]}
        yield [], {"value_strings": ["a", "b"]}
    if schema.since_version >= 11:
        sparse = helper.make_sparse_tensor(
            helper.make_tensor("v", 1, [2], [1.0, 2.0]),
            helper.make_tensor("i", 7, [2], [1, 4]),
            [2, 3],
        )
        yield [], {"sparse_value": sparse}
        sparse = helper.make_sparse_tensor(
            helper.make_tensor("v", 1, [2], [1.0, 2.0]),
            helper.make_tensor("i", 7, [2, 2], [0, 1, 1, 2]),
            [2, 3],
        )
        yield [], {"sparse_value": sparse}


@generates("TopK")
def top_k(schema):
    version = schema.since_version

    def call(x, k, **attrs):
        return ([x], {"k": k, **attrs}, 2) if version < 10 else ([x, I([k])], attrs, 2)

    x = floats(3, 4, 5)
    axes = [ABSENT, 0, 1, 2, -1, *([-2] if version >= 10 else [])]
    for attrs in combined(schema, axis=axes, largest=[ABSENT, 0, 1], sorted=[ABSENT, 1]):
        yield call(x, 2, **attrs)
        yield call(integers(3, 4, 5, high=3).astype(F), 3, **attrs)
    yield call(floats(5), 5)
    yield call(floats(5), 1)
    yield call(floats(1), 1)
    if version >= 10:
        yield call(floats(4), 0)
    yield call(F([1, np.inf, -np.inf, 3]), 3)
    for dtype in dtypes_of(schema):
        yield call(floats(5, dtype=dtype), 2)


@generates("Unique")
def unique(schema):
    for attrs in combined(schema, axis=[ABSENT, 0, 1, -1], sorted=[ABSENT, 0, 1]):
        for outputs in (1, 2, 3, 4):
            yield [F([[2, 1, 1], [2, 1, 1], [0, 3, 3]])], attrs, outputs
    yield [F([3, 1, 3, 2, 1])], {"sorted": 0}, 4
    yield [_texts(3)], {}, 4
    yield [floats(0)], {}, 4
    for dtype in dtypes_of(schema):
        yield [integers(6, high=3, dtype=dtype)], {}, 4


@generates("CenterCropPad")
def center_crop_pad(schema):
    yield [floats(5, 6, 7), I([3, 8, 7])], {}
    yield [floats(5, 6), I([8, 3])], {}
    for axes in ([1], [0, 2], [-1], [2, 0], [-3, 1]):
        yield [floats(5, 6, 7), I([4, 9][: len(axes)])], {"axes": axes}
    for dtype in dtypes_of(schema):
        yield [floats(4, 5, dtype=dtype), np.int32([5, 2])], {}


@generates("Col2Im")
def col2im(schema):
    for base in (
        {},
        {"strides": [2, 2]},
        {"pads": [1, 0, 1, 2]},
        {"dilations": [2, 1]},
        {"strides": [1, 2], "pads": [0, 1, 0, 1], "dilations": [1, 2]},
    ):
        image, block = np.array([5, 6]), np.array([2, 3])
        strides, pads = base.get("strides", [1, 1]), base.get("pads", [0] * 4)
        dilations = base.get("dilations", [1, 1])
        counts = [
            (image[n] + pads[n] + pads[n + 2] - dilations[n] * (block[n] - 1) - 1) // strides[n] + 1
            for n in range(2)
        ]
        yield [floats(2, 3 * 6, int(np.prod(counts))), I(image), I(block)], base
    yield [floats(1, 3, 4), I([6]), I([3])], {}
    yield [floats(1, 8, 8), I([3, 3, 3]), I([2, 2, 2])], {}


@generates("BlackmanWindow", "HammingWindow", "HannWindow")
def window(schema):
    for attrs in combined(schema, periodic=[ABSENT, 0, 1], output_datatype=[ABSENT, 1, 11, 10]):
        for kind in (np.int32, np.int64):
            yield [kind(8)], attrs
        yield [I(5)], attrs
        yield [I(1)], attrs
    yield [I(0)], {}


@generates("MelWeightMatrix")
def mel(schema):
    for attrs in combined(schema, output_datatype=[ABSENT, 1, 11, 10]):
        yield [I(8), I(16), I(8192), F(0), F(4096)], attrs
        yield [I(5), I(64), I(16000), F(100), F(7000)], attrs


@generates("DFT")
def dft(schema):
    version = schema.since_version
    for inverse in (ABSENT, 0, 1):
        for onesided in (ABSENT, 0, 1):
            for length in (None, 4, 5, 8):
                for axis in (ABSENT, 1, 2, -2):
                    last = 2 if inverse == 1 or onesided != 1 else 1
                    lasts = [last] if onesided == 1 else [1, 2]
                    for last in lasts:
                        x = floats(2, 5, 6, last)
                        inputs = [x] if length is None else [x, I(length)]
                        attrs = {"inverse": inverse, "onesided": onesided}
                        if version < 20:
                            yield inputs, {**attrs, "axis": axis}
                        elif axis is ABSENT:
                            yield inputs, attrs
                        else:
                            yield [x, None if length is None else I(length), I(axis)], attrs
    yield [floats(1, 6, 1, dtype=np.float64)], {"axis": 1} if version < 20 else {}


@generates("STFT")
def stft(schema):
    for onesided in (ABSENT, 0, 1):
        for last in (1, 2):
            if last == 2 and onesided != 0:
                continue
            signal = floats(2, 32, last)
            yield [signal, I(4), floats(8, low=0)], {"onesided": onesided}
            yield [signal, I(4), floats(8, low=0), I(8)], {"onesided": onesided}
            yield [signal, I(4), None, I(8)], {"onesided": onesided}
            yield [signal, I(3), None, I(7)], {"onesided": onesided}
    yield [floats(1, 16, 1, dtype=np.float64), I(4), None, I(8)], {}


# ---- random ------------------------------------------------------------------------------------


@generates(
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
def drawn(schema):
    name = schema.name
    values = {"shape": [3, 4]} if "shape" in schema.attributes else {}
    for attrs in combined(
        schema,
        dtype=[ABSENT, 1, 11, 10],
        seed=[ABSENT, 1.0],
        mean=[ABSENT, 5.0],
        scale=[ABSENT, 0.1],
        high=[ABSENT, 3.0],
        low=[ABSENT, -2.0],
        sample_size=[ABSENT, 4],
    ):
        if name == "Multinomial":
            if attrs.get("dtype") in (1, 10, 11):
                attrs["dtype"] = {1: 6, 10: 7, 11: ABSENT}[attrs["dtype"]]
            yield [floats(2, 3)], attrs
        elif name.endswith("Like"):
            yield [floats(3, 4)], attrs
        elif name == "Bernoulli":
            if attrs.get("dtype") == 10:
                attrs["dtype"] = 9
            yield [floats(3, 4, low=0, high=1)], attrs
        else:
            yield [], {**values, **attrs}


# ---- sequences and optionals -------------------------------------------------------------------


@generates("SequenceAt")
def sequence_at(schema):
    for index in (0, 1, -1, -2):
        yield [[floats(2), floats(3)], I(index)], {}
        yield [[floats(2), floats(3)], np.int32(index)], {}


@generates("SequenceConstruct")
def sequence_construct(schema):
    yield [floats(2)], {}
    yield [floats(2), floats(3, 1)], {}
    yield [_texts(2)], {}


@generates("SequenceEmpty")
def sequence_empty(schema):
    for dtype in (ABSENT, 1, 7, 8):
        yield [], {"dtype": dtype}


@generates("SequenceErase")
def sequence_erase(schema):
    yield [[floats(2), floats(3), floats(4)]], {}
    for index in (0, 1, -1, -3):
        yield [[floats(2), floats(3), floats(4)], I(index)], {}


@generates("SequenceInsert")
def sequence_insert(schema):
    yield [[floats(2), floats(3)], floats(4)], {}
    for index in (0, 1, 2, -1, -2):
        yield [[floats(2), floats(3)], floats(4), I(index)], {}


@generates("SequenceLength")
def sequence_length(schema):
    yield [[floats(2), floats(3)]], {}
    yield [[floats(2)]], {}


@generates("ConcatFromSequence")
def concat_from_sequence(schema):
    for axis in (0, 1, -1):
        for new in (ABSENT, 0, 1):
            yield [[floats(2, 3), floats(2, 3, low=-3)]], {"axis": axis, "new_axis": new}
    yield [[floats(2, 3), floats(2, 3, low=-3)]], {"axis": 2, "new_axis": 1}
    yield [[floats(2, 3), floats(2, 1)]], {"axis": 1}


@generates("SplitToSequence")
def split_to_sequence(schema):
    x = floats(5, 4)
    for axis in (ABSENT, 0, 1, -1):
        for keepdims in (ABSENT, 0, 1):
            yield [x], {"axis": axis, "keepdims": keepdims}
            yield [x, I(2)], {"axis": axis, "keepdims": keepdims}
            yield (
                [x, I([1, 3] if axis in (1, -1) else [1, 4])],
                {"axis": axis, "keepdims": keepdims},
            )
    yield [_texts(3)], {}


_TENSOR = helper.make_tensor_type_proto(1, [2])


@generates("Optional")
def optional(schema):
    yield [floats(2)], {}
    yield [[floats(2)]], {}
    yield [], {"type": _TENSOR}


@generates("OptionalGetElement", "OptionalHasElement")
def optional_element(schema):
    yield [floats(2)], {}
    yield [[floats(2)]], {}
    if schema.name == "OptionalHasElement" and schema.since_version >= 18:
        yield [], {}


# ---- bodies ------------------------------------------------------------------------------------


def _graph(text):
    return onnx.parser.parse_graph(text)


@generates("If")
def branches(schema):
    then = _graph("t () => (float[2] a) { a = Constant<value = float[2] {1, 2}>() }")
    other = _graph("e () => (float[2] b) { b = Constant<value = float[2] {3, 4}>() }")
    for condition in (True, False):
        yield [np.array(condition)], {"then_branch": then, "else_branch": other}
        yield [np.array([condition])], {"then_branch": then, "else_branch": other}


@generates("Loop")
def loop(schema):
    body = _graph(
        "b (int64 i, bool c, float[2] s) => (bool k, float[2] t, float[2] u) { k = Identity(c)  t = Add(s, s)  u = Identity(s) }"
    )
    s = F([1, 2])
    yield [I(3), np.array(True), s], {"body": body}, 2
    yield [I(0), np.array(True), s], {"body": body}, 2
    yield [I(3), np.array(False), s], {"body": body}, 2
    yield [I(3), None, s], {"body": body}, 2
    bounded = _graph(
        "b (int64 i, bool c, int64 s) => (bool k, int64 t, int64 u) { three = Constant<value = int64 {3}>()  t = Add(s, i)  k = Less(i, three)  u = Identity(i) }"
    )
    yield [I(9), np.array(True), I(1)], {"body": bounded}, 2
    yield [None, np.array(True), I(1)], {"body": bounded}, 2


@generates("Scan")
def scan(schema):
    body = _graph(
        "b (float[2] s, float[2] x) => (float[2] t, float[2] u) { t = Add(s, x)  u = Mul(s, x) }"
    )
    x = floats(4, 2)
    if schema.since_version == 8:
        for lengths in (None, I([4, 2])):
            for directions in (ABSENT, [0], [1]):
                yield (
                    [lengths, floats(2, 2), floats(2, 4, 2)],
                    {"body": body, "num_scan_inputs": 1, "directions": directions},
                    2,
                )
        return
    for ins in (ABSENT, [0], [1]):
        for outs in (ABSENT, [0], [1]):
            yield (
                [floats(2), x],
                {
                    "body": body,
                    "num_scan_inputs": 1,
                    "scan_input_directions": ins,
                    "scan_output_directions": outs,
                },
                2,
            )
    for ins in (ABSENT, [0], [1], *([[-1]] if schema.since_version >= 11 else [])):
        for outs in (ABSENT, [0], [1], *([[-1]] if schema.since_version >= 11 else [])):
            scanned = x if ins in (ABSENT, [0]) else floats(2, 4)
            yield (
                [floats(2), scanned],
                {
                    "body": body,
                    "num_scan_inputs": 1,
                    "scan_input_axes": ins,
                    "scan_output_axes": outs,
                },
                2,
            )
    two = _graph(
        "b (float[2] s, float[2] x, float[2] z) => (float[2] t, float[2] u, float[2] w) { t = Add(s, x)  u = Mul(s, z)  w = Sub(x, z) }"
    )
    yield [floats(2), x, floats(4, 2, low=-3)], {"body": two, "num_scan_inputs": 2}, 3
    yield (
        [floats(2), x, floats(4, 2, low=-3)],
        {
            "body": two,
            "num_scan_inputs": 2,
            "scan_input_directions": [0, 1],
            "scan_output_directions": [1, 0],
        },
        3,
    )


@generates("SequenceMap")
def sequence_map(schema):
    body = _graph("b (float[N] x) => (float[N] y) { y = Neg(x) }")
    yield [[floats(2), floats(3)]], {"body": body}
    body = _graph("b (float[N] x, float[1] z) => (float[N] y) { y = Add(x, z) }")
    yield [[floats(2), floats(3)], F([5])], {"body": body}
    yield [[floats(2), floats(3)], [F([5]), F([6])]], {"body": body}


_ = SPECIAL

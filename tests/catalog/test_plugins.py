"""Plugins of detectors, torch functions and vendors' quantizers, against ONNX Runtime kernels and loops."""

import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest
from entry_calls import equal, near, pixel, run
from onnx import TensorProto, helper

import pyopnb

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("form", [(1, 1, 1, 1), (2, 1, 0, 2)], ids=str)
def test_the_convolution_of_internimage(scale, form):
    stride, dilation, pad_h, pad_w = form
    kernel_h, kernel_w, groups, channels = 3, 2, 2, 2
    x = normal(1, 6, 7, groups * channels)
    height = (6 + 2 * pad_h - dilation * (kernel_h - 1) - 1) // stride + 1
    width = (7 + 2 * pad_w - dilation * (kernel_w - 1) - 1) // stride + 1
    points = kernel_h * kernel_w
    offset = normal(1, height, width, groups * points * 2)
    mask = RANDOM.uniform(0, 1, (1, height, width, groups * points)).astype(np.float32)
    attrs = {
        "kernel_h": kernel_h,
        "kernel_w": kernel_w,
        "group": groups,
        "group_channels": channels,
    }
    attrs |= {"stride_h": stride, "stride_w": stride, "pad_h": pad_h, "pad_w": pad_w}
    result = run(
        "mmdeploy::TRTDCNv3",
        x,
        offset,
        mask,
        dilation_h=dilation,
        dilation_w=dilation,
        offset_scale=scale,
        **attrs,
    )
    assert result.shape == (1, height, width, groups * channels)
    middle_h, middle_w = dilation * (kernel_h - 1) // 2, dilation * (kernel_w - 1) // 2
    expected = np.empty(result.shape)
    for i, j, g, c in np.ndindex(height, width, groups, channels):
        total, point = 0.0, 0
        for across in range(kernel_w):
            for down in range(kernel_h):
                place = g * points + point
                dx, dy = (float(number) for number in offset[0, i, j, 2 * place : 2 * place + 2])
                row = middle_h - pad_h + i * stride + (down * dilation - middle_h + dy) * scale
                column = middle_w - pad_w + j * stride + (across * dilation - middle_w + dx) * scale
                total += float(mask[0, i, j, place]) * pixel(
                    x[0, :, :, g * channels + c].astype(float), row, column
                )
                point += 1
        expected[0, i, j, g * channels + c] = total
    near(result, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (5, 1)], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crops_are_those_of_com_microsoft(size, mode):
    maps = normal(2, 3, 8, 9)
    boxes = np.float32(
        [[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.6], [-0.3, 0.1, 1.4, 0.9], [0.8, 0.9, 0.2, 0.1]]
    )
    numbers = np.int32([0, 1, 1, 0])
    crop_size = np.int32(size)
    expected = pyopnb.call(
        "com.microsoft::CropAndResize",
        maps,
        boxes,
        numbers,
        crop_size,
        mode=mode,
        extrapolation_value=-3.0,
    )
    attrs = {"extrapolation_value": -3.0}
    first = run("::CropAndResize", maps, boxes, numbers, crop_size, mode=mode, **attrs)
    near(first, expected, 1e-4, 1e-5)
    images = np.ascontiguousarray(np.moveaxis(maps, 1, -1))
    last = run("::CropAndResize", images, boxes, numbers, crop_size, method=mode, **attrs)
    near(np.moveaxis(last, -1, 1), expected, 1e-4, 1e-5)
    if mode == "bilinear":
        plain = pyopnb.call("com.microsoft::CropAndResize", maps, boxes, numbers, crop_size)
        rois = np.stack([boxes, boxes])[..., None]
        result = run(
            "TRT::CropAndResizeDynamic", maps, rois, crop_width=size[1], crop_height=size[0]
        )
        for place, number in enumerate(numbers):
            near(result[number, place], plain[place], 1e-4, 1e-5)


def similarity(a, b):
    """probiou by its formula: 1 minus the Hellinger distance of two normal distributions."""

    def covariance(box):
        c, s = np.cos(box[4]), np.sin(box[4])
        turn = np.array([[c, -s], [s, c]])
        return turn @ np.diag(box[2:4] ** 2 / 12) @ turn.T

    a, b = a.astype(float), b.astype(float)
    first, second = covariance(a), covariance(b)
    mean = (first + second) / 2
    shift = a[:2] - b[:2]
    distance = shift @ np.linalg.inv(mean) @ shift / 8
    distance += (
        np.log(np.linalg.det(mean) / np.sqrt(np.linalg.det(first) * np.linalg.det(second))) / 2
    )
    return 1 - np.sqrt(1 - np.exp(-distance) + 1e-7)


@pytest.mark.parametrize("agnostic", [0, 1])
def test_turned_boxes_are_suppressed_by_their_distributions(agnostic):
    boxes = np.concatenate(
        [
            RANDOM.uniform(0, 30, (1, 25, 2)),
            RANDOM.uniform(5, 20, (1, 25, 2)),
            RANDOM.uniform(0, 3, (1, 25, 1)),
        ],
        -1,
    )
    boxes = boxes.astype(np.float32)
    scores = RANDOM.permutation(50).reshape(1, 25, 2).astype(np.float32) / 50
    attrs = {
        "score_threshold": 0.3,
        "iou_threshold": 0.4,
        "max_output_boxes": 30,
        "class_agnostic": agnostic,
    }
    count, best, values, classes = run("TRT::EfficientRotatedNMS_TRT", boxes, scores, **attrs)
    kept = []
    for number, label in sorted(np.ndindex(25, 2), key=lambda place: -scores[0][place]):
        rivals = [other for other, other_label in kept if agnostic or label == other_label]
        if scores[0, number, label] < np.float32(0.3):
            break
        if all(similarity(boxes[0, other], boxes[0, number]) < 0.4 for other in rivals):
            kept.append((number, label))
    assert count[0, 0] == len(kept) > 5
    numbers, labels = np.array(kept).T
    center, size, angle = np.split(boxes[0, numbers], [2, 4], -1)
    equal(best[0, : len(kept)], np.concatenate([center - size / 2, center + size / 2, angle], -1))
    equal(values[0, : len(kept)], scores[0, numbers, labels])
    assert classes[0, : len(kept)].tolist() == labels.tolist()
    assert not best[0, len(kept) :].any()


def test_turned_boxes_come_out_as_corners_and_angle():
    scores = np.float32([[[2.0], [1.0]]])
    centers = np.float32([[[10, 20, 4, 6, 0.5], [90, 90, 8, 8, 1]]])
    corners = np.float32([[[8, 17, 12, 23, 0.5], [86, 86, 94, 94, 1]]])
    attrs = {"max_output_boxes": 2, "score_activation": 1, "score_threshold": 0.5}
    for coding, given in ((0, corners), (1, centers)):
        outputs = run("TRT::EfficientRotatedNMS_TRT", given, scores, box_coding=coding, **attrs)
        equal(outputs[1], corners)
        near(outputs[2], 1 / (1 + np.exp(-scores[..., 0])), 1e-6)
    # An anchor is in the coding of the boxes, and turns none.
    anchors = np.float32([[[3, 3, 1, 1], [1, 1, 3, 3]]])
    deltas = np.float32([[[4, 4, 0, 0, 0.5], [50, 50, 60, 60, 1]]])
    outputs = run("TRT::EfficientRotatedNMS_TRT", deltas, scores, anchors, box_coding=0, **attrs)
    equal(outputs[1], np.float32([[[1, 1, 7, 7, 0.5], [51, 51, 63, 63, 1]]]))
    deltas = np.float32([[[1, 2, 0, np.log(2), 0.5], [40, 40, 0, 0, 1]]])
    outputs = run("TRT::EfficientRotatedNMS_TRT", deltas, scores, anchors, box_coding=1, **attrs)
    near(outputs[1], np.float32([[[3.5, 4, 4.5, 6, 0.5], [119.5, 119.5, 122.5, 122.5, 1]]]), 1e-6)


def test_turned_boxes_are_looked_for_among_2000():
    boxes = np.zeros((1, 2500, 5), np.float32)
    boxes[0, :, 0] = 10 * np.arange(2500)
    boxes[..., 2:4] = 4
    scores = np.linspace(1, 0.5, 2500, dtype=np.float32)[None, :, None]
    count, *_ = run("TRT::EfficientRotatedNMS_TRT", boxes, scores, max_output_boxes=2500)
    assert count.tolist() == [[2000]]


def test_nothing_over_the_threshold():
    boxes, scores = np.ones((2, 3, 5), np.float32), np.zeros((2, 3, 1), np.float32)
    count, best, *_ = run("TRT::EfficientRotatedNMS_TRT", boxes, scores, max_output_boxes=4)
    assert count.tolist() == [[0], [0]] and best.shape == (2, 4, 5) and not best.any()
    outputs = run(
        "mmdeploy::BatchMultiClassNMS",
        boxes[..., :4],
        scores,
        score_threshold=0.5,
        max_total_size=4,
    )
    assert outputs[3].tolist() == [0, 0] and not outputs[0].any()


def test_combined_suppression_is_onnx_runtimes():
    corner = RANDOM.uniform(0, 40, (1, 20, 2))
    boxes = np.concatenate([corner, corner + 15], -1).astype(np.float32)
    scores = RANDOM.permutation(60).reshape(1, 20, 3).astype(np.float32) / 60
    attrs = {
        "score_threshold": 0.2,
        "iou_threshold": 0.3,
        "max_size_per_class": 4,
        "max_total_size": 9,
    }
    best, values, classes, count = run("mmdeploy::BatchMultiClassNMS", boxes, scores, **attrs)
    triples = pyopnb.call(
        "NonMaxSuppression",
        boxes,
        np.ascontiguousarray(scores.transpose(0, 2, 1)),
        np.int64([4]),
        np.float32([0.3]),
        np.float32([0.2]),
    )
    rows = sorted(
        ((scores[0, number, label], label, number) for _, label, number in triples), reverse=True
    )[:9]
    assert count.tolist() == [len(rows)]
    equal(values[0, : len(rows)], [row[0] for row in rows])
    assert classes[0, : len(rows)].tolist() == [row[1] for row in rows]
    equal(best[0, : len(rows)], boxes[0, [row[2] for row in rows]])


def test_maxima_of_regions_are_onnxs():
    x = normal(2, 3, 10, 12)
    corner = RANDOM.uniform(0, 16, (6, 2))
    rois = np.concatenate(
        [RANDOM.integers(0, 2, (6, 1)), corner, corner + RANDOM.uniform(0, 12, (6, 2))], 1
    ).astype(np.float32)
    numbers = [np.float32(0.5), np.int64(3), np.int64(2)]
    pooled, places = run("torchvision::roi_pool", x, rois, *numbers)
    expected = pyopnb.call("MaxRoiPool", x, rois, opset=11, pooled_shape=[3, 2], spatial_scale=0.5)
    equal(pooled, expected)
    for region, channel, row, column in np.ndindex(places.shape):
        place = places[region, channel, row, column]
        if place >= 0:
            value = x[int(rois[region, 0]), channel].ravel()[place]
            assert value == pooled[region, channel, row, column]


def test_means_of_regions_with_channels_of_their_own():
    x = normal(1, 2 * 3 * 2, 10, 12)
    rois = np.float32([[0, 2, 3, 14, 17], [0, 0, 0, 8, 9.5]])
    pooled, channels = run(
        "torchvision::ps_roi_align", x, rois, np.float32(0.5), np.int64(3), np.int64(2), np.int64(2)
    )
    boxes, images = np.ascontiguousarray(rois[:, 1:]), np.zeros(2, np.int64)
    attrs = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "sampling_ratio": 2}
    everything = pyopnb.call(
        "RoiAlign", x, boxes, images, opset=16, coordinate_transformation_mode="half_pixel", **attrs
    )
    own = np.arange(12).reshape(2, 3, 2)
    equal(channels, np.stack([own, own]))
    rows, columns = np.mgrid[:3, :2]
    near(pooled, everything[:, own, rows, columns], 1e-4, 1e-5)


def test_points_are_gathered_in_columns():
    cloud = RANDOM.uniform(-1, 11, (1, 200, 4)).astype(np.float32)
    attrs = {"max_num_points_per_voxel": 3, "max_voxels": 20, "voxel_feature_num": 10}
    limits, size = [0.0, 0.0, 0.0, 10.0, 10.0, 8.0], [2.5, 2.0, 8.0]
    features, coordinates, counts = run(
        "TRT::VoxelGeneratorPlugin",
        cloud,
        np.int32([150]),
        point_cloud_range=limits,
        voxel_size=size,
        **attrs,
    )
    columns = {}
    for point in cloud[0, :150].astype(float):
        if all(limits[axis] <= point[axis] < limits[axis + 3] for axis in range(3)):
            columns.setdefault((int(point[0] // 2.5), int(point[1] // 2.0)), []).append(point)
    assert counts.tolist() == [min(len(columns), 20)]
    for voxel in range(counts[0]):
        frame, z, y, x = coordinates[0, voxel]
        assert frame == z == 0
        points = np.array(columns[int(x), int(y)][:3])
        middle = np.array([(x + 0.5) * 2.5, (y + 0.5) * 2.0, 4.0])
        expected = np.concatenate(
            [points, points[:, :3] - points[:, :3].mean(0), points[:, :3] - middle], 1
        )
        near(features[0, voxel, : len(points)], expected, 1e-4, 1e-4)
        assert not features[0, voxel, len(points) :].any()


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grids_up_to_ten(axes, mode, padding):
    sizes = (5, 6, 4)[:axes]
    x = normal(2, 3, *sizes)
    grid = RANDOM.uniform(-15, 15, (2, axes, *(3, 2, 4)[:axes])).astype(np.float32)
    numbers = {"interpolation_mode": ["linear", "nearest"].index(mode), "align_corners": axes - 2}
    numbers["padding_mode"] = ["zeros", "border", "reflection"].index(padding)
    result = run(f"::GridSampler{axes}DTRT", x, grid, **numbers)
    points = np.ascontiguousarray(np.moveaxis(grid / 10, 1, -1))
    expected = pyopnb.call(
        "GridSample", x, points, opset=20, mode=mode, padding_mode=padding, align_corners=axes - 2
    )
    near(result, expected, 1e-3, 1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_attention_from_offsets_is_attention_at_locations(groups):
    batch, queries, heads, size, points = 2, 3, 2, 4, 4
    shapes = np.int64([[4, 6], [2, 3]])
    value = normal(batch, 30, heads, size)
    references = RANDOM.uniform(0, 1, (batch, queries, 1, groups * 2)).astype(np.float32)
    offsets = normal(batch, queries, heads, 2 * points * 2)
    logits = normal(batch, queries, heads, 2 * points)
    result = run("::MultiScaleDeformableAttnTRT", value, shapes, references, offsets, logits)
    for b, q, h in np.ndindex(batch, queries, heads):
        weights = np.exp(logits[b, q, h].astype(float))
        weights = (weights / weights.sum()).reshape(2, points)
        total = np.zeros(size)
        for level, (height, width) in enumerate(shapes):
            start = 0 if level == 0 else 24
            maps = (
                value[b, start : start + height * width, h]
                .reshape(height, width, size)
                .astype(float)
            )
            for point in range(points):
                dx, dy = offsets[b, q, h].reshape(2, points, 2)[level, point]
                reference = references[b, q, 0].reshape(groups, 2)[point % groups]
                column, row = reference[0] * width + dx - 0.5, reference[1] * height + dy - 0.5
                sample = [pixel(maps[..., channel], row, column) for channel in range(size)]
                total += weights[level, point] * np.array(sample)
        near(result[b, q, h], total, 1e-3, 1e-4)


@pytest.mark.parametrize(
    "form", [([2, 2], [], [0, 0], [1, 1]), ([3], [2, 1], [1], [1, 2])], ids=str
)
def test_torchs_pools_are_onnx_runtimes(form):
    x = normal(2, 3, 8, 9)
    kernel, stride, padding, dilation = (np.int64(numbers) for numbers in form)
    wide = [np.broadcast_to(numbers, 2).tolist() for numbers in (kernel, padding, dilation)]
    steps = stride.tolist() or wide[0]
    attrs = {"kernel_shape": wide[0], "strides": steps, "pads": wide[1] * 2, "dilations": wide[2]}
    expected, places = pyopnb.call("MaxPool", x, outputs=2, **attrs)
    inputs = (x, kernel, stride, padding, dilation, np.bool_(False))
    maxima, indices = run("org.pytorch.aten::max_pool2d_with_indices", *inputs)
    equal(maxima, expected)
    # ONNX counts places through all images and channels.
    images = np.arange(6).reshape(2, 3, 1, 1) * 72
    equal(indices, places - images)
    equal(run("org.pytorch.aten::max_pool2d", *inputs), expected)
    if not stride.size:
        back = run("org.pytorch.aten::max_unpool2d", maxima, indices, np.int64([8, 9]))
        unpooled = pyopnb.call(
            "MaxUnpool",
            expected,
            places,
            np.int64([2, 3, 8, 9]),
            kernel_shape=[2, 2],
            strides=[2, 2],
        )
        equal(back, unpooled)


def test_torchs_grids_and_groups():
    x, grid = normal(2, 4, 5, 6), RANDOM.uniform(-1.5, 1.5, (2, 3, 2, 2)).astype(np.float32)
    result = run(
        "org.pytorch.aten::grid_sampler", x, grid, np.int64(2), np.int64(1), np.bool_(True)
    )
    expected = pyopnb.call(
        "GridSample", x, grid, mode="cubic", padding_mode="border", align_corners=1
    )
    near(result, expected, 1e-3, 1e-4)
    weight, bias = normal(4), normal(4)
    result = run(
        "org.pytorch.aten::group_norm",
        x,
        np.int64(2),
        weight,
        bias,
        np.float32(1e-3),
        np.bool_(False),
    )
    expected = pyopnb.call(
        "GroupNormalization", x, weight, bias, opset=21, num_groups=2, epsilon=1e-3
    )
    near(result, expected, 1e-4, 1e-5)
    plain = run("org.pytorch.aten::group_norm", x, np.int64(4))
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    near(plain, pyopnb.call("InstanceNormalization", x, ones, zeros), 1e-4, 1e-5)


def test_trunc_drops_the_lowest_bits():
    levels = np.arange(-20, 21)
    x, scale, zero = (levels * 0.5).astype(np.float32), np.float32(0.5), np.float32(0)
    result = run("qonnx.custom_op.general::Trunc", x, scale, zero, np.float32(6), np.float32(4))
    equal(result, (levels // 4) * 0.5)
    result = run(
        "qonnx.custom_op.general::Trunc",
        x,
        scale,
        zero,
        np.float32(6),
        np.float32(4),
        rounding_mode="ROUND",
    )
    equal(result, np.rint(levels / 4) * 0.5)
    with pytest.raises(ValueError, match="HALF_EVEN"):
        run("qonnx.custom_op.general::Trunc", x, scale, zero, zero, zero, rounding_mode="SIDEWAYS")


def test_eight_bit_floats_of_nvidia():
    x = np.float32([0, 0.1, -3, 1000, -1000, np.inf])
    quantized = run("trt::TRT_FP8QuantizeLinear", x, np.float32(0.5))
    expected = pyopnb.call(
        "QuantizeLinear", x, np.float32(0.5), np.asarray(0, ml_dtypes.float8_e4m3fn), opset=21
    )
    equal(quantized, expected)
    back = run("trt::TRT_FP8DequantizeLinear", quantized, np.float16(0.5))
    assert back.dtype == np.float16
    equal(back, np.float16([0, 0.1015625, -3, 224, -224, 224]))
    stored = run("trt::TRT_FP8DequantizeLinear", quantized.view(np.uint8), np.float16(0.5))
    equal(stored, back)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quarks_quantizers_are_onnxs(dtype):
    x = normal(3, 4) * 50
    scale, zero = np.float32([0.5, 0.1, 2, 1]), np.array([1, 2, 3, 0], dtype)
    quantized = run("com.amd.quark::ExtendedQuantizeLinear", x, scale, zero)
    equal(quantized, pyopnb.call("QuantizeLinear", x, scale, zero, opset=21, axis=1))
    back = run("com.amd.quark::ExtendedDequantizeLinear", quantized, scale, zero)
    expected = pyopnb.call("DequantizeLinear", quantized, scale, zero, opset=21, axis=1)
    near(back, expected, 1e-6)


def test_quark_has_wide_integers_and_small_floats():
    x = np.float32([1e6, -3e9, 5e9])
    wide = run("com.amd.quark::ExtendedQuantizeLinear", x, np.float32(1), np.int32(5))
    limits = np.iinfo(np.int32)
    assert wide.tolist() == [1_000_005, limits.min, limits.max]
    back = run("com.amd.quark::ExtendedDequantizeLinear", wide, np.float32(2), np.int32(5))
    np.testing.assert_allclose(back, (wide.astype(float) - 5) * 2)
    half = run("com.amd.quark::ExtendedQuantizeLinear", x, np.float32(1), np.float16(0))
    assert half.dtype == np.float16 and half.tolist() == [65504, -65504, 65504]


def test_layers_of_older_plugins():
    x, scale, bias = normal(2, 4, 5, 6), normal(4), normal(4)
    equal(run("TRT::Clip_TRT", x, clipMin=-0.5, clipMax=0.25), x.clip(-0.5, 0.25))
    groups = run(
        "TRT::GroupNormalizationPlugin", x, scale[None, :, None, None], bias, num_groups=2, eps=1e-3
    )
    expected = pyopnb.call(
        "GroupNormalization", x, scale, bias, opset=21, num_groups=2, epsilon=1e-3
    )
    near(groups, expected, 1e-4, 1e-5)
    single = run(
        "TRT::InstanceNormalization_TRT", x, scale, bias, relu=1, alpha=0.25, plugin_version="1"
    )
    expected = pyopnb.call(
        "LeakyRelu", pyopnb.call("InstanceNormalization", x, scale, bias), alpha=0.25
    )
    near(single, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_extremes_take_the_last_of_equal_elements(axis):
    x = RANDOM.integers(0, 3, (4, 5)).astype(np.float32)
    for name, better in (("cummax", np.greater_equal), ("cummin", np.less_equal)):
        values, indices = run(f"mmcv::{name}", x, dim=axis)
        lines = np.moveaxis(x, axis, -1)
        places = np.zeros(lines.shape, int)
        for line, place in np.ndindex(lines.shape):
            best = places[line, max(place - 1, 0)]
            is_better = better(lines[line, place], lines[line, best])
            places[line, place] = place if is_better else best
        equal(indices, np.moveaxis(places, -1, axis))
        equal(values, np.moveaxis(np.take_along_axis(lines, places, -1), -1, axis))


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Affine", {"alpha": 2.0, "beta": -0.5}),
        ("Crop", {"border": [1, 2, 0, 1]}),
        ("Crop", {"border": [1, 2, 0, 1], "scale": [2, 3]}),
        ("ImageScaler", {"scale": 0.5, "bias": [1.0, -2.0, 3.0]}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 3.0}),
        ("Scale", {"scale": 0.3}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
    ],
)
def test_experimental_operators_are_the_kernels_of_older_opsets(op, attrs):
    x = normal(2, 3, 6, 7)
    expected = run_at_opset_nine(op, x, attrs)
    near(run(f"::{op}", x, **attrs), expected, 1e-5, 1e-6)


def run_at_opset_nine(op, x, attrs):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attrs)], "old", ports[:1], ports[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    return ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def test_a_function_of_torch_runs_in_numpy_where_it_is_here():
    x = normal(2, 3, 7, 9)
    sizes = np.int64([3, 4])
    result = run("org.pytorch.aten::ATen", x, sizes, operator="adaptive_avg_pool2d")
    equal(result, run("org.pytorch.aten::adaptive_avg_pool2d", x, sizes))


def test_groups_of_tensorrt_are_mmcvs():
    x, weight = normal(1, 4, 6, 6), normal(2, 2, 3, 3)
    offset, mask = normal(1, 36, 4, 4), normal(1, 18, 4, 4)
    attrs = {"group": 2, "deformable_group": 2, "plugin_version": "1"}
    result = run("TRT::ModulatedDeformConv2d", x, offset, mask, weight, **attrs)
    zeros = np.zeros(2, np.float32)
    expected = pyopnb.call(
        "DeformConv", x, weight, offset, zeros, mask, group=2, offset_group=2, pads=[0] * 4
    )
    near(result, expected, 1e-4, 1e-4)

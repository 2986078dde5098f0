"""Sampling, regions and deformable convolutions of the catalog against ONNX Runtime kernels and loops."""

import numpy as np
import pytest
from entry_calls import equal, near, pixel, run

import pyopnb

MODES = ["linear", "nearest", "cubic"]
PADDINGS = ["zeros", "border", "reflection"]


@pytest.mark.parametrize("mode", range(3), ids=MODES)
@pytest.mark.parametrize("padding", range(3), ids=PADDINGS)
@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(5, 7), (1, 4)], ids=str)
def test_grid_sampler_is_grid_sample(mode, padding, align_corners, size):
    random = np.random.default_rng(mode * 10 + padding)
    x = random.standard_normal((2, 3, *size), np.float32)
    # Points outside as well, up to two images away.
    grid = random.uniform(-3, 3, (2, 6, 4, 2)).astype(np.float32)
    sampled = run(
        "mmdeploy::grid_sampler",
        x,
        grid,
        interpolation_mode=mode,
        padding_mode=padding,
        align_corners=align_corners,
    )
    expected = pyopnb.call(
        "GridSample",
        x,
        grid,
        mode=MODES[mode],
        padding_mode=PADDINGS[padding],
        align_corners=align_corners,
    )
    near(sampled, expected, 1e-4, 2e-5)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_is_onnx_runtimes(aligned, samples, mode):
    random = np.random.default_rng(aligned)
    x = random.standard_normal((2, 3, 12, 16), np.float32)
    corner = random.uniform(-2, 20, (7, 2))
    size = random.uniform(0.1, 14, (7, 2))
    boxes = np.concatenate([corner, corner + size], 1).astype(np.float32)
    images = random.integers(0, 2, 7)
    rois = np.concatenate([images[:, None], boxes], 1).astype(np.float32)
    attrs = {"output_height": 3, "output_width": 4, "spatial_scale": 0.5}
    pooled = run(
        "mmcv::MMCVRoiAlign", x, rois, sampling_ratio=samples, mode=mode, aligned=aligned, **attrs
    )
    if mode == "max":
        # ONNX Runtime takes the maximum of weighted pixels instead of samples: compare with a loop.
        expected = loop_of_maxima(x, rois, samples, aligned)
    else:
        expected = pyopnb.call(
            "RoiAlign",
            x,
            boxes,
            images,
            opset=16,
            sampling_ratio=samples,
            coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
            **attrs,
        )
    near(pooled, expected, 1e-4, 1e-5)


def pixel_of_a_region(image, row, column):
    """A pixel between four, by the definition: nothing beyond one pixel outside, edges repeated."""
    height, width = image.shape
    if not (-1 <= row <= height and -1 <= column <= width):
        return 0.0
    row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
    top, left = int(row), int(column)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = row - top, column - left
    return (
        image[top, left] * (1 - down) * (1 - across)
        + image[top, right] * (1 - down) * across
        + image[bottom, left] * down * (1 - across)
        + image[bottom, right] * down * across
    )


def loop_of_maxima(x, rois, samples, aligned):
    pooled = np.empty((len(rois), x.shape[1], 3, 4))
    for number, (image, *box) in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = (value * 0.5 - 0.5 * aligned for value in box)
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1), max(width, 1)
        rows = samples or int(np.ceil(height / 3))
        columns = samples or int(np.ceil(width / 4))
        for channel, i, j in np.ndindex(x.shape[1], 3, 4):
            pooled[number, channel, i, j] = max(
                pixel_of_a_region(
                    x[int(image), channel].astype(np.float64),
                    top + (i + (a + 0.5) / rows) * height / 3,
                    left + (j + (b + 0.5) / columns) * width / 4,
                )
                for a in range(rows)
                for b in range(columns)
            )
    return pooled


@pytest.mark.parametrize("clockwise", [0, 1])
def test_a_region_that_is_turned_is_that_of_a_turned_image(clockwise):
    """A quarter of a turn of the region is a quarter of a turn of its result."""
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 2, 20, 20), np.float32)
    attrs = {"output_height": 3, "output_width": 3, "sampling_ratio": 2, "clockwise": clockwise}
    straight = np.float32([[0, 9, 11, 6, 6, 0]])
    turned = np.float32([[0, 9, 11, 6, 6, np.pi / 2]])
    first = run("mmcv::MMCVRoIAlignRotated", x, straight, **attrs)
    second = run("mmcv::MMCVRoIAlignRotated", x, turned, **attrs)
    expected = np.rot90(first, 1 if clockwise else -1, axes=(2, 3))
    near(second, expected, 1e-4, 1e-5)
    boxes = np.float32([[9 - 3, 11 - 3, 9 + 3, 11 + 3]])
    attrs.pop("clockwise")
    expected = pyopnb.call(
        "RoiAlign",
        *(x, boxes, np.int64([0])),
        opset=16,
        coordinate_transformation_mode="half_pixel",
        **attrs,
    )
    near(first, expected, 1e-4, 1e-5)


@pytest.mark.parametrize(("name", "columns"), [("MMCVRoiAlign", 5), ("MMCVRoIAlignRotated", 6)])
def test_regions_pass_a_check_and_name_images_that_are_there(name, columns):
    x, rois = np.ones((1, 2, 8, 8), np.float32), np.full((1, columns), 4, np.float32)
    rois[0, 0] = 0
    checks = pyopnb.check(f"mmcv::{name}", x, rois, output_height=2, output_width=2)
    assert checks["empty"].ok
    rois[0, 0] = -1
    with pytest.raises(ValueError, match="expected images 0 to 0, got -1"):
        run(f"mmcv::{name}", x, rois, output_height=2, output_width=2)


def moved_points(x, offset, kernel, stride, padding, dilation):
    """What each point of the kernel sees, float64[N,C,points,oh,ow], by the definition of the papers."""
    batch, channels = x.shape[:2]
    height, width = offset.shape[2:]
    groups = offset.shape[1] // (2 * kernel[0] * kernel[1])
    samples = np.empty((batch, channels, kernel[0] * kernel[1], height, width))
    for n, c, point, i, j in np.ndindex(samples.shape):
        a, b = divmod(point, kernel[1])
        first = 2 * (c * groups // channels * kernel[0] * kernel[1] + point)
        down, across = (float(number) for number in offset[n, first : first + 2, i, j])
        row = i * stride[0] - padding[0] + a * dilation[0] + down
        column = j * stride[1] - padding[1] + b * dilation[1] + across
        samples[n, c, point, i, j] = pixel(x[n, c], row, column)
    return samples


def test_a_deformable_convolution_sees_nothing_at_no_number():
    """Kernels compare a coordinate with the image's ends, and no comparison with NaN is true."""
    x, weight = np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 1, 1), np.float32)
    offset = np.zeros((1, 2, 3, 3), np.float32)
    offset[0, 0, 0], offset[0, 1, 1, 1] = np.nan, np.inf
    result = run("mmdeploy::MMCVDeformConv2d", x, offset, weight, padding=[0, 0])
    assert result[0, 0].tolist() == [[0, 0, 0], [1, 0, 1], [1, 1, 1]]
    empty = run("mmdeploy::MMCVDeformConv2d", x[:0], offset[:0], weight, padding=[0, 0])
    assert empty.shape == (0, 1, 3, 3)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("offset_groups", [1, 2])
@pytest.mark.parametrize("form", [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2))], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_deformable_convolutions_are_sums_of_moved_points(groups, offset_groups, form, dtype):
    stride, padding, dilation = form
    random = np.random.default_rng(groups)
    x = random.standard_normal((2, 4, 9, 8), np.float32).astype(dtype)
    weight = random.standard_normal((6, 4 // groups, 3, 2), np.float32).astype(dtype)
    height = (9 + 2 * padding[0] - dilation[0] * 2 - 1) // stride[0] + 1
    width = (8 + 2 * padding[1] - dilation[1] - 1) // stride[1] + 1
    shape = (2, offset_groups * 12, height, width)
    offset = random.uniform(-4, 4, shape).astype(dtype)
    mask = random.uniform(0, 1, (2, offset_groups * 6, height, width)).astype(dtype)
    bias = random.standard_normal(6, np.float32).astype(dtype)
    attrs = {
        "stride": list(stride),
        "dilation": list(dilation),
        "groups": groups,
        "deform_groups": offset_groups,
    }
    masked = run(
        "mmcv::MMCVModulatedDeformConv2d",
        x,
        offset,
        mask,
        weight,
        bias,
        padding=list(padding),
        **attrs,
    )
    # mmdeploy repeats each number of the padding.
    doubled = [padding[0], padding[0], padding[1], padding[1]]
    unmasked = run("mmdeploy::MMCVDeformConv2d", x, offset, weight, padding=doubled, **attrs)
    samples = moved_points(x, offset, (3, 2), stride, padding, dilation)
    # Each group of the weights sees its channels, and each group of the offsets
    # moves and weighs its own.
    masks = mask.reshape(2, offset_groups, 6, height, width).repeat(4 // offset_groups, axis=1)
    kernels = weight.astype(np.float64).reshape(groups, 6 // groups, 4 // groups, 6)
    sums = []
    for values in (samples * masks, samples):
        split = values.reshape(2, groups, 4 // groups, 6, height, width)
        sums.append(np.einsum("gock,ngckij->ngoij", kernels, split).reshape(2, 6, height, width))
    expected = sums[0] + bias.astype(np.float64)[:, None, None]
    expected_unmasked = sums[1]
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    assert masked.dtype == unmasked.dtype == dtype
    near(masked, expected, tolerance, tolerance)
    near(unmasked, expected_unmasked, tolerance, tolerance)


def test_deformable_attention_is_grid_sample_of_each_level():
    random = np.random.default_rng(0)
    shapes = np.int64([[4, 6], [2, 3]])
    starts = np.int64([0, 24])
    batch, heads, size, queries, points = 2, 3, 4, 5, 2
    value = random.standard_normal((batch, 30, heads, size), np.float32)
    locations = random.uniform(-0.2, 1.2, (batch, queries, heads, 2, points, 2)).astype(np.float32)
    weights = random.uniform(0, 1, (batch, queries, heads, 2, points)).astype(np.float32)
    total = 0
    for level, (height, width) in enumerate(shapes):
        start = starts[level]
        maps = value[:, start : start + height * width].transpose(0, 2, 3, 1)
        maps = np.ascontiguousarray(maps.reshape(batch * heads, size, height, width))
        grid = locations[:, :, :, level].transpose(0, 2, 1, 3, 4) * 2 - 1
        grid = np.ascontiguousarray(grid.reshape(batch * heads, queries, points, 2))
        sampled = pyopnb.call("GridSample", maps, grid, mode="linear", padding_mode="zeros")
        sampled = sampled.reshape(batch, heads, size, queries, points)
        total = total + np.einsum("bhdqp,bqhp->bqhd", sampled, weights[:, :, :, level])
    inputs = (value, shapes, starts, locations, weights)
    attended = run("TRT::MultiscaleDeformableAttnPlugin_TRT", *inputs)
    near(attended, total, 1e-4, 1e-5)
    flat = run("mmdeploy::MMCVMultiScaleDeformableAttention", *inputs)
    equal(flat, attended.reshape(batch, queries, -1))
    near(flat, total.reshape(batch, queries, -1), 1e-4, 1e-5)

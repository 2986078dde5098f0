"""Operators of Caffe2 that detectron2 exports, against loops by their definitions and ONNX Runtime kernels."""

import numpy as np
import pytest
from entry_calls import equal, near, random_boxes, run

import pyopnb

C2 = "org.pytorch._caffe2::"


def overlap(a, b, plus_one):
    width = min(a[2], b[2]) - max(a[0], b[0]) + plus_one
    height = min(a[3], b[3]) - max(a[1], b[1]) + plus_one
    inside = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0] + plus_one) * (box[3] - box[1] + plus_one) for box in (a, b)]
    return inside / (sum(areas) - inside)


def greedy(boxes, scores, threshold, plus_one):
    """Numbers of boxes that are kept, the best first."""
    kept = []
    for number in sorted(range(len(boxes)), key=lambda number: -scores[number]):
        if all(overlap(boxes[number], boxes[other], plus_one) <= threshold for other in kept):
            kept.append(number)
    return kept


def moved(box, delta, weights, plus_one):
    x1, y1, x2, y2 = map(float, box)
    width, height = x2 - x1 + plus_one, y2 - y1 + plus_one
    dx, dy, dw, dh = (float(d) / w for d, w in zip(delta, weights, strict=True))
    dw, dh = min(dw, np.log(1000 / 16)), min(dh, np.log(1000 / 16))
    x, y = dx * width + x1 + 0.5 * width, dy * height + y1 + 0.5 * height
    width, height = np.exp(dw) * width, np.exp(dh) * height
    return np.array(
        [x - width / 2, y - height / 2, x + width / 2 - plus_one, y + height / 2 - plus_one]
    )


def clipped(box, height, width, plus_one):
    limits = np.array([width, height, width, height]) - plus_one
    return np.clip(box, 0, limits)


def test_permutations_and_nearest_pixels():
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    rows = x.reshape(6, 4)
    order = np.int32([2, 0, 1, 5, 4, 3])
    equal(run(f"{C2}BatchPermutation", rows, order), rows[order])
    scaled = run(f"{C2}ResizeNearest", x, width_scale=2.0, height_scale=2.0)
    expected = pyopnb.call(
        "Resize",
        x,
        None,
        np.float32([1, 1, 2, 2]),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    equal(scaled, expected)


@pytest.mark.parametrize("plus_one", [0, 1])
@pytest.mark.parametrize("apply_scale", [0, 1])
def test_boxes_are_moved_scaled_and_cut(plus_one, apply_scale):
    random = np.random.default_rng(0)
    boxes = random_boxes(random, 5, within=60)
    images = np.float32([0, 0, 1, 1, 1])
    deltas = random.uniform(-2, 2, (5, 8)).astype(np.float32)
    deltas[0, 2] = 90
    weights = [10.0, 10.0, 5.0, 5.0]
    info = np.float32([[50, 80, 1], [60, 70, 2]])
    rois = np.concatenate([images[:, None], boxes], 1)
    result, counts = run(
        f"{C2}BBoxTransform",
        rois,
        deltas,
        info,
        weights=weights,
        apply_scale=apply_scale,
        legacy_plus_one=plus_one,
    )
    assert counts.tolist() == [2, 3]
    for row in range(5):
        height, width, scale = (float(number) for number in info[int(images[row])])
        size = (int(height / scale + 0.5), int(width / scale + 0.5))
        for label in range(2):
            columns = slice(4 * label, 4 * label + 4)
            box = moved(boxes[row] / scale, deltas[row, columns], weights, plus_one)
            expected = clipped(box, *size, plus_one) * (scale if apply_scale else 1)
            near(result[row, columns], expected, 1e-4, 1e-3)


@pytest.mark.parametrize("plus_one", [0, 1])
@pytest.mark.parametrize("most", [3, 50])
def test_proposals_are_the_best_anchors(plus_one, most):
    random = np.random.default_rng(1)
    anchors = np.float32([[-8, -8, 8, 8], [-4, -8, 4, 8], [-12, -6, 12, 6]])
    scores = random.permutation(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(np.float32) / 100
    deltas = random.uniform(-0.5, 0.5, (2, 12, 4, 5)).astype(np.float32)
    # Boxes are cut at whole sizes, and their centers are compared with the sizes as they are.
    info = np.float32([[30.75, 40.5, 1], [32, 36, 0.5]])
    rois, probabilities = run(
        f"{C2}GenerateProposals",
        *(scores, deltas, info, anchors),
        spatial_scale=0.125,
        pre_nms_topN=30,
        post_nms_topN=most,
        nms_thresh=0.6,
        min_size=6.0,
        legacy_plus_one=plus_one,
    )
    rows = []
    for image in range(2):
        candidates = []
        for a, y, x in np.ndindex(3, 4, 5):
            anchor = anchors[a] + np.float32([x, y, x, y]) * 8
            candidates.append(
                (
                    scores[image, a, y, x],
                    moved(anchor, deltas[image, 4 * a : 4 * a + 4, y, x], [1] * 4, plus_one),
                )
            )
        candidates = sorted(candidates, key=lambda pair: -pair[0])[:30]
        height, width, scale = info[image]
        usable = []
        for score, box in candidates:
            box = clipped(box, int(height), int(width), plus_one)
            sizes = box[2:] - box[:2] + plus_one
            center = box[:2] + sizes / 2
            if (sizes >= 6 * scale).all() and center[0] < width and center[1] < height:
                usable.append((score, box))
        kept = greedy([box for _, box in usable], [score for score, _ in usable], 0.6, plus_one)[
            :most
        ]
        rows += [(image, *usable[number][1], usable[number][0]) for number in kept]
    expected = np.array(rows)
    near(rois, expected[:, :5], 1e-4, 1e-3)
    near(probabilities, expected[:, 5], 1e-6)


@pytest.mark.parametrize("includes_background", [0, 1])
@pytest.mark.parametrize("is_agnostic", [0, 1])
@pytest.mark.parametrize("most", [-1, 4])
def test_the_best_boxes_of_an_image_class_by_class(includes_background, is_agnostic, most):
    random = np.random.default_rng(2)
    classes, splits = 3, [6, 0, 7]
    scores = (random.permutation(13 * 4).reshape(13, 4) / 60).astype(np.float32)
    columns = (
        1 + includes_background
        if is_agnostic and includes_background
        else classes + includes_background
    )
    columns = 1 if is_agnostic else columns
    boxes = np.concatenate([random_boxes(random, 13, within=20) for _ in range(columns)], 1)
    outputs = run(
        f"{C2}BoxWithNMSLimit",
        *(scores, boxes, np.float32(splits)),
        score_thresh=0.2,
        nms=0.4,
        detections_per_im=most,
        cls_agnostic_bbox_reg=is_agnostic,
        input_boxes_include_bg_cls=includes_background,
        output_classes_include_bg_cls=includes_background,
        legacy_plus_one=0,
    )
    rows, counts, per_class, start = [], [], [], 0
    for split in splits:
        selected = []
        for label in range(classes):
            column = scores[start : start + split, label + includes_background]
            first = 0 if is_agnostic else 4 * (label + includes_background)
            own = boxes[start : start + split, first : first + 4]
            usable = [number for number in range(split) if column[number] > np.float32(0.2)]
            kept = greedy(
                [own[number] for number in usable], [column[number] for number in usable], 0.4, 0
            )
            for number in (usable[position] for position in kept):
                selected.append((label, column[number], *own[number], number))
        if 0 < most < len(selected):
            selected = sorted(selected, key=lambda row: -row[1])[:most]
            selected = sorted(selected, key=lambda row: row[0])
        rows += selected
        counts.append(len(selected))
        per_class.append(
            [0] + [sum(row[0] == label for row in selected) for label in range(classes)]
        )
        start += split
    expected = np.array(rows)
    near(outputs[0], expected[:, 1], 1e-6)
    near(outputs[1], expected[:, 2:6], 1e-6)
    assert outputs[2].tolist() == (expected[:, 0] + includes_background).tolist()
    assert outputs[3].tolist() == counts
    assert outputs[4].tolist() == expected[:, 6].tolist()
    assert outputs[5].tolist() == per_class


def test_an_image_without_boxes():
    empty = run(f"{C2}BoxWithNMSLimit", np.zeros((0, 3), np.float32), np.zeros((0, 12), np.float32))
    assert [array.shape for array in empty] == [(0,), (0, 4), (0,), (1,), (0,), (1, 3)]


@pytest.mark.parametrize("plus_one", [0, 1])
def test_regions_are_collected_and_distributed(plus_one):
    random = np.random.default_rng(3)
    sides = [10, 55, 56, 112, 223, 224, 448, 900]
    rois = [np.float32([[0, 0, 0, side - plus_one, side - plus_one]]) for side in sides]
    scores = [random.uniform(0, 1, 1).astype(np.float32) for _ in sides]
    attrs = {"rpn_min_level": 0, "rpn_max_level": 7, "rpn_post_nms_topN": 6}
    outputs = run(
        f"{C2}CollectAndDistributeFpnRpnProposals",
        *rois,
        *scores,
        outputs=6,
        legacy_plus_one=plus_one,
        **attrs,
    )
    order = sorted(range(8), key=lambda number: -scores[number][0])[:6]
    expected = np.concatenate([rois[number] for number in order])
    equal(outputs[0], expected)
    equal(run(f"{C2}CollectRpnProposals", *rois, *scores, **attrs), expected)
    levels = [
        min(max(int(np.floor(4 + np.log2(sides[number] / 224 + 1e-6))), 2), 5) for number in order
    ]
    again = run(f"{C2}DistributeFpnProposals", expected, outputs=5, legacy_plus_one=plus_one)
    for *regions, order in (outputs[1:], again):
        for level, of_level in enumerate(regions, 2):
            equal(of_level, expected[np.array(levels) == level])
        equal(np.concatenate(regions)[order], expected)


def test_points_of_heat_maps_are_between_pixels():
    size = 8
    rows, columns = np.mgrid[:size, :size].astype(float)
    peaks = [(3.3, 4.2), (0.0, 7.0), (5.6, 1.4)]
    maps = np.stack([10 - (rows - y) ** 2 - 0.5 * (columns - x) ** 2 for y, x in peaks])[
        None
    ].astype(np.float32)
    box = np.float32([[10, 20, 26, 52]])
    points = run(f"{C2}HeatmapMaxKeypoint", maps, box, should_output_softmax=1)
    for number, (y, x) in enumerate(peaks):
        if number != 1:
            # A quadratic's maximum is found exactly.
            near(points[0, :3, number], [10 + (x + 0.5) * 2, 20 + (y + 0.5) * 4, 10], 1e-4)
        exponentials = np.exp(maps[0, number].astype(float))
        near(points[0, 3, number], exponentials.max() / exponentials.sum(), 1e-4)
    # At the corner, both neighbors along an axis are the mirrored ones, and the slope is 0.
    near(points[0, :2, 1], [10 + 7.5 * 2, 20 + 0.5 * 4], 1e-4)
    flat = run(f"{C2}HeatmapMaxKeypoint", np.ones((1, 1, 4, 4), np.float32), box)
    np.testing.assert_allclose(flat[0, :, 0], [10 + 0.5 * 4, 20 + 0.5 * 8, 1, 0])


@pytest.mark.parametrize("aligned", [0, 1])
def test_regions_of_detectron_are_onnx_runtimes(aligned):
    random = np.random.default_rng(4)
    x = random.standard_normal((2, 3, 12, 16), np.float32)
    boxes = random_boxes(random, 5, within=12)
    images = random.integers(0, 2, 5)
    rois = np.concatenate([images[:, None], boxes], 1).astype(np.float32)
    attrs = {"spatial_scale": 0.5, "sampling_ratio": 2}
    result = run(
        f"{C2}RoIAlign", x, rois, pooled_h=3, pooled_w=2, aligned=aligned, order="NCHW", **attrs
    )
    expected = pyopnb.call(
        "RoiAlign",
        *(x, boxes, images),
        opset=16,
        output_height=3,
        output_width=2,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        **attrs,
    )
    near(result, expected, 1e-4, 1e-5)
    center, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    turned = np.concatenate([images[:, None], center, size, np.zeros((5, 1))], 1).astype(np.float32)
    straight = run(f"{C2}RoIAlignRotated", x, turned, pooled_h=3, pooled_w=2, aligned=1, **attrs)
    if aligned:
        near(straight, expected, 1e-4, 1e-5)
    # Half a turn brings the last bin to the front.
    turned[:, 5] = 180
    # In half precision only the result is rounded, and no angle on the way.
    halves = [x.astype(np.float16), turned.astype(np.float16)]
    rounded = run(f"{C2}RoIAlignRotated", *halves, pooled_h=3, pooled_w=2, aligned=1, **attrs)
    wide = [half.astype(np.float32) for half in halves]
    expected = run(f"{C2}RoIAlignRotated", *wide, pooled_h=3, pooled_w=2, aligned=1, **attrs)
    equal(rounded, expected.astype(np.float16))
    upside_down = run(f"{C2}RoIAlignRotated", x, turned, pooled_h=3, pooled_w=2, aligned=1, **attrs)
    near(upside_down, straight[:, :, ::-1, ::-1], 1e-3, 1e-4)

"""The suppressions of the catalog against the ONNX Runtime NonMaxSuppression and against loops by the definition."""

import ml_dtypes
import numpy as np
import pytest
from entry_calls import equal, near, random_boxes, run
from onnx import TensorProto, helper

import pyopnb
from pyopnb.catalog.index import find_entry


def area(box):
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def iou(a, b):
    """The definition in float64."""
    a = [float(v) for v in (min(a[0], a[2]), min(a[1], a[3]), max(a[0], a[2]), max(a[1], a[3]))]
    b = [float(v) for v in (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))]
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = area(a) + area(b) - width * height
    return width * height / union if union > 0 else 0.0


def efficient_nms(boxes, scores, score_threshold, iou_threshold, most):
    """The plugin's rules, box by box."""
    candidates = []
    for number in range(len(scores)):
        for label in range(scores.shape[1]):
            if scores[number, label] >= np.float32(score_threshold):
                candidates.append((-float(scores[number, label]), number, label))
    candidates.sort()
    kept = []
    for _, number, label in candidates[:5000]:
        free = all(
            label != other_label or iou(boxes[number], boxes[other]) < np.float32(iou_threshold)
            for _, other, other_label in kept
        )
        if free and len(kept) < most:
            kept.append((scores[number, label], number, label))
    return kept


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_efficient_nms_is_the_loop(seed, dtype):
    random = np.random.default_rng(seed)
    boxes = random_boxes(random, 2, 40).astype(dtype)
    scores = random.uniform(0, 1, (2, 40, 3)).astype(dtype)
    count, best, best_scores, classes = run(
        "TRT::EfficientNMS_TRT",
        boxes,
        scores,
        score_threshold=0.3,
        iou_threshold=0.4,
        max_output_boxes=25,
    )
    assert count.dtype == np.int32 and best.dtype == dtype
    for image in range(2):
        expected = efficient_nms(
            boxes[image].astype(np.float32), scores[image].astype(np.float32), 0.3, 0.4, 25
        )
        rows = int(count[image, 0])
        assert rows == len(expected)
        equal(best_scores[image, :rows], [row[0] for row in expected])
        equal(best[image, :rows], boxes[image][[r[1] for r in expected]])
        equal(classes[image, :rows], [row[2] for row in expected])
        assert not best[image, rows:].any() and not classes[image, rows:].any()


def test_boxes_that_all_classes_share_may_have_an_axis_for_them():
    random = np.random.default_rng(1)
    boxes = random_boxes(random, 2, 20)
    scores = random.uniform(0, 1, (2, 20, 3)).astype(np.float32)
    for name in ("TRT::EfficientNMS_TRT", "TRT::EfficientIdxNMS_TRT"):
        expected = run(name, boxes, scores)
        for array, twin in zip(run(name, boxes[:, :, None], scores), expected, strict=True):
            equal(array, twin)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("TRT::EfficientNMS_TRT", 4),
        ("TRT::EfficientIdxNMS_TRT", 4),
        ("TRT::EfficientRotatedNMS_TRT", 5),
        ("TRT::BatchedNMS_TRT", 4),
        ("mmdeploy::TRTBatchedNMS", 4),
        ("mmdeploy::TRTBatchedRotatedNMS", 5),
        ("mmdeploy::BatchMultiClassNMS", 4),
    ],
)
def test_a_suppression_is_ready_for_use_at_any_shape_and_in_threads(name, numbers):
    random = np.random.default_rng(0)
    boxes = random_boxes(random, 2, 10)
    if numbers == 5:
        boxes = np.concatenate([boxes, boxes[..., :1]], -1)
    scores = random.uniform(0, 1, (2, 10, 3)).astype(np.float32)
    report = pyopnb.check(name, boxes[:, :, None], scores)
    assert report, report
    for wrong in (boxes[..., :3], boxes[0], boxes[:1], np.stack([boxes] * 2, 2)):
        with pytest.raises(ValueError, match="expected"):
            run(name, wrong, scores)


def onnx_suppression(boxes, scores, score_threshold, iou_threshold, most):
    """The ONNX Runtime kernel."""
    return pyopnb.call(
        "NonMaxSuppression",
        boxes,
        scores,
        np.int64([most]),
        np.float32([iou_threshold]),
        np.float32([score_threshold]),
    )


@pytest.mark.parametrize("seed", range(5))
def test_batched_nms_keeps_the_boxes_of_onnx_runtime(seed):
    random = np.random.default_rng(seed)
    boxes = random_boxes(random, 1, 60) / 100
    scores = random.uniform(0, 1, (1, 60, 4)).astype(np.float32)
    triples = onnx_suppression(boxes, scores.transpose(0, 2, 1).copy(), 0.2, 0.45, 60)
    expected = sorted((-float(scores[0, n, c]), int(n), int(c)) for _, c, n in triples)[:50]
    attrs = {"topK": -1, "keepTopK": 50, "scoreThreshold": 0.2, "iouThreshold": 0.45}
    count, best, _, classes = run("TRT::BatchedNMSDynamic_TRT", boxes[:, :, None], scores, **attrs)
    assert count.tolist() == [[len(expected)]]
    equal(classes[0, : len(expected)], [row[2] for row in expected])
    equal(best[0, : len(expected)], boxes[0][[row[1] for row in expected]])
    assert (classes[0, len(expected) :] == -1).all() and classes.dtype == np.float32
    attrs = {"topk": -1, "keep_topk": 50, "score_threshold": 0.2, "iou_threshold": 0.45}
    detections, labels, index = run(
        "mmdeploy::TRTBatchedNMS", boxes[:, :, None], scores, return_index=1, **attrs
    )
    equal(labels[0, : len(expected)], [row[2] for row in expected])
    equal(index[0, : len(expected)], [row[1] for row in expected])
    equal(detections[0, : len(expected), :4], best[0, : len(expected)])
    assert labels.dtype == np.int32 and (index[0, len(expected) :] == -1).all()


HALF = np.float32([[0, 0, 1, 2], [0, 0, 1, 1]])  # their overlap is exactly a half


def test_exactly_the_threshold_suppresses_in_efficient_nms_only():
    scores = np.float32([[0.9], [0.8]])
    count, *_ = run("TRT::EfficientNMS_TRT", HALF[None], scores[None], iou_threshold=0.5)
    assert count.tolist() == [[1]]
    count, *_ = run(
        "::BatchedNMS_TRT", HALF[None, :, None], scores[None], iouThreshold=0.5, topK=9, keepTopK=9
    )
    assert count.tolist() == [[2]]
    numbers = run("mmcv::NonMaxSuppression", HALF, scores[:, 0], iou_threshold=0.5)
    assert numbers.tolist() == [0, 1]


def test_exactly_the_score_threshold_counts_in_efficient_nms_only():
    scores = np.float32([[0.25]])
    box = HALF[None, :1]
    count, *_ = run("TRT::EfficientNMS_TRT", box, scores[None], score_threshold=0.25)
    assert count.tolist() == [[1]]
    count, *_ = run("::BatchedNMS_TRT", box[:, :, None], scores[None], scoreThreshold=0.25)
    assert count.tolist() == [[0]]


@pytest.mark.parametrize(
    "boxes",
    [np.zeros((1, 0, 4), np.float32), np.zeros((1, 3, 4), np.float32)],
    ids=["no box", "no area"],
)
def test_boxes_without_area_and_no_boxes(boxes):
    scores = np.full((1, boxes.shape[1], 2), 0.5, np.float32)
    count, best, *_ = run("TRT::EfficientNMS_TRT", boxes, scores, max_output_boxes=4)
    assert count.tolist() == [[min(4, 2 * boxes.shape[1])]] and not best.any()


def test_efficient_nms_with_anchors_logits_and_centers():
    anchors = np.float32([[[10, 20, 4, 8], [50, 50, 2, 2]]])
    codes = np.float32([[[0.5, -0.25, 0.0, np.log(2)], [0, 0, 0, 0]]])
    logits = np.float32([[[2.0], [-3.0]]])
    count, boxes, scores, _ = run(
        "TRT::EfficientNMS_TRT",
        codes,
        logits,
        anchors,
        score_threshold=0.4,
        score_activation=1,
        box_coding=1,
        max_output_boxes=3,
    )
    assert count.tolist() == [[1]]
    center_y, center_x = 0.5 * 4 + 10, -0.25 * 8 + 20
    near(boxes[0, 0], [center_y - 2, center_x - 8, center_y + 2, center_x + 8], 1e-6)
    near(scores[0, 0], 1 / (1 + np.exp(-2.0)), 1e-6)


@pytest.mark.parametrize("name", ["TRT::EfficientNMS_TRT", "TRT::EfficientIdxNMS_TRT"])
def test_corners_of_boxes_and_anchors_are_put_in_order_before_they_are_added(name):
    anchors = np.float32([[[3, 3, 1, 1], [1, 9, 3, 7]]])
    deltas = np.float32([[[0.5, 2, 0, -2], [4, 0, 6, 0]]])
    scores = np.float32([[[0.9], [0.8]]])
    _, boxes, *_ = run(name, deltas, scores, anchors, max_output_boxes=2)
    equal(boxes[0], np.float32([[1, -1, 3.5, 5], [5, 7, 9, 9]]))
    # Without anchors, they come out as they are.
    _, boxes, *_ = run(name, anchors, scores, max_output_boxes=2)
    equal(boxes, anchors)


@pytest.mark.parametrize("is_logit", [0, 1])
def test_a_threshold_has_the_dtype_of_the_scores(is_logit):
    threshold = np.float32(0.4)
    raw = np.log(threshold / (1 - threshold)) if is_logit else threshold
    # The nearest float16 is lower here, and both of its neighbors are clear.
    half = np.float16(raw)
    scores = np.array([np.nextafter(half, np.float16(9)), half, np.nextafter(half, np.float16(-9))])
    assert half < raw
    boxes = np.float16([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]])
    attrs = {"score_threshold": 0.4, "score_activation": is_logit, "max_output_boxes": 3}
    count, *_ = run("TRT::EfficientNMS_TRT", boxes, scores.reshape(1, 3, 1), **attrs)
    assert count.tolist() == [[2]]
    scores = scores.astype(np.float32).reshape(1, 3, 1)
    count, *_ = run("TRT::EfficientNMS_TRT", boxes.astype(np.float32), scores, **attrs)
    assert count.tolist() == [[1]]


def pixel_overlap(a, b, counts_inside):
    """BatchedNMS with isNormalized=0: areas count pixels, the intersection with caffeSemantics."""
    a, b = (np.concatenate([np.minimum(c[:2], c[2:]), np.maximum(c[:2], c[2:])]) for c in (a, b))
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    size = (high - low if (low <= high).all() else np.zeros(2)) + counts_inside
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    inside = size[0] * size[1]
    return inside / (sum(areas) - inside)


@pytest.mark.parametrize("caffe", [0, 1])
@pytest.mark.parametrize("largest", [1, 6])
def test_batched_nms_that_counts_pixels(caffe, largest):
    random = np.random.default_rng(largest)
    boxes = random.integers(0, 9, (2, 30, 1, 4)).astype(np.float32)
    boxes[..., 2:] = boxes[..., :2] + random.integers(-largest, largest + 1, (2, 30, 1, 2))
    scores = random.permutation(120).reshape(2, 30, 2).astype(np.float32) / 120
    attrs = {"topK": 20, "keepTopK": 20, "scoreThreshold": 0.2, "iouThreshold": 0.3}
    outputs = run(
        *("TRT::BatchedNMSDynamic_TRT", boxes, scores),
        **{**attrs, "isNormalized": 0, "clipBoxes": 0, "caffeSemantics": caffe},
    )
    for image in range(2):
        rows = []
        for label in range(2):
            column = scores[image, :, label]
            kept = []
            for number in np.argsort(-column)[:20]:
                rivals = [
                    pixel_overlap(boxes[image, other, 0], boxes[image, number, 0], caffe)
                    for other in kept
                ]
                if column[number] > np.float32(0.2) and all(rival <= 0.3 for rival in rivals):
                    kept.append(number)
            rows += [(column[number], number, label) for number in kept]
        rows = sorted(rows, reverse=True)[:20]
        assert outputs[0][image, 0] == len(rows) > 5
        equal(outputs[1][image, : len(rows)], boxes[image, [row[1] for row in rows], 0])
        equal(outputs[3][image, : len(rows)], [row[2] for row in rows])


@pytest.mark.parametrize("clips", [0, 1])
def test_a_clipped_box_has_the_dtype_of_the_input(clips):
    boxes = np.float32([[[[-1, 0.25, 2, 0.5]]]]).astype(ml_dtypes.bfloat16)
    scores = np.full((1, 1, 1), 0.5, ml_dtypes.bfloat16)
    _, best, *_ = run("TRT::BatchedNMS_TRT", boxes, scores, keepTopK=2, clipBoxes=clips)
    assert best.dtype == boxes.dtype
    equal(best[0, 0].astype(np.float32), [0, 0.25, 1, 0.5] if clips else [-1, 0.25, 2, 0.5])
    assert run("TRT::Clip_TRT", boxes, clipMin=0.0, clipMax=1.0).dtype == boxes.dtype


def test_numbers_of_boxes_for_each_class_and_swapped_corners_in_mmdeploy():
    boxes = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    scores = np.float32([[[0.1, 0.2, 0.9], [0.3, 0.8, 0.1]]])
    attrs = {"topk": -1, "keep_topk": 3, "score_threshold": 0.25, "return_index": 1}
    detections, labels, index = run("mmdeploy::TRTBatchedNMS", boxes, scores, clip_boxes=0, **attrs)
    assert labels.tolist() == [[2, 1, 0]] and index.tolist() == [[2 * 2, 1 * 2 + 1, 1]]
    equal(detections[0, :, :4], boxes[0, [0, 1, 1], [2, 1, 0]])
    # A node without clip_boxes clips.
    detections, *_ = run("mmdeploy::TRTBatchedNMS", boxes, scores, **attrs)
    assert detections.max() == 1
    # Boxes whose corners are swapped overlap none, not even themselves.
    swapped = np.float32([[[[4, 4, 0, 0]], [[4, 4, 0, 0]], [[0, 0, 4, 4]], [[4, 0, 0, 4]]]])
    scores = np.float32([[[0.9], [0.8], [0.7], [0.6]]])
    attrs = {**attrs, "keep_topk": 4}
    _, labels, index = run("mmdeploy::TRTBatchedNMS", swapped, scores, **attrs)
    assert index.tolist() == [[0, 1, 2, 3]] and not labels.any()


def test_a_turned_box_without_an_area_overlaps_all_and_is_clipped():
    boxes = np.float32([[[[0.5, 0.5, 3, 0, 2]], [[9, 9, 1, 1, 0]], [[-9, -9, 1, 1, 0]]]])
    attrs = {"keep_topk": 3, "score_threshold": 0.1, "iou_threshold": 0.9}
    for order, kept in ((0, 1), (1, 2)):
        scores = np.float32([[[0.9 - 0.5 * order], [0.8], [0.7]]])
        detections, labels = run("mmdeploy::TRTBatchedRotatedNMS", boxes, scores, **attrs)
        assert (labels[0] >= 0).sum() == kept
    near(detections[0, 0], [1, 1, 1, 1, 0, 0.8], 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_matches_of_all_boxes_that_a_good_one_suppresses(seed):
    random = np.random.default_rng(seed)
    # Few different boxes and scores, so that there are ties, overlaps of a half and no areas.
    boxes = random.integers(0, 3, (2, 40, 4)).astype(np.float32)
    scores = random.integers(0, 6, (2, 3, 40)).astype(np.float32) / 6
    expected = []
    for image, label in np.ndindex(2, 3):
        column, kept = scores[image, label], {}
        for number in np.argsort(-column, kind="stable"):
            b = boxes[image, number]
            for best, beaten in kept.items():
                a = boxes[image, best]
                width, height = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
                areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
                if width * height / (sum(areas) - width * height + 1e-10) >= 0.5 - 1e-8:
                    beaten.append(number)
                    break
            else:
                kept[number] = []
        for best, beaten in kept.items():
            if column[best] > np.float32(0.6):
                expected += [(image, label, best, number) for number in beaten]
    rows = run("mmdeploy::NMSMatch", boxes, scores, np.float32(0.5), np.float32(0.6))
    equal(rows, np.array(expected, np.int64).reshape(-1, 4))
    low = [row for row in expected if scores[row[0], row[1], row[3]] <= np.float32(0.6)]
    assert low, "no suppressed box is under the threshold"


def test_an_offset_of_one_counts_pixels():
    boxes = np.float32([[0, 0, 3, 3], [0, 0, 3, 1]])  # 4 × 4 and 4 × 2 pixels: a half
    scores = np.float32([0.9, 0.8])
    pixels = run("mmcv::NonMaxSuppression", boxes, scores, iou_threshold=0.45, offset=1)
    lengths = run("mmcv::NonMaxSuppression", boxes, scores, iou_threshold=0.45, offset=0)
    assert pixels.tolist() == [0] and lengths.tolist() == [0, 1]


def soft_nms(boxes, scores, iou_threshold, sigma, min_score, method):
    """The published algorithm on lists; the best remaining box each time."""
    remaining = [(float(score), number) for number, score in enumerate(scores)]
    taken = []
    while remaining:
        best = max(remaining, key=lambda pair: pair[0])
        remaining.remove(best)
        taken.append(best)
        lowered = []
        for score, number in remaining:
            overlap = iou(boxes[best[1]], boxes[number])
            if method == 2:
                score *= np.exp(-(overlap**2) / sigma)
            elif overlap >= iou_threshold:
                score *= 1 - overlap if method == 1 else 0
            if score >= min_score:
                lowered.append((score, number))
        remaining = lowered
    return taken


@pytest.mark.parametrize("method", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_soft_suppression_is_the_published_one(method, seed):
    random = np.random.default_rng(seed)
    boxes, scores = random_boxes(random, 20), random.uniform(0.1, 1, 20).astype(np.float32)
    attrs = {"iou_threshold": 0.3, "sigma": 0.5, "min_score": 0.05, "method": method}
    rows, numbers = run("mmcv::SoftNonMaxSuppression", boxes, scores, **attrs)
    expected = soft_nms(boxes, scores, *attrs.values())
    assert numbers.tolist() == [number for _, number in expected]
    near(rows[:, 4], [score for score, _ in expected], 1e-5)
    equal(rows[:, :4], boxes[numbers])


def test_two_squares_turned_by_an_eighth_overlap_by_an_octagon():
    scores = np.float32([[[0.9, 0.8]]])
    boxes = np.float32([[[3, 4, 1, 1, 0], [3, 4, 1, 1, np.pi / 4]]])
    octagon = 2 * (np.sqrt(2) - 1)
    share = octagon / (2 - octagon)
    for threshold, kept in ((share - 1e-4, 1), (share + 1e-4, 2)):
        rows = run("mmdeploy::NMSRotated", boxes, scores, iou_threshold=threshold)
        assert len(rows) == kept


@pytest.mark.parametrize("seed", range(3))
def test_boxes_that_are_not_turned_are_suppressed_as_by_onnx_runtime(seed):
    random = np.random.default_rng(seed)
    corners = random_boxes(random, 1, 30)
    scores = random.uniform(0, 1, (1, 2, 30)).astype(np.float32)
    center = (corners[..., :2] + corners[..., 2:]) / 2
    size = corners[..., 2:] - corners[..., :2]
    # Half a turn changes nothing.
    angle = np.where(random.random((1, 30, 1)) < 0.5, 0, np.pi).astype(np.float32)
    turned = np.concatenate([center, size, angle], -1)
    rows = run("mmdeploy::NMSRotated", turned, scores, iou_threshold=0.4, score_threshold=0.3)
    triples = onnx_suppression(corners, scores, 0.3, 0.4, 30)
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, triples.tolist()))
    attrs = {"topk": -1, "keep_topk": 60, "score_threshold": 0.3, "iou_threshold": 0.4}
    shared = turned[:, :, None]
    detections, labels = run(
        "mmdeploy::TRTBatchedRotatedNMS", shared, scores.transpose(0, 2, 1).copy(), **attrs
    )
    assert (labels >= 0).sum() == len(triples)
    expected = sorted((float(scores[0, c, n]) for _, c, n in triples), reverse=True)
    equal(detections[0, : len(triples), 5], np.float32(expected))


def test_a_match_names_what_is_suppressed():
    boxes = np.float32([[[0, 0, 10, 10], [0, 0, 10, 9], [50, 50, 60, 60], [0, 0, 10, 8]]])
    scores = np.float32([[[0.5, 0.9, 0.8, 0.7]]])
    rows = run("mmdeploy::NMSMatch", boxes, scores, np.float32(0.5), np.float32(0.1))
    equal(rows, np.int64([[0, 0, 1, 3], [0, 0, 1, 0]]))


def test_the_model_of_a_detector_runs_with_its_class_in_the_session():
    node = helper.make_node(
        "EfficientNMS_TRT", ["boxes", "scores"], ["n", "b", "s", "c"], domain="test.catalog"
    )
    pyopnb.registry.define(
        find_entry("TRT::EfficientNMS_TRT", 2).op_class, "test.catalog::EfficientNMS_TRT"
    )
    inputs = {"boxes": "float32[B,N,4]", "scores": "float32[B,N,C]"}
    model = pyopnb.model(node, inputs, ["n", "b", "s", "c"])
    types = {value.name: value.type.tensor_type for value in model.graph.output}
    assert types["n"].elem_type == TensorProto.INT32
    assert [dim.dim_value for dim in types["b"].shape.dim][1:] == [100, 4]


def test_ties_where_the_candidates_are_cut_off_come_in_the_order_of_the_input():
    """Of 7,000 candidates the 5,000 best count, and the last of them has equals."""
    random = np.random.default_rng(0)
    scores = np.full((1, 3500, 2), 0.5, np.float32)
    scores[0, :3000, 1] = random.uniform(0.6, 1, 3000)
    boxes = np.repeat(np.arange(3500, dtype=np.float32)[None, :, None] * 2, 4, axis=2)
    boxes[..., 2:] += 1
    attrs = {"score_threshold": 0.25, "iou_threshold": 0.5, "max_output_boxes": 6000}
    count, best, _, classes = run("TRT::EfficientNMS_TRT", boxes, scores, **attrs)
    assert count.tolist() == [[5000]]
    assert (classes[0, :3000] == 1).all()
    # Rows 3,000 on are the ties: both classes of each box, or one, in the order of the boxes.
    expected = [(n, c) for n in range(3500) for c in range(2) if scores[0, n, c] == 0.5][:2000]
    numbers = (best[0, 3000:5000, 0] / 2).astype(int).tolist()
    assert list(zip(numbers, classes[0, 3000:5000].tolist(), strict=True)) == expected

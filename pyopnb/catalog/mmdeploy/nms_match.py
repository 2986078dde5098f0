"""NMSMatch of mmdeploy, which tells which box suppressed which.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/onnxruntime/nms_match/nms_match.cpp. A box that is kept and suppresses
nothing has no row. Differs: equal scores come in the order of the input, where std::sort gives any.
Tested against boxes whose matches are known, exactly.
"""

import numpy as np

NAMES = ("mmdeploy::NMSMatch",)


class NMSMatch:
    """Return rows of image, class, the box that is kept, and a box that it suppresses.

    Boxes of any score suppress others; the rows of a box are returned if its score is over the
    threshold.
    """

    def infer(self, boxes, scores, iou_threshold, score_threshold):
        return boxes.like(dtype="int64", shape=(None, 4))

    def compute(
        self, boxes: "any[B, N, 4]", scores: "any[B, C, N]", iou_threshold, score_threshold
    ):
        rows = []
        for image in range(len(boxes)):
            image_boxes = boxes[image].astype(np.float32)
            for label, class_scores in enumerate(scores[image].astype(np.float32)):
                candidates = np.argsort(-class_scores, kind="stable")
                while len(candidates):
                    best = candidates[0]
                    candidates = candidates[1:]
                    # Only boxes that no better one has suppressed are compared.
                    overlap = _overlaps(image_boxes[best], image_boxes[candidates])
                    is_matched = overlap >= iou_threshold
                    # A box without a match leaves no row.
                    if class_scores[best] > score_threshold:
                        rows += [(image, label, best, number) for number in candidates[is_matched]]
                    candidates = candidates[~is_matched]
        flat = np.array(rows, np.int64)
        return flat.reshape(-1, 4)


def _overlaps(box, boxes):
    """Compute the intersection over union, where areas of swapped corners are negative."""
    high = np.minimum(box[2:], boxes[:, 2:])
    low = np.maximum(box[:2], boxes[:, :2])
    intersection = np.maximum(high - low, 0).prod(axis=1)
    area = (box[2:] - box[:2]).prod()
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    union = area + areas - intersection
    # The small number is a double, and so is the division.
    return (intersection / (union + np.float64(1e-10))).astype(np.float32)

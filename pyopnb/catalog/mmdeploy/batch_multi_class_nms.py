"""BatchMultiClassNMS of mmdeploy, TensorFlow's combined suppression.

Defined in open-mmlab/mmdeploy v1.3.1, mmdeploy/mmcv/ops/nms.py. That file has its ports and
attributes only, and a function that computes nothing: the operator itself is Huawei's, for Ascend,
and its source is not public. Differs: it is computed as tf.image.combined_non_max_suppression of
TensorFlow without clipping, which no Ascend device has confirmed. Tested against ONNX Runtime's
NonMaxSuppression, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class, sort_corners, suppress
from pyopnb.catalog.cores.per_class_nms import select_per_class

NAMES = ("mmdeploy::BatchMultiClassNMS",)


class BatchMultiClassNMS:
    """Select boxes inside each class, then the best of all classes; rows after them are 0."""

    def __init__(
        self,
        score_threshold: float = 0.0,
        iou_threshold: float = 0.5,
        max_size_per_class: int = 100,
        max_total_size: int = 100,
    ):
        self.iou_threshold = iou_threshold
        self.attrs = {
            "score_threshold": score_threshold,
            "keep": max_total_size,
            "keep_per_class": max_size_per_class,
        }
        self.most = max_total_size

    def infer(self, boxes, scores):
        batch = (scores.shape or (None,))[0]
        best_boxes = boxes.like(shape=(batch, self.most, 4))
        best_scores = scores.like(shape=(batch, self.most))
        counts = scores.like(dtype="int32", shape=(batch,))
        # The classes have the scores' dtype.
        return best_boxes, best_scores, best_scores, counts

    def compute(self, boxes, scores) -> ("any[B,K,4]", "any[B,K]", "any[B,K]", "int32[B]"):
        boxes = boxes_by_class(boxes, scores)
        batch = len(scores)
        best_boxes = np.zeros((batch, self.most, 4), boxes.dtype)
        best_scores, best_classes = np.zeros((2, batch, self.most), scores.dtype)
        # Rows after the count are padding.
        counts = np.zeros(batch, np.int32)
        for best in select_per_class(boxes, scores, self._suppress, top_k=0, **self.attrs):
            rows = counts[best.image] = len(best.numbers)
            best_boxes[best.image, :rows] = best.boxes
            best_scores[best.image, :rows] = best.scores
            best_classes[best.image, :rows] = best.classes
        return best_boxes, best_scores, best_classes, counts

    def _suppress(self, boxes, most):
        return suppress(sort_corners(boxes), self.iou_threshold, limit=most)

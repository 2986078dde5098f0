"""TRTBatchedRotatedNMS, which ends the detectors that mmdeploy exports from mmrotate for TensorRT.

Defined in open-mmlab/mmdeploy v1.3.1, csrc/mmdeploy/backend_ops/tensorrt/batched_rotated_nms.
Tested against ONNX Runtime's NonMaxSuppression on boxes that are not turned, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class
from pyopnb.catalog.cores.per_class_nms import select_per_class

NAMES = ("mmdeploy::TRTBatchedRotatedNMS",)


class TRTBatchedRotatedNMS:
    """Select the ``keep_topk`` best turned boxes of an image, after suppression inside each class.

    A box counts if its score is over the threshold, and is suppressed if its polygon overlaps that
    of a better one of its class by more than ``iou_threshold``. Rows after the boxes that were
    found have label -1.
    """

    def __init__(
        self,
        background_label_id: int = -1,
        num_classes: int = 15,
        iou_threshold: float = 0.1,
        score_threshold: float = 0.05,
        topk: int = 2000,
        keep_topk: int = 200,
        is_normalized: int = 0,
        clip_boxes: int = 0,
    ):
        self.keep = keep_topk
        self.rules = {
            "iou_threshold": iou_threshold,
            "score_threshold": score_threshold,
            "top_k": topk,
            "keep": keep_topk,
            "background": background_label_id,
        }

    def infer(self, boxes, scores):
        batch = (scores.shape or (None,))[0]
        return (
            boxes.like(shape=(batch, self.keep, 6)),
            scores.like(dtype="int32", shape=(batch, self.keep)),
        )

    def compute(self, boxes, scores) -> ("any[B, K, 6]", "int32[B, K]"):
        boxes = boxes_by_class(boxes, scores, 5)
        batch = len(scores)
        detections = np.zeros((batch, self.keep, 6), boxes.dtype)
        labels = np.full((batch, self.keep), -1, np.int32)
        for best in select_per_class(boxes, scores, **self.rules):
            # Rows after these stay as padding.
            rows = len(best.numbers)
            detections[best.image, :rows, :5] = best.boxes
            detections[best.image, :rows, 5] = best.scores
            labels[best.image, :rows] = best.classes
        return detections, labels

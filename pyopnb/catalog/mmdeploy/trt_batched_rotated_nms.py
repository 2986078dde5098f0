"""TRTBatchedRotatedNMS, which ends the detectors that mmdeploy exports from mmrotate for TensorRT.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/tensorrt/common_impl/nms/gatherNMSOutputs.cu and allClassRotatedNMS.cu.
Differs: equal scores come in the order of the input, where the plugin's order is any; keep_topk may
be over topk, where the plugin writes nothing; and overlaps are computed in float64. Tested against
the ONNX Runtime NonMaxSuppression on boxes that are not turned, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class, suppress_greedily
from pyopnb.catalog.cores.per_class_nms import select_per_class
from pyopnb.catalog.cores.rotated_boxes import rotated_overlaps

NAMES = ("mmdeploy::TRTBatchedRotatedNMS",)


class TRTBatchedRotatedNMS:
    """Select the ``keep_topk`` best turned boxes of an image, after suppression inside each class.

    A box counts if its score is over the threshold, and is suppressed if its polygon overlaps
    a better one of its class by more than ``iou_threshold``. A box without an area overlaps all
    others. Rows after the boxes that were found have label -1.
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
        clip_boxes: int = 1,
    ):
        self.keep = keep_topk
        self.iou_threshold = iou_threshold
        self.clips = bool(clip_boxes)
        self.rules = {
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
        for best in select_per_class(boxes, scores, self._suppress, **self.rules):
            # Rows after these stay as padding.
            rows = len(best.numbers)
            # All five numbers are clipped, including the angle.
            turned = best.boxes.clip(0, 1) if self.clips else best.boxes
            detections[best.image, :rows, :5] = turned
            detections[best.image, :rows, 5] = best.scores
            labels[best.image, :rows] = best.classes
        return detections, labels

    def _suppress(self, boxes, most):
        # In float32, boxes far from 0 would lose the digits of their overlap.
        wide = boxes.astype(np.float64)
        areas = wide[:, 2] * wide[:, 3]

        def find_beaten(best, rivals):
            overlap = rotated_overlaps(wide[best], wide[rivals])
            has_area = np.minimum(areas[best], areas[rivals]) >= 1e-14
            return np.where(has_area, overlap, 1) > self.iou_threshold

        return suppress_greedily(len(boxes), find_beaten, most)

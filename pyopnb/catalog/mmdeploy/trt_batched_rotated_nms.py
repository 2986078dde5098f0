"""TRTBatchedRotatedNMS, which ends the detectors that mmdeploy exports from mmrotate for TensorRT.

Defined in open-mmlab/mmdeploy v1.3.1, csrc/mmdeploy/backend_ops/tensorrt/batched_rotated_nms.
Tested against ONNX Runtime's NonMaxSuppression on boxes that are not turned, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.rotated_boxes import suppress_rotated

NAMES = ("mmdeploy::TRTBatchedRotatedNMS",)


class TRTBatchedRotatedNMS:
    """Select the ``keep_topk`` best turned boxes of an image, after suppression inside each class.

    A box counts if its score is over the threshold, and is suppressed if its polygon overlaps that of a better
    one of its class by more than ``iou_threshold``. Rows after the boxes that were found have label -1.
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
        self.background = background_label_id
        self.iou_threshold = iou_threshold
        self.score_threshold = np.float32(score_threshold)
        self.top_k = topk
        self.keep = keep_topk

    def infer(self, boxes, scores):
        if scores.shape:
            batch = scores.shape[0]
        else:
            batch = None
        return (
            boxes.like(shape=(batch, self.keep, 6)),
            scores.like(dtype="int32", shape=(batch, self.keep)),
        )

    def compute(self, boxes, scores) -> ("any[B, K, 6]", "int32[B, K]"):
        batch = len(boxes)
        detections = np.zeros((batch, self.keep, 6), boxes.dtype)
        labels = np.full((batch, self.keep), -1, np.int32)
        for image in range(batch):
            numbers, classes = self._select(boxes[image], scores[image].astype(np.float32))
            rows = len(numbers)
            if boxes.shape[2] > 1:
                box_columns = classes
            else:
                box_columns = np.zeros_like(classes)
            detections[image, :rows, :5] = boxes[image, numbers, box_columns]
            detections[image, :rows, 5] = scores[image, numbers, classes]
            labels[image, :rows] = classes
        return detections, labels

    def _select(self, boxes, scores):
        """Return the numbers and classes of an image's best boxes."""
        rows = []
        for label in range(scores.shape[1]):
            if label == self.background:
                continue
            column = scores[:, label]
            candidates = np.flatnonzero(column > self.score_threshold)
            order = np.argsort(-column[candidates], kind="stable")
            candidates = candidates[order[: self.top_k] if self.top_k > 0 else order]
            # Boxes may be shared by all classes.
            class_boxes = boxes[candidates, label if boxes.shape[1] > 1 else 0]
            for number in candidates[suppress_rotated(class_boxes, self.iou_threshold, self.keep)]:
                rows.append((-column[number], number, label))
        # Sorting by score alone keeps equal scores in the order of their classes.
        rows.sort(key=lambda row: row[0])
        # An image may have no box at all.
        selected = np.array(rows[: self.keep])
        selected = selected.reshape(-1, 3)
        return selected[:, 1].astype(np.int64), selected[:, 2].astype(np.int64)

"""EfficientNMS_TRT, which ends the detectors that yolov7, YOLOv6 and mmyolo export for TensorRT.

Defined in NVIDIA/TensorRT v10.12.0, plugin/efficientNMSPlugin/efficientNMSInference.cu. Differs:
equal scores come in the order of the input, where the plugin's order is any; below a score
threshold of 0.007, the plugin also gives boxes under it, with a score of -32768; and in float16 it
rounds each step of boxes and overlaps to half, which are float32 here. Tested against a loop by its
definition, and the ONNX Runtime NonMaxSuppression, exactly.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.boxes import (
    boxes_by_class,
    infer_detections,
    sort_corners,
    suppress,
)
from pyopnb.catalog.cores.candidates import best_candidates, decode_boxes, raw_threshold
from pyopnb.catalog.cores.efficient_nms_form import efficient_nms_form

NAMES = ("TRT::EfficientNMS_TRT", "::EfficientNMS_TRT", "trt.plugins::EfficientNMS_TRT")


class EfficientNMS_TRT:
    """Select the best boxes of all classes, at most ``max_output_boxes`` an image.

    A box counts if its score is at least the threshold, and is suppressed if it overlaps a better
    one of its class by at least ``iou_threshold``. Rows after the boxes that were found are 0.
    """

    def __init__(
        self,
        score_threshold: float = 0.25,
        iou_threshold: float = 0.5,
        max_output_boxes: int = 100,
        background_class: int = -1,
        score_activation: int = 0,
        class_agnostic: int = 0,
        box_coding: Literal[0, 1] = 0,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.score_threshold = score_threshold
        self.iou_threshold = iou_threshold
        self.max_output_boxes = max_output_boxes
        self.background_class = background_class
        self.is_logit = bool(score_activation)
        self.is_class_agnostic = bool(class_agnostic)
        self.has_centers = bool(box_coding)

    def infer(self, boxes, scores, anchors=None):
        return infer_detections(boxes, scores, self.max_output_boxes)

    def compute(
        self, boxes, scores, anchors=None
    ) -> ("int32[B, 1]", "any[B, M, 4]", "any[B, M]", "int32[B, M]"):
        return self._detect(boxes, scores, anchors)[:4]

    def _detect(self, boxes, scores, anchors):
        """Return the outputs, and the numbers of the boxes."""
        boxes = boxes_by_class(boxes, scores)
        shape = (len(scores), self.max_output_boxes)
        threshold = raw_threshold(self.score_threshold, scores.dtype, is_logit=self.is_logit)
        count = np.zeros((len(scores), 1), np.int32)
        best_boxes = np.zeros((*shape, 4), boxes.dtype)
        best_scores = np.zeros(shape, scores.dtype)
        best_classes, best_numbers = np.zeros((2, *shape), np.int32)
        for image, image_scores in enumerate(scores):
            corners = decode_boxes(boxes[image], anchors, image, has_centers=self.has_centers)
            selected, classes, their_boxes, numbers = self._select(corners, image_scores, threshold)
            rows = len(selected)
            count[image] = rows
            best_boxes[image, :rows] = their_boxes
            best_scores[image, :rows] = selected
            best_classes[image, :rows] = classes
            best_numbers[image, :rows] = numbers
        return count, best_boxes, best_scores, best_classes, best_numbers

    def _select(self, corners, scores, threshold):
        """Return scores, classes, corners and numbers of an image's best boxes."""
        scores = scores.astype(np.float32, copy=False)
        numbers, classes = best_candidates(scores, threshold, self.background_class)
        columns = classes if corners.shape[1] > 1 else 0
        boxes = corners[numbers, columns]
        # Swapped corners are put in order for the overlap only, and come out as they were.
        kept = suppress(
            sort_corners(boxes),
            self.iou_threshold,
            inclusive=True,
            classes=None if self.is_class_agnostic else classes,
            limit=self.max_output_boxes,
        )
        # Scores come out after the activation.
        selected = scores[numbers[kept], classes[kept]]
        if self.is_logit:
            selected = 1 / (1 + np.exp(-selected))
        return selected, classes[kept], boxes[kept], numbers[kept]

    lowered_opset = 15

    def lowered(self, boxes, scores, anchors=None):
        return efficient_nms_form(self, boxes, scores, anchors)

"""EfficientRotatedNMS_TRT, which ends the detectors of turned boxes that TensorRT-YOLO exports.

Defined in laugh12321/TensorRT-YOLO, modules/plugin/efficientRotatedNMSPlugin. How much two boxes
overlap is not an area: it is the similarity of two normal distributions (probiou) of Llerena and
others (2021), as Ultralytics has it. Tested against a loop by its definition, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class, infer_detections
from pyopnb.catalog.cores.candidates import best_candidates
from pyopnb.catalog.cores.gaussian_boxes import suppress_gaussian

NAMES = ("TRT::EfficientRotatedNMS_TRT", "::EfficientRotatedNMS_TRT")


class EfficientRotatedNMS_TRT:
    """Select the best turned boxes of all classes, at most ``max_output_boxes`` an image.

    Boxes are center x and y, width, height and an angle in radians, and come out as they went in.
    """

    def __init__(
        self,
        score_threshold: float = 0.25,
        iou_threshold: float = 0.5,
        max_output_boxes: int = 100,
        background_class: int = -1,
        score_activation: int = 0,
        class_agnostic: int = 0,
        box_coding: int = 1,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.score_threshold = np.float32(score_threshold)
        self.iou_threshold = iou_threshold
        self.most = max_output_boxes
        self.background = background_class
        self.is_logit = bool(score_activation)
        self.is_class_agnostic = bool(class_agnostic)

    def infer(self, boxes, scores):
        return infer_detections(boxes, scores, self.most, numbers=5)

    def compute(self, boxes, scores) -> ("int32[B, 1]", "any[B, M, 5]", "any[B, M]", "int32[B, M]"):
        boxes = boxes_by_class(boxes, scores, 5)
        batch = len(scores)
        count = np.zeros((batch, 1), np.int32)
        best_boxes = np.zeros((batch, self.most, 5), boxes.dtype)
        best_scores = np.zeros((batch, self.most), scores.dtype)
        best_classes = np.zeros((batch, self.most), np.int32)
        for image in range(batch):
            values = scores[image].astype(np.float32)
            if self.is_logit:
                # The sigmoid keeps the order, so that it may come first.
                values = 1 / (1 + np.exp(-values))
            selected, numbers, classes = self._select(boxes[image], values)
            rows = len(numbers)
            count[image] = rows
            best_boxes[image, :rows] = selected
            best_scores[image, :rows] = values[numbers, classes]
            best_classes[image, :rows] = classes
        return count, best_boxes, best_scores, best_classes

    def _select(self, boxes, scores):
        """Return boxes, numbers and classes of an image's best boxes."""
        numbers, classes = best_candidates(scores, self.score_threshold, self.background)
        if self.is_class_agnostic:
            labels = np.zeros_like(classes)
        else:
            labels = classes
        columns = classes if boxes.shape[1] > 1 else 0
        candidates = boxes[numbers, columns]
        kept = suppress_gaussian(candidates, labels, self.iou_threshold, self.most)
        return candidates[kept], numbers[kept], classes[kept]

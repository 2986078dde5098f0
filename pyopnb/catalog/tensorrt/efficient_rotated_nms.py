"""EfficientRotatedNMS_TRT, which ends the detectors of turned boxes that TensorRT-YOLO exports.

Defined in laugh12321/TensorRT-YOLO afc06ec,
modules/plugin/efficientRotatedNMSPlugin/efficientRotatedNMSInference.cuh. How much two boxes
overlap is not an area: it is the similarity of two normal distributions (probiou) of Llerena and
others (2021). Differs: the overlap is the published one, as Ultralytics has it; the plugin has half
the mixed term, and no root and another divisor in the last one, which looks like a slip. Otherwise
as EfficientNMS_TRT. Tested against a loop by its definition, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class, infer_detections
from pyopnb.catalog.cores.candidates import best_candidates, decode_boxes, raw_threshold
from pyopnb.catalog.cores.gaussian_boxes import suppress_gaussian

NAMES = ("TRT::EfficientRotatedNMS_TRT", "::EfficientRotatedNMS_TRT")


class EfficientRotatedNMS_TRT:
    """Select the best turned boxes of all classes, at most ``max_output_boxes`` an image.

    Boxes are two corners, or a center and a size with ``box_coding`` 1, before they are turned by
    an angle in radians. They come out as corners and angle.
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
        self.score_threshold = score_threshold
        self.iou_threshold = iou_threshold
        self.most = max_output_boxes
        self.background = background_class
        self.is_logit = bool(score_activation)
        self.is_class_agnostic = bool(class_agnostic)
        self.has_centers = bool(box_coding)

    def infer(self, boxes, scores, anchors=None):
        return infer_detections(boxes, scores, self.most, numbers=5)

    def compute(
        self, boxes, scores, anchors=None
    ) -> ("int32[B, 1]", "any[B, M, 5]", "any[B, M]", "int32[B, M]"):
        boxes = boxes_by_class(boxes, scores, 5)
        batch = len(scores)
        threshold = raw_threshold(self.score_threshold, scores.dtype, is_logit=self.is_logit)
        count = np.zeros((batch, 1), np.int32)
        best_boxes = np.zeros((batch, self.most, 5), boxes.dtype)
        best_scores = np.zeros((batch, self.most), scores.dtype)
        best_classes = np.zeros((batch, self.most), np.int32)
        for image in range(batch):
            turned = self._decode(boxes[image], anchors, image)
            values = scores[image].astype(np.float32)
            selected, numbers, classes = self._select(turned, values, threshold)
            rows = len(numbers)
            count[image] = rows
            best_boxes[image, :rows] = selected
            best_values = values[numbers, classes]
            if self.is_logit:
                best_values = 1 / (1 + np.exp(-best_values))
            best_scores[image, :rows] = best_values
            best_classes[image, :rows] = classes
        return count, best_boxes, best_scores, best_classes

    def _decode(self, boxes, anchors, image):
        """Return corners and angle of an image's boxes, float32[N,1 or C,5]."""
        if anchors is not None:
            anchors = anchors[..., :4]
        corners = decode_boxes(boxes[..., :4], anchors, image, has_centers=self.has_centers)
        # An anchor turns no box.
        return np.concatenate([corners, boxes[..., 4:].astype(np.float32)], axis=-1)

    def _select(self, boxes, scores, threshold):
        """Return boxes, numbers and classes of an image's best boxes."""
        # Comparing turned boxes is slow, so that the plugin takes fewer than of others.
        numbers, classes = best_candidates(scores, threshold, self.background, 2000)
        if self.is_class_agnostic:
            labels = np.zeros_like(classes)
        else:
            labels = classes
        columns = classes if boxes.shape[1] > 1 else 0
        candidates = boxes[numbers, columns]
        kept = suppress_gaussian(candidates, labels, self.iou_threshold, self.most)
        return candidates[kept], numbers[kept], classes[kept]

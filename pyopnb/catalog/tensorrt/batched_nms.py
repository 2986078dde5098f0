"""BatchedNMS_TRT and BatchedNMSDynamic_TRT, of TensorRT 7 and 8, which YOLOv6, yolort and TAO use.

Defined in NVIDIA/TensorRT v10.0.1, plugin/batchedNMSPlugin/batchedNMSInference.cu and
plugin/common/kernels/allClassNMS.cu. Differs: equal scores come in the order of the input, where
the plugin's order is any; scores of float16 keep all bits for any scoreBits; and keepTopK may
be over topK, where the plugin writes nothing. Tested against the ONNX Runtime NonMaxSuppression,
exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import (
    boxes_by_class,
    infer_detections,
    sort_corners,
    suppress,
    suppress_pixels,
)
from pyopnb.catalog.cores.nms_form import limit_over, per_class_form
from pyopnb.catalog.cores.onnx_text import dtype_number
from pyopnb.catalog.cores.per_class_nms import select_per_class

NAMES = (
    "::BatchedNMS_TRT",
    "TRT::BatchedNMS_TRT",
    "::BatchedNMSDynamic_TRT",
    "TRT::BatchedNMSDynamic_TRT",
)


class BatchedNMSDynamic_TRT:
    """Select the ``keepTopK`` best boxes of an image, after suppression inside each class.

    A box counts if its score is over the threshold, and is suppressed if it overlaps a better one
    of its class by more than ``iouThreshold``. The classes are float32; rows after the boxes that
    were found have class -1.
    """

    def __init__(
        self,
        shareLocation: int = 1,
        backgroundLabelId: int = -1,
        numClasses: int = 80,
        topK: int = 1000,
        keepTopK: int = 100,
        scoreThreshold: float = 0.25,
        iouThreshold: float = 0.5,
        isNormalized: int = 1,
        clipBoxes: int = 1,
        scoreBits: int = 16,
        caffeSemantics: int = 1,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.keep = keepTopK
        self.limits = {
            "score_threshold": scoreThreshold,
            "top_k": topK,
            "keep": keepTopK,
            "background": backgroundLabelId,
        }
        self.iou_threshold = iouThreshold
        self.clips = bool(clipBoxes)
        # Where pixels are counted, a box from 3 to 5 is three pixels wide.
        self.counts_pixels = not isNormalized
        self.offset = float(bool(caffeSemantics))

    def infer(self, boxes, scores):
        return infer_detections(boxes, scores, self.keep, classes=scores.dtype)

    def compute(self, boxes, scores) -> ("int32[B, 1]", "any[B, K, 4]", "any[B, K]", "any[B, K]"):
        if scores.ndim == 4:
            # Scores may have a last axis of one, as Caffe's did.
            scores = scores[..., 0]
        boxes = boxes_by_class(boxes, scores)
        batch = len(scores)
        count = np.zeros((batch, 1), np.int32)
        best_boxes = np.zeros((batch, self.keep, 4), boxes.dtype)
        best_scores = np.zeros((batch, self.keep), scores.dtype)
        best_classes = np.full((batch, self.keep), -1, scores.dtype)
        for best in select_per_class(boxes, scores, self._suppress, **self.limits):
            rows = len(best.numbers)
            count[best.image] = rows
            best_boxes[best.image, :rows] = best.boxes.clip(0, 1) if self.clips else best.boxes
            best_scores[best.image, :rows] = best.scores
            best_classes[best.image, :rows] = best.classes
        return count, best_boxes, best_scores, best_classes

    def _suppress(self, boxes, most):
        corners = sort_corners(boxes)
        if self.counts_pixels:
            return suppress_pixels(corners, self.iou_threshold, self.offset, most)
        return suppress(corners, self.iou_threshold, limit=most)

    lowered_opset = 15

    def lowered(self, boxes, scores):
        if self.counts_pixels:
            raise NotImplementedError("pixels that are counted, with isNormalized=0")
        nodes = per_class_form(limit=limit_over(self.iou_threshold), **self.limits)
        # Scores may have a last axis of one.
        one_a_class = "Squeeze(any_scores_32, last_axis)"
        if len(scores.shape) == 3:
            one_a_class = "Identity(any_scores_32)"
        clip = "Clip(real_boxes, zero, unit)" if self.clips else "Identity(real_boxes)"
        return f"""(boxes, scores) => (count, best_boxes, best_scores, best_classes) {{
            boxes_32 = Cast<to = 1>(boxes)
            any_scores_32 = Cast<to = 1>(scores)
            last_axis = Constant<value_ints = [-1]>()
            scores_32 = {one_a_class}
            {nodes}
            count = ReduceSum<keepdims = 1>(one_a_row, class_axis)
            real_boxes = Where(is_row_column, box_rows, zero)
            clipped = {clip}
            best_boxes = Cast<to = {dtype_number(boxes)}>(clipped)
            best_scores = Cast<to = {dtype_number(scores)}>(score_rows)
            best_classes = Cast<to = {dtype_number(scores)}>(label_rows)
        }}"""

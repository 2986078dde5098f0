"""TRTBatchedNMS, which ends the detectors that mmdeploy exports for TensorRT.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/tensorrt/common_impl/nms/gatherNMSOutputs.cu and allClassNMS.cu. Unlike
NVIDIA's plugin of nearly that name, it gives boxes and scores as one tensor, int32 labels, and
never adds 1 to a width. Differs: equal scores come in the order of the input, where the plugin's
order is any; and keep_topk may be over topk, where the plugin writes nothing. Tested against ONNX
Runtime's NonMaxSuppression, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import boxes_by_class, suppress
from pyopnb.catalog.cores.nms_form import limit_over, per_class_form
from pyopnb.catalog.cores.onnx_text import dtype_number
from pyopnb.catalog.cores.per_class_nms import select_per_class

NAMES = ("mmdeploy::TRTBatchedNMS",)


class TRTBatchedNMS:
    """Select the ``keep_topk`` best boxes of an image, after suppression inside each class.

    A box counts if its score is over the threshold, and is suppressed if it overlaps a better one
    of its class by more than ``iou_threshold``. Rows after the boxes that were found have label and
    index -1. A node has the third output, the numbers of the boxes, only with ``return_index``;
    with boxes for each class, a number counts the boxes of one class after another. A box
    whose corners are swapped overlaps none.
    """

    def __init__(
        self,
        background_label_id: int = -1,
        num_classes: int = 80,
        iou_threshold: float = 0.5,
        score_threshold: float = 0.05,
        topk: int = 1000,
        keep_topk: int = 100,
        is_normalized: int = 0,
        clip_boxes: int = 1,
        return_index: int = 0,
    ):
        self.iou_threshold = iou_threshold
        self.keep = keep_topk
        self.limits = {
            "score_threshold": score_threshold,
            "top_k": topk,
            "keep": keep_topk,
            "background": background_label_id,
        }
        self.clips = bool(clip_boxes)

    def infer(self, boxes, scores):
        batch = (scores.shape or (None,))[0]
        numbers = scores.like(dtype="int32", shape=(batch, self.keep))
        return boxes.like(shape=(batch, self.keep, 5)), numbers, numbers

    def compute(self, boxes, scores) -> ("any[B, K, 5]", "int32[B, K]", "int32[B, K]"):
        boxes = boxes_by_class(boxes, scores)
        batch = len(scores)
        detections = np.zeros((batch, self.keep, 5), boxes.dtype)
        labels = np.full((batch, self.keep), -1, np.int32)
        indices = np.full((batch, self.keep), -1, np.int32)
        for best in select_per_class(boxes, scores, self._suppress, **self.limits):
            # Rows after these stay as padding.
            rows = len(best.numbers)
            corners = best.boxes.clip(0, 1) if self.clips else best.boxes
            detections[best.image, :rows, :4] = corners
            detections[best.image, :rows, 4] = best.scores
            labels[best.image, :rows] = best.classes
            numbers = best.numbers
            if boxes.shape[2] > 1:
                numbers = numbers + best.classes * boxes.shape[1]
            indices[best.image, :rows] = numbers
        return detections, labels, indices

    def _suppress(self, boxes, most):
        return suppress(boxes, self.iou_threshold, limit=most)

    lowered_opset = 15

    def lowered(self, boxes, scores):
        limit = limit_over(self.iou_threshold)
        nodes = per_class_form(limit=limit, sorts_corners=False, **self.limits)
        clip = "Clip(box_rows, zero, unit)" if self.clips else "Identity(box_rows)"
        return f"""(boxes, scores) => (detections, best_labels, best_numbers) {{
            boxes_32 = Cast<to = 1>(boxes)
            scores_32 = Cast<to = 1>(scores)
            last_axis = Constant<value_ints = [-1]>()
            {nodes}
            clipped = {clip}
            best_column = Unsqueeze(best, last_axis)
            rows_32 = Concat<axis = 2>(clipped, best_column)
            real_rows = Where(is_row_column, rows_32, zero)
            detections = Cast<to = {dtype_number(boxes)}>(real_rows)
            best_labels = Cast<to = 6>(label_rows)
            box_classes = Shape<start = 2, end = 3>(boxes)
            is_per_class = Greater(box_classes, class_axis)
            boxes_before = Mul(class_rows, box_count)
            numbers_per_class = Add(number_rows, boxes_before)
            all_numbers = Where(is_per_class, numbers_per_class, number_rows)
            real_numbers = Where(is_row, all_numbers, nobody)
            best_numbers = Cast<to = 6>(real_numbers)
        }}"""

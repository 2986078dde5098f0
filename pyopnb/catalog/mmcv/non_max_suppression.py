"""mmcv's NonMaxSuppression, which is another operator than ONNX's of that name.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/nms.cpp. Tested against ONNX
Runtime's NonMaxSuppression, and boxes at the threshold, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import suppress
from pyopnb.catalog.cores.nms_form import limit_over

NAMES = ("mmcv::NonMaxSuppression",)


class NonMaxSuppression:
    """Return the numbers of the boxes that no better box overlaps by more than ``iou_threshold``.

    ``offset`` is added to widths and heights: 1 where corners are pixels.
    """

    def __init__(self, iou_threshold: float = 0.5, offset: int = 0):
        self.iou_threshold = iou_threshold
        self.offset = float(offset)

    def infer(self, boxes, scores):
        return boxes.like(dtype="int64", shape=(None,))

    def compute(self, boxes: "any[N, 4]", scores: "any[N]"):
        # The first of equal scores stays first.
        order = np.argsort(-scores.astype(np.float32), kind="stable")
        ordered = boxes[order].astype(np.float32)
        return order[suppress(ordered, self.iou_threshold, offset=self.offset)]

    lowered_opset = 15
    lowered_finite = True

    def lowered(self, boxes, scores):
        if self.offset:
            # Added to a corner instead, it would be lost in large coordinates.
            raise NotImplementedError(f"offset={self.offset:g}")
        return f"""(boxes, scores) => (numbers) {{
            boxes_32 = Cast<to = 1>(boxes)
            scores_32 = Cast<to = 1>(scores)
            two_and_two = Constant<value_ints = [2, 2]>()
            low, high = Split<axis = 1>(boxes_32, two_and_two)
            # ONNX's operator puts corners in order; here, a box the wrong way round has no area.
            far = Max(high, low)
            image = Constant<value_ints = [0]>()
            ordered = Concat<axis = 1>(low, far)
            images = Unsqueeze(ordered, image)
            image_and_class = Constant<value_ints = [0, 1]>()
            class_scores = Unsqueeze(scores_32, image_and_class)
            most = Shape(scores)
            limit = Constant<value_float = {limit_over(self.iou_threshold)}>()
            selected = NonMaxSuppression(images, class_scores, most, limit)
            number_column = Constant<value_int = 2>()
            numbers = Gather<axis = 1>(selected, number_column)
        }}"""

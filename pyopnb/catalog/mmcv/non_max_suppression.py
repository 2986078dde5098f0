"""mmcv's NonMaxSuppression, which is another operator than ONNX's of that name.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/nms.cpp.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import suppress

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

    def compute(self, boxes, scores):
        order = np.argsort(-scores.astype(np.float32), kind="stable")
        ordered = boxes[order].astype(np.float32)
        return order[suppress(ordered, self.iou_threshold, offset=self.offset)]

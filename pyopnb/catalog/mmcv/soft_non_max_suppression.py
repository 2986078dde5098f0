"""SoftNonMaxSuppression of mmcv 1.x, which lowers the scores of boxes that overlap.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/soft_nms.cpp, after Bodla and
others (2017). Tested against the published algorithm on lists, to 1e-5.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.boxes import overlaps

NAMES = ("mmcv::SoftNonMaxSuppression",)

LINEAR, GAUSSIAN = 1, 2


class SoftNonMaxSuppression:
    """Take the best box, lower the scores of the boxes that it overlaps, and repeat.

    Boxes whose score falls below ``min_score`` are dropped. Method 0 removes boxes whose IoU is at
    least ``iou_threshold``, method 1 multiplies the scores of these boxes by 1 - IoU, and method 2
    multiplies all scores by exp(-IoU² / sigma).
    """

    def __init__(
        self,
        iou_threshold: float = 0.3,
        sigma: float = 0.5,
        min_score: float = 1e-3,
        method: Literal[0, 1, 2] = 0,
        offset: int = 0,
    ):
        self.iou_threshold = np.float32(iou_threshold)
        self.sigma = np.float32(sigma)
        self.min_score = np.float32(min_score)
        self.method = method
        self.offset = float(offset)

    def infer(self, boxes, scores):
        return boxes.like(shape=(None, 5)), boxes.like(dtype="int64", shape=(None,))

    def compute(self, boxes: "any[N, 4]", scores: "any[N]") -> ("any[K, 5]", "int64[K]"):
        rows = np.concatenate([boxes, scores[:, None]], 1)
        rows = rows.astype(np.float32)
        numbers = np.arange(len(rows))
        position = 0
        while position < len(rows):
            best = position + int(rows[position:, 4].argmax())
            # The best box is swapped to the front, as the kernel does it in place.
            rows[[position, best]] = rows[[best, position]]
            numbers[[position, best]] = numbers[[best, position]]
            position += 1
            best_box = rows[position - 1, :4]
            weights = self._weights(best_box, rows[position:, :4])
            rows[position:, 4] *= weights
            is_kept = np.ones(len(rows), bool)
            is_kept[position:] = rows[position:, 4] >= self.min_score
            rows, numbers = self._without_gaps(rows, numbers, is_kept)
        return rows.astype(boxes.dtype), numbers.astype(np.int64)

    def _weights(self, box, boxes):
        overlap = overlaps(box, boxes, self.offset)
        if self.method == GAUSSIAN:
            result = -(overlap**2) / self.sigma
            return np.exp(result)
        if self.method == LINEAR:
            # Only a linear weight keeps a part of the score.
            reduced = 1 - overlap
        else:
            reduced = 0
        return np.where(overlap >= self.iou_threshold, reduced, 1)

    def _without_gaps(self, rows, numbers, is_kept):
        """Move the last box into the place of each dropped box, as the kernel does.

        This decides the order of equal scores.
        """
        rows = rows.copy()
        numbers = numbers.copy()
        is_kept = is_kept.copy()
        position, end = 0, len(rows)
        while position < end:
            if is_kept[position]:
                position += 1
                continue
            end -= 1
            rows[position] = rows[end]
            numbers[position] = numbers[end]
            is_kept[position] = is_kept[end]
        return rows[:end], numbers[:end]

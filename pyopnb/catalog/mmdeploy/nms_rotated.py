"""NMSRotated, which ends the detectors of turned boxes that mmdeploy exports from mmrotate.

Defined in open-mmlab/mmdeploy v1.3.1, csrc/mmdeploy/backend_ops/onnxruntime/nms_rotated. mmcv has
an operator of the same name with boxes [N,5] and one score a box; it is another one.
Tested against ONNX Runtime's NonMaxSuppression on boxes that are not turned, and an octagon's area,
exactly.
"""

import numpy as np

from pyopnb.catalog.cores.rotated_boxes import suppress_rotated

NAMES = ("mmdeploy::NMSRotated",)


class NMSRotated:
    """Select turned boxes in each image and class, as rows of image, class and box.

    The best box of a class suppresses those that it overlaps by more than ``iou_threshold``, whatever their
    score. Of what is left, the boxes with a score over ``score_threshold`` are returned.
    """

    def __init__(self, iou_threshold: float = 0.5, score_threshold: float = 0.0):
        self.iou_threshold = iou_threshold
        self.score_threshold = np.float32(score_threshold)

    def infer(self, boxes, scores):
        return boxes.like(dtype="int64", shape=(None, 3))

    def compute(self, boxes: "any[B, N, 5]", scores: "any[B, C, N]"):
        rows = []
        for image in range(len(boxes)):
            for label, class_scores in enumerate(scores[image].astype(np.float32)):
                order = np.argsort(-class_scores, kind="stable")
                kept = order[suppress_rotated(boxes[image][order], self.iou_threshold)]
                # Scores are compared after suppression: a bad box may suppress a worse one.
                kept = kept[class_scores[kept] > self.score_threshold]
                rows += [(image, label, number) for number in kept]
        flat = np.array(rows, np.int64)
        return flat.reshape(-1, 3)

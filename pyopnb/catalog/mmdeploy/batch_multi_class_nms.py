"""BatchMultiClassNMS of mmdeploy, TensorFlow's combined suppression.

Defined in open-mmlab/mmdeploy v1.3.1, csrc/mmdeploy/backend_ops, by TensorFlow's
tf.image.combined_non_max_suppression.
Tested against ONNX Runtime's NonMaxSuppression, exactly.
"""

import numpy as np

from pyopnb.catalog.cores.per_class_nms import select_images

NAMES = ("mmdeploy::BatchMultiClassNMS",)


class BatchMultiClassNMS:
    """Select boxes inside each class, then the best of all classes; rows after them are 0."""

    def __init__(
        self,
        score_threshold: float = 0.0,
        iou_threshold: float = 0.5,
        max_size_per_class: int = 100,
        max_total_size: int = 100,
    ):
        self.attrs = {
            "score_threshold": score_threshold,
            "iou_threshold": iou_threshold,
            "keep": max_total_size,
            "keep_per_class": max_size_per_class,
        }
        self.most = max_total_size

    def infer(self, boxes, scores):
        if scores.shape:
            batch = scores.shape[0]
        else:
            batch = None
        return (
            boxes.like(shape=(batch, self.most, 4)),
            scores.like(shape=(batch, self.most)),
            scores.like(shape=(batch, self.most)),
            scores.like(dtype="int32", shape=(batch,)),
        )

    def compute(self, boxes, scores) -> ("any[B,K,4]", "any[B,K]", "any[B,K]", "int32[B]"):
        batch = len(scores)
        # Boxes that all classes share may lack their axis.
        per_class = boxes.reshape(batch, boxes.shape[1], -1, 4)
        best_boxes = np.zeros((batch, self.most, 4), boxes.dtype)
        best_scores, best_classes = np.zeros((2, batch, self.most), scores.dtype)
        # Rows after the count are padding.
        counts = np.zeros(batch, np.int32)
        selections = select_images(per_class, scores, top_k=0, **self.attrs)
        for image, numbers, classes, columns in selections:
            rows = counts[image] = len(numbers)
            best_boxes[image, :rows] = per_class[image, numbers, columns]
            best_scores[image, :rows] = scores[image, numbers, classes]
            best_classes[image, :rows] = classes
        return best_boxes, best_scores, best_classes, counts

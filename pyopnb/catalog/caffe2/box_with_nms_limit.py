"""BoxWithNMSLimit of Caffe2, which ends the box head of detectron2's exported models.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/box_with_nms_limit_op.cc. Differs: soft
suppression and turned boxes are refused. Tested against a loop by its definition, to 1e-6.
"""

import numpy as np

from pyopnb.catalog.cores.boxes import suppress

NAMES = ("org.pytorch._caffe2::BoxWithNMSLimit",)


class BoxWithNMSLimit:
    """Suppress boxes inside each class, and keep the best of an image, one class after the other.

    Class 0 is the background; with ``input_boxes_include_bg_cls`` 0 it has no boxes, and its
    score is the last one. The outputs are scores, boxes, classes, boxes an image, numbers of
    boxes, and boxes a class.
    """

    def __init__(
        self,
        score_thresh: float = 0.05,
        nms: float = 0.3,
        detections_per_im: int = 100,
        soft_nms_enabled: int = 0,
        soft_nms_method: str = "linear",
        soft_nms_sigma: float = 0.5,
        soft_nms_min_score_thres: float = 0.001,
        rotated: int = 0,
        cls_agnostic_bbox_reg: int = 0,
        input_boxes_include_bg_cls: int = 1,
        output_classes_include_bg_cls: int = 1,
        legacy_plus_one: int = 1,
    ):
        if soft_nms_enabled or rotated:
            raise ValueError("expected soft_nms_enabled=0 and rotated=0: neither is implemented")
        self.score_threshold = np.float32(score_thresh)
        self.iou_threshold = nms
        self.most = detections_per_im
        self.is_class_agnostic = bool(cls_agnostic_bbox_reg)
        self.first = int(bool(input_boxes_include_bg_cls))
        self.shift = int(bool(output_classes_include_bg_cls))
        self.plus_one = float(legacy_plus_one)

    def infer(self, scores, boxes, splits=None):
        row = scores.like(shape=(None,))
        numbers = scores.like(dtype="int32", shape=(None,))
        counts = scores.like(dtype="int32", shape=(None, None))
        return row, boxes.like(shape=(None, 4)), row, row, numbers, counts

    def compute(
        self, scores, boxes, splits=None
    ) -> ("any[K]", "any[K,4]", "any[K]", "any[B]", "int32[K]", "int32[B,C]"):
        if splits is None:
            splits = np.float32([len(scores)])
        stops = np.cumsum(splits).astype(np.int64)
        shape = (len(stops), scores.shape[1])
        sizes = np.zeros(shape, np.int32)
        rows = [np.zeros((0, 3), np.int64)]
        for image, (start, end) in enumerate(
            zip(stops - splits.astype(np.int64), stops, strict=True)
        ):
            selected = self._select(scores[start:end], boxes[start:end])
            sizes[image] = np.bincount(selected[:, 0] + 1, minlength=scores.shape[1])
            # The place in all scores, then the class and the number inside the image.
            rows.append(np.column_stack([selected[:, 1] + start, selected]))
        positions, classes, numbers = np.concatenate(rows).T
        if self.is_class_agnostic:
            box_classes = np.zeros_like(classes)
        else:
            box_classes = classes + self.first
        best_boxes = boxes.reshape(len(boxes), boxes.shape[1] // 4, 4)[positions, box_classes]
        best_scores = scores[positions, classes + self.first]
        per_image = sizes.sum(axis=1).astype(scores.dtype)
        labels = (classes + self.shift).astype(scores.dtype)
        return best_scores, best_boxes, labels, per_image, numbers.astype(np.int32), sizes

    def _select(self, scores, boxes):
        """Return a row for each selected box: its class without the background, and its number.

        Rows are sorted by class, and the best box of a class comes first.
        """
        rows = []
        for label in range(scores.shape[1] - 1):
            column = scores[:, label + self.first]
            candidates = np.flatnonzero(column > self.score_threshold)
            # The best box of a class suppresses the others.
            candidates = candidates[np.argsort(-column[candidates], kind="stable")]
            if self.is_class_agnostic:
                # Agnostic heads predict one box for all classes.
                box_class = 0
            else:
                box_class = label + self.first
            class_boxes = boxes[candidates, 4 * box_class : 4 * box_class + 4]
            if self.most > 0:
                limit = self.most
            else:
                limit = None
            kept = suppress(class_boxes, self.iou_threshold, offset=self.plus_one, limit=limit)
            rows += [(label, number) for number in candidates[kept]]
        selected = np.array(rows, np.int64)
        selected = selected.reshape(-1, 2)
        # The limit is one of all classes together; the rows of a class stay in order.
        if 0 < self.most < len(selected):
            classes, numbers = selected.T
            values = scores[numbers, classes + self.first]
            best = np.argsort(-values, kind="stable")
            selected = selected[best[: self.most]]
            by_class = np.argsort(selected[:, 0], kind="stable")
            selected = selected[by_class]
        return selected

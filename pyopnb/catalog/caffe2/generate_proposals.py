"""GenerateProposals of Caffe2, which turns the scores of anchors into regions.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/generate_proposals_op.cc and
generate_proposals_op_util_boxes.h. Differs: turned anchors are refused; and of equal scores, the
first in the order of rows, columns and anchors comes first. Tested against a loop by its
definition, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.box_deltas import clip_boxes, move_boxes
from pyopnb.catalog.cores.boxes import suppress

NAMES = ("org.pytorch._caffe2::GenerateProposals",)


class GenerateProposals:
    """Move anchors by their deltas, drop small boxes, and keep the best after suppression."""

    def __init__(
        self,
        spatial_scale: float = 0.0625,
        pre_nms_topN: int = 6000,
        post_nms_topN: int = 300,
        nms_thresh: float = 0.7,
        min_size: float = 16.0,
        angle_bound_on: int = 1,
        angle_bound_lo: int = -90,
        angle_bound_hi: int = 90,
        clip_angle_thresh: float = 1.0,
        legacy_plus_one: int = 1,
    ):
        self.stride = np.float32(1 / spatial_scale)
        self.candidates = pre_nms_topN
        self.most = post_nms_topN
        self.iou_threshold = nms_thresh
        self.min_size = np.float32(min_size)
        self.plus_one = float(legacy_plus_one)

    def infer(self, scores, deltas, image_info, anchors):
        return scores.like(shape=(None, 5)), scores.like(shape=(None,))

    def compute(self, scores, deltas, image_info, anchors) -> ("any[R,5]", "any[R]"):
        if anchors.shape[1] != 4:
            raise ValueError(f"anchors: expected four numbers each, got {anchors.shape[1]}")
        height, width = scores.shape[2:]
        # An anchor is moved to every cell of the feature map, by the stride of its level.
        down, across = np.mgrid[:height, :width].astype(np.float32) * self.stride
        shifts = np.stack([across, down, across, down], axis=-1)
        all_anchors = shifts[:, :, None] + anchors
        all_anchors = all_anchors.reshape(-1, 4)
        regions = [np.zeros((0, 5), scores.dtype)]
        probabilities = [np.zeros(0, scores.dtype)]
        for number, info in enumerate(image_info):
            rows = scores[number].transpose(1, 2, 0)
            rows = rows.ravel()
            image_deltas = deltas[number].transpose(1, 2, 0)
            image_deltas = image_deltas.reshape(-1, 4)
            # Only the best candidates are moved and compared: suppression is quadratic in them.
            order = np.argsort(-rows, kind="stable")
            if self.candidates > 0:
                order = order[: self.candidates]
            moved = move_boxes(all_anchors[order], image_deltas[order], plus_one=self.plus_one)
            boxes, kept = self._select(moved, info)
            regions.append(np.insert(boxes, 0, number, axis=1).astype(scores.dtype))
            probabilities.append(rows[order][kept])
        return np.concatenate(regions), np.concatenate(probabilities)

    def _select(self, moved, info):
        """Return the best boxes of an image, and their positions among the candidates."""
        # The sizes of images are floats, and whole numbers where boxes are cut.
        boxes = clip_boxes(moved, int(info[0]), int(info[1]), plus_one=self.plus_one)
        sizes = boxes[:, 2:] - boxes[:, :2]
        sizes = sizes + np.float32(self.plus_one)
        centers = boxes[:, :2] + sizes / 2
        # The smallest size is one of the original image, and boxes are of the scaled one.
        is_large = (sizes >= self.min_size * info[2]).all(axis=1)
        is_inside = (centers < info[[1, 0]]).all(axis=1)
        kept = np.flatnonzero(is_large & is_inside)
        if self.most > 0:
            limit = self.most
        else:
            limit = None
        # Candidates are in the order of their scores, as suppression needs them.
        chosen = suppress(boxes[kept], self.iou_threshold, offset=self.plus_one, limit=limit)
        return boxes[kept[chosen]], kept[chosen]

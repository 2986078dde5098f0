"""BBoxTransform of Caffe2, which applies the predictions of the box head of detectron2.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/bbox_transform_op.cc. Differs: turned boxes are
refused. Tested against a loop by its definition, to 1e-4.
"""

import numpy as np

from pyopnb.catalog.cores.box_deltas import clip_boxes, move_boxes

NAMES = ("org.pytorch._caffe2::BBoxTransform",)


class BBoxTransform:
    """Apply each class's deltas to the boxes, clip the results, and count the boxes per image."""

    def __init__(
        self,
        weights: list[float] = [1.0, 1.0, 1.0, 1.0],
        apply_scale: int = 1,
        rotated: int = 0,
        angle_bound_on: int = 1,
        angle_bound_lo: int = -90,
        angle_bound_hi: int = 90,
        clip_angle_thresh: float = 1.0,
        legacy_plus_one: int = 1,
    ):
        if rotated:
            raise ValueError("rotated: expected 0, got 1: turned boxes are not implemented")
        self.weights = weights
        self.applies_scale = bool(apply_scale)
        self.plus_one = float(legacy_plus_one)

    def infer(self, rois, deltas, image_info):
        if image_info.shape:
            batch = image_info.shape[0]
        else:
            batch = None
        return deltas, deltas.like(shape=(batch,))

    def compute(self, rois, deltas, image_info) -> ("any[R,D]", "any[B]"):
        has_images = rois.shape[1] == 5
        if has_images:
            images = rois[:, 0].astype(np.int64)
        else:
            images = np.zeros(len(rois), np.int64)
        boxes = np.empty_like(deltas)
        for number, (height, width, scale) in enumerate(image_info):
            rows = np.flatnonzero(images == number)
            # Regions are in the scaled image, and deltas apply to the original one.
            original = rois[rows, -4:] / scale
            original_height = int(height / scale + 0.5)
            original_width = int(width / scale + 0.5)
            size = (original_height, original_width)
            # Each class has four deltas of its own, and all classes share the region.
            for start in range(0, deltas.shape[1], 4):
                columns = slice(start, start + 4)
                moved = move_boxes(
                    original, deltas[rows, columns], self.weights, plus_one=self.plus_one
                )
                clipped = clip_boxes(moved, *size, plus_one=self.plus_one)
                if self.applies_scale:
                    boxes[rows, columns] = clipped * scale
                else:
                    boxes[rows, columns] = clipped
        # Caffe2 counts in floats.
        counts = np.bincount(images, minlength=len(image_info))
        return boxes, counts.astype(deltas.dtype)

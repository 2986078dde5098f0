"""roi_pool of torchvision, the maxima of regions of Fast R-CNN.

Defined in pytorch/vision 32c7f39, torchvision/csrc/ops/cpu/roi_pool_kernel.cpp. Tested against ONNX
Runtime's MaxRoiPool, exactly.
"""

import numpy as np

NAMES = ("torchvision::roi_pool", "::roi_pool")


class roi_pool:
    """Take the maxima of a region's bins, whose edges are whole pixels, and where they are."""

    def infer(self, x, rois, spatial_scale, pooled_height, pooled_width):
        pooled = x.like(shape=(None,) * 4)
        return pooled, pooled.like(dtype="int32")

    def compute(
        self, x, rois, spatial_scale, pooled_height, pooled_width
    ) -> ("any[R,C,H,W]", "int32[R,C,H,W]"):
        bins = (int(pooled_height.item()), int(pooled_width.item()))
        height, width = x.shape[2:]
        shape = (len(rois), x.shape[1], *bins)
        pooled = np.zeros(shape, x.dtype)
        positions = np.full(pooled.shape, -1, np.int32)
        # C rounds halves away from zero.
        scaled = rois[:, 1:].astype(np.float32)
        scaled = scaled * np.float32(spatial_scale.item())
        edges = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
        edges = edges.astype(np.int64)
        for region, (left, top, right, bottom) in enumerate(edges):
            image = x[int(rois[region, 0])]
            rows = _bins(top, bottom, bins[0], height)
            columns = _bins(left, right, bins[1], width)
            for row, column in np.ndindex(bins):
                window = image[:, rows[row], columns[column]]
                # A bin outside the image is 0, and has no place.
                if not window.size:
                    continue
                flat = window.reshape(len(window), -1)
                # The first of equal maxima, as in a loop along rows.
                first = flat.argmax(axis=1)
                pooled[region, :, row, column] = flat.max(axis=1)
                down, across = np.divmod(first, window.shape[2])
                place = (rows[row].start + down) * width
                place = place + columns[column].start
                positions[region, :, row, column] = place + across
        return pooled, positions


def _bins(start, end, count, length):
    """Return the slice of pixels of each bin along an axis.

    Bins overlap where their number does not divide the region.
    """
    size = max(end - start + 1, 1) / count
    slices = []
    for number in range(count):
        low = int(np.floor(number * size)) + start
        high = int(np.ceil((number + 1) * size)) + start
        low = int(np.clip(low, 0, length))
        high = int(np.clip(high, 0, length))
        slices.append(slice(low, high))
    return slices

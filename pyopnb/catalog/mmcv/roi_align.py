"""MMCVRoiAlign, which mmcv 1.x and mmdeploy write for regions of feature maps.

Defined in open-mmlab/mmcv v1.7.2, mmcv/ops/csrc/onnxruntime/cpu/roi_align.cpp. In the mode avg it
is the ONNX RoiAlign with the image's number in the first column of the regions. Tested against ONNX
Runtime's RoiAlign, and a loop for maxima, to 1e-4.
"""

from typing import Literal

import numpy as np

from pyopnb.catalog.cores.onnx_text import dtype_number, exact
from pyopnb.catalog.cores.roi_align import image_of, infer_regions, pool_region

NAMES = ("mmcv::MMCVRoiAlign", "mmdeploy::MMCVRoiAlign")


class MMCVRoiAlign:
    """Pool regions given by image, x1, y1, x2 and y2 to one size.

    ``aligned`` moves them by half a pixel and lets them be smaller than one.
    """

    def __init__(
        self,
        output_height: int,
        output_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        mode: Literal["avg", "max"] = "avg",
        aligned: int = 1,
    ):
        self.output_size = (output_height, output_width)
        self.scale = np.float32(spatial_scale)
        self.samples = sampling_ratio
        self.takes_maximum = mode == "max"
        self.aligned = bool(aligned)

    def infer(self, x, rois):
        return infer_regions(x, rois, self.output_size)

    def compute(self, x: "any[B, C, H, W]", rois: "any[R, 5]"):
        images = x.astype(np.float32)
        shape = (len(rois), x.shape[1], *self.output_size)
        pooled = np.empty(shape, x.dtype)
        for number, roi in enumerate(rois.astype(np.float32)):
            half_pixel = np.float32(0.5 * self.aligned)
            left, top, right, bottom = roi[1:] * self.scale - half_pixel
            # Regions are in pixels of the image, and maps are smaller.
            height = bottom - top
            width = right - left
            # The old form never pools less than a pixel.
            if not self.aligned:
                height = max(height, 1)
                width = max(width, 1)
            center = (top + height / 2, left + width / 2)
            image = image_of(images, roi)
            pooled[number] = pool_region(
                image,
                center,
                (height, width),
                self.output_size,
                samples=self.samples,
                takes_maximum=self.takes_maximum,
            )
        return pooled

    lowered_opset = 16
    lowered_finite = True

    def lowered(self, x, rois):
        if self.takes_maximum:
            # ONNX Runtime weights the pixels before it takes the maximum.
            raise NotImplementedError('mode="max"')
        height, width = self.output_size
        if self.aligned:
            transformation = "half_pixel"
        else:
            transformation = "output_half_pixel"
        attrs = f"""output_height = {height}, output_width = {width}, mode = "avg",
            spatial_scale = {exact(self.scale)}, sampling_ratio = {max(self.samples, 0)},
            coordinate_transformation_mode = "{transformation}\""""
        return f"""(x, rois) => (y) {{
            x_32 = Cast<to = 1>(x)
            rois_32 = Cast<to = 1>(rois)
            one_and_four = Constant<value_ints = [1, 4]>()
            image_column, corners = Split<axis = 1>(rois_32, one_and_four)
            image_numbers = Cast<to = 7>(image_column)
            column = Constant<value_ints = [1]>()
            any_images = Squeeze(image_numbers, column)
            # ONNX Runtime does not check them before it reads there.
            first = Constant<value_int = 0>()
            one = Constant<value_ints = [1]>()
            image_count = Shape<end = 1>(x)
            last = Sub(image_count, one)
            near_images = Min(any_images, last)
            images = Max(near_images, first)
            y_32 = RoiAlign<{attrs}>(x_32, corners, images)
            y = Cast<to = {dtype_number(x)}>(y_32)
        }}"""

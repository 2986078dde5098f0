"""AveragePool of ONNX version 1, whose means leave the padding out.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, AveragePool-1. PyTorch 0.3 writes one number of
padding for each axis, for both of its ends. Tested against a loop by its definition, to 1e-6
(float32).
"""

from functools import cached_property
from typing import Literal

from onnx import helper

from pyopnb.catalog.cores.onnx_text import dtype_number, ints
from pyopnb.engine import node_kernel

NAMES = ("::AveragePool",)
VERSIONS = (1,)


class AveragePool_1:
    """Replace each window by the mean of its pixels that are in the image."""

    def __init__(
        self,
        kernel_shape: list[int],
        auto_pad: Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"] = "NOTSET",
        pads: list[int] = [],
        strides: list[int] = [],
    ):
        axes = len(kernel_shape)
        self.attrs = {"kernel_shape": kernel_shape, "strides": strides or [1] * axes}
        if auto_pad != "NOTSET":
            self.attrs["auto_pad"] = auto_pad
        elif pads:
            self.attrs["pads"] = pads if len(pads) == 2 * axes else pads * 2

    def infer(self, x):
        # Windows at the ends depend on auto_pad, and so sizes stay unknown.
        shape = (x.shape or (None, None))[:2]
        return x.like(shape=(*shape, *[None] * len(self.attrs["kernel_shape"])))

    @cached_property
    def kernel(self):
        # Version 7 has one more attribute, whose default behaves like this version.
        return node_kernel.NodeKernel(
            helper.make_node("AveragePool", [], ["y"], **self.attrs), {"": 7}
        )

    def compute(self, x):
        (means,) = self.kernel(x.astype("float32", copy=False))
        return means.astype(x.dtype, copy=False)

    lowered_opset = 7

    def lowered(self, x):
        attrs = []
        for name, value in self.attrs.items():
            text = f'"{value}"' if isinstance(value, str) else ints(value)
            attrs.append(f"{name} = {text}")
        return f"""(x) => (y) {{
            x_32 = Cast<to = 1>(x)
            y_32 = AveragePool<{", ".join(attrs)}>(x_32)
            y = Cast<to = {dtype_number(x)}>(y_32)
        }}"""

"""Deformable convolutions as the ONNX DeformConv, which ONNX Runtime computes in float32."""

from __future__ import annotations

from collections.abc import Sequence

from pyopnb.catalog.cores.onnx_text import dtype_number, ints
from pyopnb.engine import TensorType

__all__ = ["deform_conv_form"]


def deform_conv_form(
    x: TensorType,
    *,
    mask: str = "",
    bias: str = "",
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    offset_groups: int = 1,
) -> str:
    """Write the nodes that compute ``y`` from ``x``, ``offset`` and ``weight``.

    Parameters
    ----------
    x : TensorType
        Of the images, and of the result.
    mask, bias : str
        The names of these inputs; empty for one that is left out.
    stride, pads, dilation, groups, offset_groups
        As `pyopnb.catalog.cores.deformable_convolution.deformable_convolution` takes them.
    """
    names = ["x", "weight", "offset", bias, mask]
    casts = []
    inputs = []
    for name in names:
        inputs.append(f"{name}_32" if name else '""')
        if name:
            casts.append(f"{name}_32 = Cast<to = 1>({name})")
    attrs = f"strides = {ints(stride)}, pads = {ints(pads)}, dilations = {ints(dilation)}"
    return f"""
        {" ".join(casts)}
        y_32 = DeformConv<{attrs},
            group = {groups}, offset_group = {offset_groups}>({", ".join(inputs)})
        y = Cast<to = {dtype_number(x)}>(y_32)
    """

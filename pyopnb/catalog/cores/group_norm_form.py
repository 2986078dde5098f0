"""Normalization over groups of channels, in the ONNX operators."""

from __future__ import annotations

from pyopnb.catalog.cores.onnx_text import dtype_number, exact
from pyopnb.engine import TensorType

__all__ = ["group_norm_form", "instance_norm_form"]

# In a shape of Reshape, 0 means the length that the axis has.
_EACH_CHANNEL = 0


def group_norm_form(
    x: TensorType, *, groups: int, epsilon: float, is_channels_last: bool, has_activation: bool
) -> str:
    """Write the nodes that compute ``y`` from ``x_32``, ``gamma`` and ``beta``.

    They are the parts of the ONNX GroupNormalization, which has a gamma for each group in some
    versions and for each channel in others, and does not say in which dtype it takes moments.

    Parameters
    ----------
    x : TensorType
        Of the images, and of the result.
    has_activation : bool
        Whether SiLU follows.
    """
    assert x.shape is not None  # noqa: S101  # lowering knows all ranks
    rank = len(x.shape)
    to_first = [0, rank - 1, *range(1, rank - 1)]
    to_last = [0, *range(2, rank), 1]
    if not is_channels_last:
        to_first = to_last = list(range(rank))
    activation = "activated = Identity(shifted)"
    if has_activation:
        activation = "gate = Sigmoid(shifted)  activated = Mul(shifted, gate)"
    group_count = f"group_count = Constant<value_ints = [{groups}]>()"
    if groups == _EACH_CHANNEL:
        group_count = "group_count = Shape<start = 1, end = 2>(first)"
    return f"""
        first = Transpose<perm = {to_first}>(x_32)
        first_shape = Shape(first)
        images = Shape<end = 1>(first)
        per_image = Shape<start = 1>(first)
        elements = ReduceProd(per_image)
        {group_count}
        group_size = Div(elements, group_count)
        group_shape = Concat<axis = 0>(images, group_count, group_size)
        rows = Reshape<allowzero = 1>(first, group_shape)
        row_axis = Constant<value_ints = [2]>()
        mean = ReduceMean(rows, row_axis)
        centered = Sub(rows, mean)
        squares = Mul(centered, centered)
        variance = ReduceMean(squares, row_axis)
        epsilon = Constant<value_float = {exact(epsilon)}>()
        variance_epsilon = Add(variance, epsilon)
        deviation = Sqrt(variance_epsilon)
        normalized_rows = Div(centered, deviation)
        normalized = Reshape<allowzero = 1>(normalized_rows, first_shape)
        channel_axes = Constant<value_ints = {list(range(1, rank - 1))}>()
        gamma_32 = Cast<to = 1>(gamma)
        gamma_column = Unsqueeze(gamma_32, channel_axes)
        scaled = Mul(normalized, gamma_column)
        beta_32 = Cast<to = 1>(beta)
        beta_column = Unsqueeze(beta_32, channel_axes)
        shifted = Add(scaled, beta_column)
        {activation}
        ordered = Transpose<perm = {to_last}>(activated)
        y = Cast<to = {dtype_number(x)}>(ordered)
    """


def instance_norm_form(x: TensorType, epsilon: float, slope: float = 1.0) -> str:
    """Write a function that normalizes each channel; where it is negative, a slope follows."""
    # In the parts of it, moments are taken in two passes and lose no digits.
    body = group_norm_form(
        x, groups=_EACH_CHANNEL, epsilon=epsilon, is_channels_last=False, has_activation=False
    )
    return f"""(x, gamma, beta) => (result) {{
        x_32 = Cast<to = 1>(x)
        {body}
        result = LeakyRelu<alpha = {exact(slope)}>(y)
    }}"""

"""Sums, means and maxima of bags of embeddings, in the ONNX operators."""

from __future__ import annotations

from pyopnb.catalog.cores.onnx_text import dtype_number, wide
from pyopnb.engine import TensorType

__all__ = ["MAX", "MEAN", "SUM", "embedding_bag_form"]

SUM, MEAN, MAX = 0, 1, 2
"""The torch numbers of the modes."""


def embedding_bag_form(
    weight: TensorType, *, mode: int, padding: int | None, has_weights: bool, has_last_offset: bool
) -> str:
    """Write embedding_bag as a function.

    Parameters
    ----------
    weight : TensorType
        Of the embeddings.
    mode : int
        `SUM`, `MEAN` or `MAX`.
    padding : int, optional
        An index that is left out.
    has_weights : bool
        Whether each index has a weight.
    has_last_offset : bool
        Whether the last offset stops the last bag.
    """
    # Sums begin at 0, and maxima at the lowest number there is.
    start = "lowest" if mode == MAX else "zero"
    weighted = "weighted = Identity(rows)"
    if has_weights:
        weighted = f"""
        weight_column = Unsqueeze(per_sample_weights, last_axis)
        factors = Cast<to = {wide(weight)}>(weight_column)
        weighted = Mul(rows, factors)"""
    divided = "means = Identity(sums)"
    if mode == MEAN:
        divided = "means = Div(sums, filled_sizes)"
    counted = "counted_bags = Identity(bags_of)"
    if padding is not None:
        counted = f"""
        indices_64 = Cast<to = 7>(indices)
        padding = Constant<value_int = {padding}>()
        is_padding = Equal(indices_64, padding)
        counted_bags = Where(is_padding, trash, bags_of)"""
    # An additional last bag takes the indices that are left out.
    missing = 0 if has_last_offset else 1
    return f"""(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
            per_sample_weights, include_last_offset, padding_idx) => (y, none_1, none_2, none_3) {{
        last_axis = Constant<value_ints = [-1]>()
        zero_64 = Constant<value_int = 0>()
        one_64 = Constant<value_int = 1>()
        missing = Constant<value_ints = [{missing}]>()
        offset_count = Shape(offsets)
        all_bags = Add(offset_count, missing)
        trash = Sub(all_bags, one_64)
        index_shape = Shape(indices)
        index_count = Squeeze(index_shape)
        positions = Range(zero_64, index_count, one_64)
        position_column = Unsqueeze(positions, last_axis)
        offsets_64 = Cast<to = 7>(offsets)
        has_begun = GreaterOrEqual(position_column, offsets_64)
        begun = Cast<to = 7>(has_begun)
        begun_count = ReduceSum<keepdims = 0>(begun, last_axis)
        bags_of = Sub(begun_count, one_64)
        {counted}
        bag_column = Unsqueeze(counted_bags, last_axis)
        wide_weight = Cast<to = {wide(weight)}>(weight)
        rows = Gather(wide_weight, indices)
        {weighted}
        width = Shape<start = 1>(weight)
        shape = Concat<axis = 0>(all_bags, width)
        zero = Constant<value_float = 0.0>()
        lowest = Constant<value_float = -3.4028234663852886e38>()
        start = Cast<to = {wide(weight)}>({start})
        empty_bags = Expand(start, shape)
        sums = ScatterND<reduction = "{"max" if mode == MAX else "add"}">(
            empty_bags, bag_column, weighted)
        no_sizes = Expand(zero_64, all_bags)
        ones = Expand(one_64, index_shape)
        sizes = ScatterND<reduction = "add">(no_sizes, bag_column, ones)
        size_column = Unsqueeze(sizes, last_axis)
        some_sizes = Max(size_column, one_64)
        filled_sizes = Cast<to = {wide(weight)}>(some_sizes)
        {divided}
        is_filled = Greater(size_column, zero_64)
        wide_zero = Cast<to = {wide(weight)}>(zero)
        kept = Where(is_filled, means, wide_zero)
        first = Constant<value_ints = [0]>()
        bags = Slice(kept, first, trash)
        y = Cast<to = {dtype_number(weight)}>(bags)
        none_1 = Constant<value = int64[0] {{}}>()
        none_2 = Identity(none_1)
        none_3 = Identity(none_1)
    }}"""

"""Pooling into a fixed number of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pyopnb.catalog.cores.onnx_text import LOWEST, dtype_number, ints, value_of, wide
from pyopnb.ops.types import TensorType

__all__ = ["adaptive_maxima_form", "adaptive_means_form", "maxima_adaptively", "pool_adaptively"]


def _windows(length: int, count: int) -> Iterator[slice]:
    """Yield windows that cover a length; where it does not divide, they overlap by one."""
    for number in range(count):
        start = number * length // count
        end = -((-(number + 1) * length) // count)
        yield slice(start, end)


def _sizes(output_size: np.ndarray) -> tuple[int, int]:
    rows, columns = np.broadcast_to(output_size, 2)
    return int(rows), int(columns)


def pool_adaptively(
    x: np.ndarray, output_size: np.ndarray, pool: Callable[..., np.ndarray]
) -> np.ndarray:
    """Pool the last two axes, float16 in float32.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    output_size : ndarray
        int[2], or int[1] for a square.
    pool : callable
        `numpy.mean` or another reduction with ``axis``.

    Returns
    -------
    ndarray
    """
    rows, columns = _sizes(output_size)
    if x.dtype == np.float16:
        # Sums of many float16 would lose their digits.
        wide = x.astype(np.float32)
    else:
        wide = x
    shape = (*x.shape[:-2], rows, columns)
    pooled = np.empty(shape, x.dtype)
    for row, down in enumerate(_windows(x.shape[-2], rows)):
        for column, across in enumerate(_windows(x.shape[-1], columns)):
            pooled[..., row, column] = pool(wide[..., down, across], axis=(-2, -1))
    return pooled


def maxima_adaptively(x: np.ndarray, output_size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Take maxima of the last two axes, and their places counted along rows.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    output_size : ndarray
        int[2], or int[1] for a square.

    Returns
    -------
    maxima, places : ndarray
        Of equal maxima the first; NaN counts as the largest number.
    """
    rows, columns = _sizes(output_size)
    width = x.shape[-1]
    shape = (*x.shape[:-2], rows, columns)
    maxima = np.empty(shape, x.dtype)
    places = np.empty(maxima.shape, np.int64)
    for row, down in enumerate(_windows(x.shape[-2], rows)):
        for column, across in enumerate(_windows(width, columns)):
            window = x[..., down, across]
            flat = window.reshape(*window.shape[:-2], -1)
            # argmax takes the first of equal maxima, and the first NaN.
            first = flat.argmax(-1)
            maxima[..., row, column] = np.take_along_axis(flat, first[..., None], -1)[..., 0]
            # Positions inside a window become positions in the image.
            inner_row, inner_column = np.divmod(first, window.shape[-1])
            places[..., row, column] = (
                (down.start + inner_row) * width + across.start + inner_column
            )
    return maxima, places


def _windows_form(axis: int, name: str, count: int) -> str:
    """Write the nodes that tell which elements of an axis are in each window, as ``NAME_is_in`` [count,length]."""
    return f"""
        {name}_length = Shape<start = {axis}, end = {axis + 1 or 2**31}>(x)
        {name}_number = Constant<value_ints = {ints(range(count))}>()
        {name}_next = Constant<value_ints = {ints(range(1, count + 1))}>()
        {name}_count = Constant<value_int = {count}>()
        {name}_round_up = Constant<value_int = {count - 1}>()
        {name}_start_share = Mul({name}_number, {name}_length)
        {name}_start = Div({name}_start_share, {name}_count)
        {name}_stop_share = Mul({name}_next, {name}_length)
        {name}_stop_up = Add({name}_stop_share, {name}_round_up)
        {name}_stop = Div({name}_stop_up, {name}_count)
        {name}_end = Squeeze({name}_length)
        {name}_position = Range(zero_64, {name}_end, one_64)
        {name}_starts = Unsqueeze({name}_start, last_axis)
        {name}_stops = Unsqueeze({name}_stop, last_axis)
        {name}_from = GreaterOrEqual({name}_position, {name}_starts)
        {name}_before = Less({name}_position, {name}_stops)
        {name}_is_in = And({name}_from, {name}_before)
    """


def _both_windows_form(x: TensorType, output_size: TensorType) -> str:
    rows, columns = _sizes(value_of(output_size))
    return f"""
        zero_64 = Constant<value_int = 0>()
        one_64 = Constant<value_int = 1>()
        last_axis = Constant<value_ints = [-1]>()
        row_axis = Constant<value_ints = [-2]>()
        x_wide = Cast<to = {wide(x)}>(x)
        {_windows_form(-2, "row", rows)}
        {_windows_form(-1, "column", columns)}
    """


def adaptive_means_form(x: TensorType, output_size: TensorType) -> str:
    """Write what `pool_adaptively` does with means: two products with matrices of equal shares."""
    return f"""(x, output_size) => (y) {{
        {_both_windows_form(x, output_size)}
        row_in = Cast<to = {wide(x)}>(row_is_in)
        row_sizes = ReduceSum(row_in, last_axis)
        row_shares = Div(row_in, row_sizes)
        column_in = Cast<to = {wide(x)}>(column_is_in)
        column_sizes = ReduceSum(column_in, last_axis)
        column_shares = Div(column_in, column_sizes)
        shares_of_columns = Transpose<perm = [1, 0]>(column_shares)
        pooled_rows = MatMul(row_shares, x_wide)
        pooled = MatMul(pooled_rows, shares_of_columns)
        y = Cast<to = {dtype_number(x)}>(pooled)
    }}"""


def adaptive_maxima_form(x: TensorType, output_size: TensorType) -> str:
    """Write what `maxima_adaptively` does: maxima over rows, then over columns, of windows spread along a new axis."""
    return f"""(x, output_size) => (maxima, places) {{
        {_both_windows_form(x, output_size)}
        lowest_32 = Constant<value_float = {LOWEST!r}>()
        lowest = Cast<to = {wide(x)}>(lowest_32)
        nowhere = Constant<value_int = {2**62}>()
        third_axis = Constant<value_ints = [-3]>()
        spread_rows = Unsqueeze(x_wide, third_axis)
        row_mask = Unsqueeze(row_is_in, last_axis)
        window_rows = Where(row_mask, spread_rows, lowest)
        row_maxima = ReduceMax(window_rows, row_axis)
        row_is_best = Equal(window_rows, row_maxima)
        row_is_place = And(row_is_best, row_mask)
        row_column = Unsqueeze(row_position, last_axis)
        row_places = Where(row_is_place, row_column, nowhere)
        first_rows = ReduceMin<keepdims = 0>(row_places, row_axis)
        row_offsets = Mul(first_rows, column_length)
        places_of_rows = Add(row_offsets, column_position)
        best_of_rows = Squeeze(row_maxima, row_axis)
        spread_columns = Unsqueeze(best_of_rows, row_axis)
        spread_places = Unsqueeze(places_of_rows, row_axis)
        window_columns = Where(column_is_in, spread_columns, lowest)
        column_maxima = ReduceMax(window_columns, last_axis)
        column_is_best = Equal(window_columns, column_maxima)
        column_is_place = And(column_is_best, column_is_in)
        column_places = Where(column_is_place, spread_places, nowhere)
        places = ReduceMin<keepdims = 0>(column_places, last_axis)
        best = Squeeze(column_maxima, last_axis)
        maxima = Cast<to = {dtype_number(x)}>(best)
    }}"""

"""Pooling into a fixed number of windows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pyopnb.catalog.cores.onnx_text import LOWEST, dtype_number, ints, value_of, wide
from pyopnb.catalog.cores.precision import widen
from pyopnb.engine import TensorType

__all__ = ["adaptive_maxima_form", "adaptive_means_form", "maxima_adaptively", "means_adaptively"]


def _sizes(output_size: np.ndarray) -> tuple[int, int]:
    rows, columns = np.broadcast_to(output_size, 2)
    return int(rows), int(columns)


def _slices(length: int, count: int) -> Iterator[slice]:
    """Yield windows that cover a length; where it does not divide, they overlap by one."""
    for number in range(count):
        start = number * length // count
        end = -((-(number + 1) * length) // count)
        yield slice(start, end)


def _windows(
    x: np.ndarray, output_size: np.ndarray
) -> Iterator[tuple[tuple[Any, int, int], np.ndarray]]:
    """Yield the index of each output element, and the elements of its window along a last axis."""
    rows, columns = _sizes(output_size)
    for row, down in enumerate(_slices(x.shape[-2], rows)):
        for column, across in enumerate(_slices(x.shape[-1], columns)):
            window = x[..., down, across]
            elements = math.prod(window.shape[-2:])
            yield (..., row, column), window.reshape(*window.shape[:-2], elements)


def means_adaptively(x: np.ndarray, output_size: np.ndarray) -> np.ndarray:
    """Average windows of the last two axes, float16 in float32.

    Parameters
    ----------
    x : ndarray
        float[...,H,W].
    output_size : ndarray
        int[2], or int[1] for a square.
    """
    means = np.empty((*x.shape[:-2], *_sizes(output_size)), x.dtype)
    # Sums of many float16 would lose their digits.
    for index, window in _windows(widen(x), output_size):
        means[index] = window.mean(-1)
    return means


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
    shape = (*x.shape[:-2], *_sizes(output_size))
    maxima, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    image_shape = x.shape[-2:]
    count = math.prod(image_shape)
    numbers = np.arange(count).reshape(image_shape)
    windows = zip(_windows(x, output_size), _windows(numbers, output_size), strict=True)
    for (index, window), (_, window_numbers) in windows:
        # argmax takes the first of equal maxima, and the first NaN.
        first = window.argmax(-1)
        maxima[index] = np.take_along_axis(window, first[..., None], -1)[..., 0]
        places[index] = window_numbers[first]
    return maxima, places


def _windows_form(axis: int, name: str, count: int) -> str:
    """Write the nodes that compute which elements of an axis are in each window.

    The result is bool[count,length], with the name ``NAME_is_in``.
    """
    text = f"""
        AXIS_length = Shape<start = {axis}, end = {axis + 1 or 2**31}>(x)
        AXIS_number = Constant<value_ints = {ints(range(count))}>()
        AXIS_next = Add(AXIS_number, one_64)
        AXIS_count = Constant<value_int = {count}>()
        AXIS_round_up = Sub(AXIS_count, one_64)
        AXIS_start_share = Mul(AXIS_number, AXIS_length)
        AXIS_start = Div(AXIS_start_share, AXIS_count)
        AXIS_stop_share = Mul(AXIS_next, AXIS_length)
        AXIS_stop_up = Add(AXIS_stop_share, AXIS_round_up)
        AXIS_stop = Div(AXIS_stop_up, AXIS_count)
        AXIS_end = Squeeze(AXIS_length)
        AXIS_position = Range(zero_64, AXIS_end, one_64)
        AXIS_starts = Unsqueeze(AXIS_start, last_axis)
        AXIS_stops = Unsqueeze(AXIS_stop, last_axis)
        AXIS_from = GreaterOrEqual(AXIS_position, AXIS_starts)
        AXIS_before = Less(AXIS_position, AXIS_stops)
        AXIS_is_in = And(AXIS_from, AXIS_before)
    """
    # The names of the two axes' nodes differ by their first word.
    return text.replace("AXIS", name)


def _both_windows_form(x: TensorType, output_size: TensorType) -> str:
    # How many windows there are decides on the shapes, and so has to be a constant.
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
    """Write `means_adaptively` as two products with matrices of equal shares."""
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
    """Write `maxima_adaptively` as a function in the ONNX operators.

    Windows are spread along a new axis, and maxima are taken over rows first, then over columns.
    """
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

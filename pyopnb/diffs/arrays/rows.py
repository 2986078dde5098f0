"""Arrays whose rows are in another order, or padded, such as the detections of two runtimes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.engine import Result
from pyopnb.errors import InputError

__all__ = ["as_sets"]

# Every row is compared with every other.
_MAX_ROWS = 5000


def as_sets(a: Any, b: Any) -> tuple[Any, Any, str]:
    """Put the rows of a into the order of b's, and leave out rows that only pad one of them.

    The last of the results says how many these are.

    Parameters
    ----------
    a, b : ndarray, or mapping or Result of arrays
        Arrays by name are columns of one table: their rows belong together.

    Raises
    ------
    InputError
        A value is no array, or the arrays of one side have different numbers of rows.

    Examples
    --------
    >>> a, _, said = as_sets(np.float32([[3, 4], [1, 2]]), np.float32([[1, 2], [3, 4], [0, 0]]))
    >>> a.tolist(), said
    ([[1.0, 2.0], [3.0, 4.0]], 'in another order, 2 of 2 moved; 1 of padding left out')
    """
    columns = _columns(a, "a"), _columns(b, "b")
    if columns[0].keys() != columns[1].keys():
        return a, b, ""
    tables = [_table(side) for side in columns]
    if tables[0].shape[1] != tables[1].shape[1]:
        return a, b, ""
    order_a, order_b = _pair_rows(*tables)
    moved = sum(row_a != row_b for row_a, row_b in zip(order_a, order_b, strict=True))
    said = [f"in another order, {moved} of {len(order_b)} moved"] if moved else []
    orders = []
    for table, order in zip(tables, (order_a, order_b), strict=True):
        alone = sorted(set(range(len(table))) - set(order))
        if not _are_padding(table[alone]):
            order = [*order, *alone]
        elif alone:
            said.append(f"{len(alone)} of padding left out")
        orders.append(order)
    chosen = []
    for side, order in zip(columns, orders, strict=True):
        chosen.append({name: array[order] for name, array in side.items()})
    if isinstance(a, (Mapping, Result)):
        return chosen[0], chosen[1], "; ".join(said)
    return chosen[0][""], chosen[1][""], "; ".join(said)


def _columns(value: Any, side: str) -> dict[Any, np.ndarray]:
    """Return arrays by name, whose first axes are the rows."""
    items = dict(value.items()) if isinstance(value, (Mapping, Result)) else {"": value}
    arrays = {}
    for name, item in items.items():
        array = np.asarray(item)
        # A batch of one.
        arrays[name] = array[0] if array.ndim > 1 and array.shape[0] == 1 else array
    sizes = {array.shape[0] if array.ndim else -1 for array in arrays.values()}
    if len(sizes) != 1 or -1 in sizes or max(sizes) > _MAX_ROWS:
        got = ", ".join(str(np.shape(item)) for item in items.values()) or "none"
        expected = f"arrays with equally many rows, at most {_MAX_ROWS}"
        advice = 'diff(a[0], b[0], rows="set"), image by image'
        raise InputError(f"diff, {side}, rows", expected=expected, got=got, next=advice)
    return arrays


def _table(columns: Mapping[Any, np.ndarray]) -> np.ndarray:
    """Put the rows of several arrays beside each other, as numbers of about one size."""
    parts: list[np.ndarray] = []
    for array in columns.values():
        flat = array.reshape(len(array), math.prod(array.shape[1:]))
        if flat.dtype.kind in "OUST":
            # Two texts are the same or not: far apart.
            flat = np.vectorize(hash, otypes=[np.int64])(flat)
        parts += [flat.real, flat.imag] if flat.dtype.kind == "c" else [flat.astype(np.float64)]
    return np.concatenate(parts, axis=1)


def _pair_rows(a: np.ndarray, b: np.ndarray) -> tuple[list[int], list[int]]:
    """Pair each row with the most similar one, the most similar pairs first."""
    costs = np.zeros((len(a), len(b)))
    for column_a, column_b in zip(a.T, b.T, strict=True):
        finite = np.abs(column_b[np.isfinite(column_b)])
        scale = max(float(finite.max(initial=0)), np.finfo(np.float32).tiny)
        with np.errstate(invalid="ignore"):
            apart = np.abs(column_a[:, None] - column_b) / scale
        same = (column_a[:, None] == column_b) | (np.isnan(column_a)[:, None] & np.isnan(column_b))
        # NaN and an infinity are as far from numbers as these can be from each other.
        costs += np.where(same, 0, np.nan_to_num(apart, nan=2, posinf=2))
    pairs: dict[int, int] = {}
    used: set[int] = set()
    for place in np.argsort(costs, axis=None, kind="stable"):
        if len(used) == min(costs.shape):
            break
        row_a, row_b = divmod(int(place), len(b))
        if row_a not in used and row_b not in pairs:
            pairs[row_b] = row_a
            used.add(row_a)
    order_b = sorted(pairs)
    return [pairs[row] for row in order_b], order_b


def _are_padding(rows: np.ndarray) -> bool:
    """Tell whether all rows are the same, and hold only 0, -1 or NaN."""
    is_filler = np.isin(rows, (0, -1)) | np.isnan(rows)
    # For np.unique, no NaN equals another.
    return bool(is_filler.all()) and len(np.unique(np.nan_to_num(rows, nan=-2), axis=0)) <= 1

"""The orders in which cuBLASLt keeps matrices; only two of them are documented."""

from __future__ import annotations

import numpy as np

__all__ = ["COLUMNS", "ROWS", "from_order", "quantize", "refuse_tiles", "to_order"]

COLUMNS, ROWS = 0, 1


def refuse_tiles(op_type: str, *orders: int) -> None:
    """Refuse orders in tiles.

    Raises
    ------
    ValueError
        An order is COL32 or one of its kin.
    """
    for order in orders:
        if order not in (COLUMNS, ROWS):
            raise ValueError(
                f"{op_type}: expected matrices by rows (1) or by columns (0), got order {order}, "
                "whose tiles NVIDIA does not document. Try: onnxruntime-gpu"
            )


def from_order(matrix: np.ndarray, order: int) -> np.ndarray:
    """Return a matrix by rows, from one whose elements are stored in the given order."""
    if order == ROWS or matrix.ndim < 2:
        return matrix
    # A batch is a row of matrices, each in its own order.
    *front, rows, columns = matrix.shape
    result = matrix.reshape(*front, columns, rows)
    return result.swapaxes(-1, -2)


def to_order(matrix: np.ndarray, order: int) -> np.ndarray:
    """Store the elements of a matrix in the given order, and keep its shape."""
    if order == ROWS or matrix.ndim < 2:
        return np.ascontiguousarray(matrix)
    flat = matrix.swapaxes(-1, -2)
    flat = np.ascontiguousarray(flat)
    return flat.reshape(matrix.shape)


def quantize(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Divide by a scale and round to int8; halves go to the even number."""
    result = np.rint(x / scale)
    result = result.clip(-128, 127)
    return result.astype(np.int8)

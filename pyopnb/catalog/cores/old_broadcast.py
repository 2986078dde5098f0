"""Broadcasting before version 7 of ONNX, which named the axis at which the second input begins."""

from __future__ import annotations

import numpy as np

__all__ = ["align"]


def align(a: np.ndarray, b: np.ndarray, broadcast: int, axis: int | None) -> np.ndarray:
    """Give the second input the axes of the first.

    Parameters
    ----------
    a, b : ndarray
    broadcast : int
        0 where both have one shape.
    axis : int, optional
        The axis of ``a`` that the first one of ``b`` stands for; without it, the last axes of both go together.

    Returns
    -------
    ndarray
        ``b``, with axes of length 1 for those that it lacks.

    Raises
    ------
    ValueError
        The shapes differ, and the node does not broadcast.
    """
    if not broadcast:
        if a.shape != b.shape:
            raise ValueError(
                f"expected inputs of one shape, got {a.shape} and {b.shape}. Try: broadcast=1"
            )
        return b
    if axis is None or b.ndim == 0:
        return b
    # Today's rule aligns the last axes, so that the axes behind are filled up with ones.
    missing = a.ndim - axis % a.ndim - b.ndim
    flat = b.shape + (1,) * missing
    return b.reshape(flat)

"""Running maxima and minima, and their positions."""

from __future__ import annotations

import numpy as np

__all__ = ["find_running"]


def find_running(x: np.ndarray, extreme: np.ufunc, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the extreme element so far along an axis, and its index, the last one of equal ones.

    Parameters
    ----------
    extreme : ufunc
        `numpy.maximum` or `numpy.minimum`.

    Returns
    -------
    values, indices : ndarray
    """
    values = extreme.accumulate(x, axis=axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    numbers = np.arange(x.shape[axis]).reshape(shape)
    # Where an element is not the extreme, the index of the one before stays.
    candidates = np.where(x == values, numbers, 0)
    return values, np.maximum.accumulate(candidates, axis=axis)

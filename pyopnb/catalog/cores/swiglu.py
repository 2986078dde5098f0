"""The gated activation of feed-forward blocks."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.precision import sigmoid, widen

__all__ = ["swiglu"]


def swiglu(
    gate: np.ndarray,
    up: np.ndarray,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = 0.0,
    rounds_activation: bool = False,
) -> np.ndarray:
    """Multiply gate · sigmoid(alpha · gate) by up + beta, with both halves limited before.

    Parameters
    ----------
    limit : float
        Not positive for none; the gate is limited from above only.
    rounds_activation : bool
        Whether the first factor is rounded to the dtype before it is multiplied.

    Returns
    -------
    ndarray
        With the dtype of ``gate``.
    """
    first = widen(gate)
    second = widen(up)
    if limit > 0:
        # Only the linear half is limited on both sides.
        first = np.minimum(first, limit)
        second = second.clip(-limit, limit)
    # The tail of the sigmoid is below the smallest float32 where the result is not.
    activated = first * sigmoid(alpha * first.astype(np.float64))
    if rounds_activation:
        activated = activated.astype(gate.dtype).astype(np.float64)
    result = activated * (second + beta)
    return result.astype(gate.dtype)

"""Binary operators before version 7 of ONNX, which name the axis where the second input begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.engine import TensorType

__all__ = ["OldArithmetic", "OldComparison"]


def _align(a: np.ndarray, b: np.ndarray, broadcast: int, axis: int | None) -> np.ndarray:
    """Give the second input the axes of the first.

    Parameters
    ----------
    broadcast : int
        0 where both have one shape.
    axis : int, optional
        The axis of ``a`` that matches the first one of ``b``; without it, the last axes
        of both go together.

    Returns
    -------
    ndarray
        ``b``, with axes of length 1 for missing ones.

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
    # NumPy aligns the last axes, so append axes of length 1 until ``b`` reaches the end of ``a``.
    for _ in range(a.ndim - axis % a.ndim - b.ndim):
        b = b[..., np.newaxis]
    return b


class OldArithmetic:
    """An operator that combines two tensors and broadcasts the second one from ``axis`` on.

    Subclasses define ``combine``.
    """

    def __init__(
        self,
        broadcast: int = 0,
        axis: int | None = None,
        # It lets a runtime overwrite inputs, and changes no result.
        consumed_inputs: list[int] = [],
    ):
        self.broadcast = broadcast
        self.axis = axis

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """Infer the first input's type."""
        return a

    def compute(self, a: np.ndarray, b: np.ndarray) -> Any:
        """Combine the inputs."""
        # Today's rule would align the last axes, against the node's axis.
        return self.combine(a, _align(a, b, self.broadcast, self.axis))

    def combine(self, a: Any, b: Any) -> Any:
        """Combine tensors that NumPy broadcasts."""
        raise NotImplementedError


class OldComparison(OldArithmetic):
    """An operator that compares two tensors and returns bools."""

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        """Infer bool of the first input's shape."""
        return a.like(dtype="bool")

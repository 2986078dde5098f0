"""Weights of pixels by their distance, for interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["cubic", "linear"]


def linear(distance: Any) -> Any:
    """Weigh the two pixels that are less than 1 away."""
    return (1 - np.abs(distance)).clip(0)


def cubic(a: float) -> Callable[[Any], Any]:
    """Return the cubic convolution with a coefficient, which weighs pixels less than 2 away."""

    def weigh(distance: Any) -> Any:
        x = np.abs(distance)
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, inner, np.where(x < 2, outer, 0))

    return weigh

"""A time of many runs in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles

import numpy as np

from pyopnb.common import messages

__all__ = ["Spread"]


@dataclass(frozen=True)
class Spread:
    """Microseconds of many runs.

    Attributes
    ----------
    median : float
        Half of the runs took less.
    low, high : float
        The first and the third quartile: half of the runs are between them.
    least : float
        The fastest run.

    Examples
    --------
    >>> spread = Spread.of(np.array([10.0, 12, 11, 90, 13]))
    >>> spread, spread.range
    (Spread(median=12.0, low=11.0, high=13.0, least=10.0), '11 µs – 13 µs')
    """

    median: float
    low: float
    high: float
    least: float

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Compute quartiles, interpolated linearly, as NumPy does by default.

        Parameters
        ----------
        values : ndarray
            float64[N], not empty.

        Returns
        -------
        Spread
            In the unit of ``values``.
        """
        # np.percentile takes 100 µs a node, which adds up for thousands of them.
        times = sorted(values.tolist())
        if len(times) == 1:
            return cls(*times * 4)
        low, median, high = quantiles(times, n=4, method="inclusive")
        return cls(median, low, high, times[0])

    @property
    def range(self) -> str:
        """Write the quartiles as text."""
        return f"{self.write(self.low)} – {self.write(self.high)}"

    def __str__(self) -> str:
        return f"{self.write(self.median)} ({self.range})"

    @staticmethod
    def write(value: float) -> str:
        """Write a number of microseconds with three digits and a prefix.

        Examples
        --------
        >>> Spread.write(3.25), Spread.write(0.0), Spread.write(12345.6)
        ('3.25 µs', '0 µs', '12.3 ms')
        """
        return messages.duration(value / 1e6)

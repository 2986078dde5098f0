"""The one table of tolerances by dtype, and how a caller's own tolerances apply to a dtype."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import dtype
from pyopnb.errors import InputError

__all__ = [
    "DEFAULT",
    "EXPOSED",
    "SAME_VALUES_ULPS",
    "SCALED",
    "TOLERANCES",
    "Tolerance",
    "Tolerances",
    "is_float",
    "relative_tolerance",
]


class Tolerance(NamedTuple):
    """How far apart two correct computations of a number may be.

    Attributes
    ----------
    rtol : float
        Relative to ``|b|``. Where terms cancel, also relative to the largest ``|b|`` of the array.
    atol : float
        Absolute, for numbers near 0 in a `pyopnb.diff` without a tolerance.
    gradient : float
        Relative to the largest derivative, for a gradient against differences of function values:
        these are off by about the third root of the dtype's own rounding.
    """

    rtol: float
    atol: float
    gradient: float = 0.0


TOLERANCES = MappingProxyType(
    {
        "float64": Tolerance(rtol=1e-7, atol=1e-12, gradient=1e-6),
        "float32": Tolerance(rtol=1e-5, atol=1e-5, gradient=2e-2),
        "float16": Tolerance(rtol=1e-3, atol=1e-5, gradient=1e-1),
        "bfloat16": Tolerance(rtol=1.6e-2, atol=1e-5, gradient=1e-1),
        "complex64": Tolerance(rtol=1e-5, atol=1e-5),
        "complex128": Tolerance(rtol=1e-7, atol=1e-12),
    }
)
"""The tolerances of float and complex dtypes; every other dtype is compared exactly."""

EXPOSED = 1e-2
"""How far outputs may differ, relative to the largest element, if a runtime fuses other nodes.

It is somewhat more than the tolerance of float16.
"""

SAME_VALUES_ULPS = 1024
"""Units in the last place of the largest element within which two tensors hold the same values.

Runs of different graphs round in a different order.
"""

_EXACT = ("bool", "string")
_INTEGER_PREFIXES = ("int", "uint")


def is_float(array: np.ndarray) -> bool:
    """Tell whether an array has a real dtype of `TOLERANCES`.

    Examples
    --------
    >>> is_float(np.zeros(2, np.float16)), is_float(np.zeros(2, np.int8))
    (True, False)
    """
    if array.dtype == object:
        return False
    name = dtype(array.dtype).name
    return name in TOLERANCES and not name.startswith("complex")


def relative_tolerance(array: np.ndarray) -> float | None:
    """Return the relative tolerance of an array's dtype; None where values must be equal.

    Examples
    --------
    >>> relative_tolerance(np.zeros(2, np.float32)), relative_tolerance(np.zeros(2, bool))
    (1e-05, None)
    """
    if array.dtype == object:
        return None
    entry = TOLERANCES.get(dtype(array.dtype).name)
    if entry is None:
        return None
    return entry.rtol


class Tolerances(NamedTuple):
    """The tolerances that a caller gives, as `pyopnb.diff` takes them; None means the default.

    Attributes
    ----------
    stol : float or None
        True means the ``rtol`` of the dtype, and leaves the other two as they are.
    """

    rtol: float | None = None
    atol: float | None = None
    stol: float | None = None

    def check(self) -> None:
        """Refuse tolerances that are negative, infinite or no numbers.

        Raises
        ------
        InputError
            A tolerance is negative, infinite or not a number.
        """
        for name, value in self._asdict().items():
            is_real = isinstance(value, (int, float, np.integer, np.floating))
            is_number = is_real and 0 <= value < math.inf
            if value is not None and not is_number:
                expected = "a finite number that is not negative"
                got = sanitize(repr(value), 80)
                raise InputError(f"diff, {name}", expected=expected, got=got, next=f"{name}=1e-5")

    @property
    def by_dtype(self) -> bool:
        """Tell whether each dtype's own tolerances apply, as none is given but ``stol=True``."""
        return self[:2] == (None, None) and (self.stol is None or self.stol is True)

    def or_scaled(self) -> Tolerances:
        """Return `SCALED` if the caller passed no tolerance."""
        return SCALED if self == (None, None, None) else self

    def of(self, name: str) -> tuple[float, float, float]:
        """Return the tolerances that apply to a dtype.

        By default, the table's apply. If some are given, the others are 0.

        Examples
        --------
        >>> Tolerances().of("float32"), Tolerances(1e-3).of("float32")
        ((1e-05, 1e-05, 0.0), (0.001, 0.0, 0.0))
        >>> SCALED.of("float32")
        (1e-05, 1e-05, 1e-05)
        >>> Tolerances(1e-3, 1, 1e-3).of("int8"), Tolerances(1, 1, 1).of("bool")
        ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
        """
        if name in _EXACT:
            # A label or a flag is never nearly another one.
            return 0.0, 0.0, 0.0
        entry = TOLERANCES.get(name, Tolerance(0.0, 0.0))
        # mypy takes True for no float, and an `if` for unreachable.
        scaled = entry.rtol if self.stol is True else float(self.stol or 0.0)
        if self.by_dtype:
            return entry.rtol, entry.atol, scaled
        absolute = float(self.atol or 0.0)
        if name.startswith(_INTEGER_PREFIXES):
            # A relative tolerance would let large ids pass as their neighbors.
            return 0.0, absolute, 0.0
        return float(self.rtol or 0.0), absolute, scaled

    def widened(self, precision: str) -> Tolerances:
        """Use the tolerance of a coarser dtype upstream of a tensor, if there is one.

        Tolerances that are not all relative to the dtype stay as they are.

        Examples
        --------
        >>> SCALED.widened("float16")
        Tolerances(rtol=0.001, atol=1e-05, stol=0.001)
        >>> Tolerances().widened("float16") == Tolerances(), SCALED.widened("") == SCALED
        (True, True)
        """
        if precision and self == SCALED:
            return Tolerances(*self.of(precision))
        return self


DEFAULT = Tolerances()
"""The tolerances of a dtype."""

SCALED = Tolerances(stol=True)
"""The tolerances of a dtype, also relative to the largest element.

Results of computations in another order need this.
"""

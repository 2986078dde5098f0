"""The one table of tolerances by dtype, and what a caller's own tolerances mean for a dtype."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.messages import sanitize

__all__ = [
    "EXPOSED",
    "SAME_VALUES_ULPS",
    "TOLERANCES",
    "Tolerance",
    "check_tolerances",
    "is_float",
    "relative_tolerance",
    "tolerance",
]


class Tolerance(NamedTuple):
    """How far apart two correct computations of a number may be.

    Attributes
    ----------
    rtol : float
        Relative to ``|b|``. Where terms cancel, also relative to the largest ``|b|`` of the array.
    atol : float
        Absolute, for the numbers next to 0 in a `pyopnb.diff` that is given no tolerance.
    gradient : float
        Relative to the largest derivative, for a gradient against differences of function values:
        those are off by about the third root of the dtype's own rounding.
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

That is float16's tolerance and then some.
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
    """Return the relative tolerance of an array's dtype; None where its values are compared exactly.

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


def tolerance(
    name: str, rtol: float | None, atol: float | None, stol: float | None = None
) -> tuple[float, float, float]:
    """Return the tolerances that apply to a dtype.

    By default, the table's apply. If some are given, the others are 0. A ``stol`` of True is
    the table's ``rtol``, and leaves the other two as they are.

    Examples
    --------
    >>> tolerance("float32", None, None), tolerance("float32", 1e-3, None)
    ((1e-05, 1e-05, 0.0), (0.001, 0.0, 0.0))
    >>> tolerance("float32", None, None, True)
    (1e-05, 1e-05, 1e-05)
    >>> tolerance("int8", 1e-3, 1, 1e-3), tolerance("bool", 1, 1, 1)
    ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
    """
    if name in _EXACT:
        # A label or a flag is never nearly another one.
        return 0.0, 0.0, 0.0
    entry = TOLERANCES.get(name, Tolerance(0.0, 0.0))
    # mypy takes True for no float, and an `if` for unreachable.
    scaled = entry.rtol if stol is True else float(stol or 0.0)
    if rtol is None and atol is None and (stol is None or stol is True):
        return entry.rtol, entry.atol, scaled
    absolute = float(atol or 0.0)
    if name.startswith(_INTEGER_PREFIXES):
        # A relative tolerance would let large ids pass as their neighbours.
        return 0.0, absolute, 0.0
    return float(rtol or 0.0), absolute, scaled


def check_tolerances(rtol: float | None, atol: float | None, stol: float | None = None) -> None:
    """Refuse tolerances that are negative, infinite or no numbers.

    Raises
    ------
    InputError
        A tolerance is negative, infinite or not a number.
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("stol", stol)):
        if value is None:
            continue
        if isinstance(value, (int, float)) and 0 <= value < math.inf:
            continue
        expected = "a finite number that is not negative"
        raise InputError(f"diff, {name}", expected=expected, got=sanitize(repr(value), 80))

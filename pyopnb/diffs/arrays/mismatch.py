"""How two arrays differ, in one line for an error."""

from __future__ import annotations

import numpy as np

from pyopnb.common import plural
from pyopnb.diffs.arrays.pairing import parts
from pyopnb.diffs.arrays.report import format_index, verb
from pyopnb.diffs.tolerances import Tolerances, relative_tolerance

__all__ = ["mismatch"]

# As the statistics call it.
_ZERO_SIGNS = "zeros of opposite sign"


def mismatch(actual: np.ndarray, expected: np.ndarray, *, tolerant: bool = False) -> str | None:
    """Describe how two arrays differ; None if they agree.

    Parameters
    ----------
    actual, expected : ndarray
        NaN agrees with NaN at the same index. Another dtype or shape is a difference, and nothing
        is broadcast.
    tolerant : bool
        Allow the dtype's tolerance, relative to the element and, as terms may cancel, to the
        largest element. Without it every bit counts except in NaN, and -0.0 is not 0.0.

    Examples
    --------
    >>> mismatch(np.float32([1, 2]), np.float32([1, 3]))
    '[1] is 2.0 instead of 3.0 (1 of 2 elements differs)'
    >>> mismatch(np.float32([1, 2]), np.float32([1, 2.00001]), tolerant=True) is None
    True
    """
    rtol = relative_tolerance(expected) if tolerant else None
    allowed = rtol or 0.0
    # The allowance is relative to the element and to the largest one.
    (part,) = parts(actual, expected, Tolerances(allowed, 0.0, allowed))
    facts = part.facts
    if facts is None:
        return part.reason if part.a == part.b else f"{part.a} instead of {part.b}"
    if facts.over:
        worst = facts.worst[0]
        share = f"{facts.over:,} of {plural(facts.count, 'element')} {verb(facts.over)}"
        return f"{format_index(worst.index)} is {worst.a} instead of {worst.b} ({share})"
    zeros = facts.classes.get(_ZERO_SIGNS, 0)
    if zeros and rtol is None:
        return f"{zeros:,} of {plural(facts.count, 'element')}: 0.0 against -0.0"
    return None

"""How two arrays differ, in one line for an error."""

from __future__ import annotations

import numpy as np

from pyopnb.diffs.arrays.parts import Part, parts
from pyopnb.diffs.arrays.stats import ArrayStats
from pyopnb.diffs.tolerances import relative_tolerance
from pyopnb.ops.messages import plural, sanitize

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
        Allow the dtype's tolerance, relative to the element and, as terms may cancel, to the largest
        element. Without it every bit counts but those of NaN, and -0.0 is not 0.0.

    Examples
    --------
    >>> mismatch(np.float32([1, 2]), np.float32([1, 3]))
    '[1] is 2.0 instead of 3.0 (1 of 2 elements differs)'
    >>> mismatch(np.float32([1, 2]), np.float32([1, 2.00001]), tolerant=True) is None
    True
    """
    if tolerant:
        rtol = relative_tolerance(expected)
    else:
        rtol = None
    allowed = rtol or 0.0
    # The allowance is relative to the element and to the largest one.
    (part,) = parts(actual, expected, allowed, 0.0, allowed)
    facts = part.facts
    if facts is None:
        return _describe_types(part)
    if facts.over:
        return _describe_first(facts, actual, expected)
    if rtol is not None:
        zeros = 0
    else:
        zeros = facts.classes.get(_ZERO_SIGNS, 0)
    if zeros:
        return f"{zeros:,} of {plural(facts.count, 'element')}: 0.0 against -0.0"
    return None


def _describe_types(part: Part) -> str:
    if part.a == part.b:
        return part.reason
    return f"{part.a} instead of {part.b}"


def _describe_first(facts: ArrayStats, actual: np.ndarray, expected: np.ndarray) -> str:
    # Complex numbers have their parts along a last axis.
    index = (facts.first or ())[: actual.ndim]
    where = ",".join(map(str, index))
    values = f"{sanitize(actual[index])} instead of {sanitize(expected[index])}"
    verb = "differ"
    if facts.over == 1:
        verb = "differs"
    return f"[{where}] is {values} ({facts.over:,} of {plural(facts.count, 'element')} {verb})"

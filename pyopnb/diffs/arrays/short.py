"""Short arrays: the verdict at once, and the facts when somebody asks for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pyopnb.diffs.arrays.stats import Facts, array_stats, family
from pyopnb.diffs.arrays.tolerance import SLACK
from pyopnb.diffs.arrays.ulp import widened

__all__ = ["Short", "shortly"]

_LONGEST = 4096


@dataclass(frozen=True, eq=False)
class Short:
    """Copies of two short arrays: the caller may write into theirs before the facts are asked for.

    Attributes
    ----------
    a, b : ndarray
    rtol, atol : float
    verdict : str
    """

    a: np.ndarray
    b: np.ndarray
    rtol: float
    atol: float
    verdict: str

    def facts(self) -> Facts:
        """What `array_stats` finds."""
        return array_stats(self.a, self.b, self.rtol, self.atol)


def shortly(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> Short | Facts:
    """The verdict of short arrays where it is quickly found; of others the facts."""
    if a.size <= _LONGEST and a.dtype == b.dtype and a.dtype.kind != "O" and a.dtype.isnative:
        with np.errstate(all="ignore"):
            verdict = _verdict(a, b, rtol, atol)
        if verdict:
            return Short(a.copy(), b.copy(), rtol, atol, verdict)
    return array_stats(a, b, rtol, atol)


def _verdict(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> str:
    if a.tobytes() == b.tobytes():
        return "bit-identical"
    kind = family(a.dtype)
    if kind != "float":
        return "different" if kind in ("integer", "bool") and atol < 1 else ""
    x, y = (widened(np.ascontiguousarray(one).reshape(-1)).astype(np.float64) for one in (a, b))
    d = np.abs(x - y)
    bound = (atol + rtol * np.abs(y)) * (1 + SLACK)
    most = float((d - bound).max())
    if math.isnan(most):
        return ""  # NaN, or infinities, of which some agree
    if most > 0:
        return "different"
    return "close" if d.any() else "value-identical"

"""What users' tests use: an assertion that says where two values part."""

from __future__ import annotations

from typing import Any

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.parts import VERDICTS
from pyopnb.ops.errors import FeedError, closest, sanitize

__all__ = ["assert_close"]

__unittest = True  # by this name unittest knows whose frames a failure need not show, as pytest by __tracebackhide__

_PASSING = VERDICTS[:3]
_LINES = 12
_NOTHING: Any = object()


def assert_close(
    actual: Any,
    expected: Any = _NOTHING,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    at_least: str = "close",
    where: str = "",
) -> Any:
    """Fail, with the text of the diff, unless two values are close.

    Parameters
    ----------
    actual, expected
        What `pyopnb.diff` takes; ``expected`` is the reference. A diff alone is judged as it is, or, with a tolerance, by that.
    rtol, atol : float, optional
        As in `pyopnb.diff`.
    at_least : {"close", "value-identical", "bit-identical"}
        The verdict that is asked for, or a better one.
    where : str
        What the text begins with: which of many cases it is.

    Returns
    -------
    Diff
        What was found.

    Raises
    ------
    AssertionError
        Of at most twelve lines; the diff is its ``diff``.
    FeedError
        There is nothing that can be compared, a tolerance is negative or not finite, or there is no such verdict.

    Examples
    --------
    >>> import numpy as np
    >>> assert_close(np.float32([1, 2]), np.float32([1, 2.00001])).verdict
    'close'
    >>> assert_close(np.float32([1, 2]), np.float32([1, 2.5]), where="clipper, y")
    Traceback (most recent call last):
        ...
    AssertionError: clipper, y: different: float32[2], rtol 1e-05, atol 1e-05
    1 of 2 elements differ, 1 are over |a-b| <= atol + rtol*|b| (50 %), first at [1]
    |a-b| at most 0.5, mean 0.25, rms 0.3536, a-b on average -0.25
    ...
    >>> assert_close(np.zeros(2), -np.zeros(2), at_least="bit-identical")
    Traceback (most recent call last):
        ...
    AssertionError: expected bit-identical, got value-identical: float64[2], rtol 1e-07, atol 1e-12
    2 of 2 elements have other bits, and the same value
    2 0.0 against -0.0
    """
    __tracebackhide__ = True
    if at_least not in _PASSING:
        known = ", ".join(_PASSING)
        raise FeedError("assert_close, at_least", expected=known, got=sanitize(at_least), next=closest(str(at_least), _PASSING))
    found = _judged(actual, rtol, atol) if expected is _NOTHING else diff(actual, expected, rtol=rtol, atol=atol)
    # Of a verdict that arrays do not have, `ok` is all that is known.
    if found.ok and (found.verdict not in _PASSING or _PASSING.index(found.verdict) <= _PASSING.index(at_least)):
        return found
    asked = "" if at_least == "close" else f"expected {at_least}, got "
    prefix = f"{sanitize(where).replace(chr(10), ' ')}: " if where else ""
    lines = f"{prefix}{asked}{found}".splitlines()
    # Not of a class of its own: unittest leaves out our frames only where it is an AssertionError and nothing else.
    error = AssertionError("\n".join(lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "…"]))
    error.diff = found  # type: ignore[attr-defined]  # an exception takes what it is given
    raise error


def _judged(found: Any, rtol: float | None, atol: float | None) -> Any:
    """A diff that was made elsewhere, under a tolerance where one is given."""
    __tracebackhide__ = True
    if not hasattr(found, "verdict") or not hasattr(found, "ok"):
        raise FeedError(
            "assert_close", expected="two values, or a diff", got=type(found).__name__, next="assert_close(actual, expected)"
        )
    if rtol is None and atol is None:
        return found
    if not hasattr(found, "judged"):
        raise FeedError("assert_close", expected=f"no tolerance beside a {type(found).__name__}", got="rtol or atol")
    return found.judged(rtol=rtol, atol=atol)

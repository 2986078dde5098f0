"""An assertion for users' tests that shows where two values differ."""

from __future__ import annotations

from typing import Any, Literal

from pyopnb.common import messages, sanitize
from pyopnb.diffs import MAX_LINES, array_diffs, diff
from pyopnb.engine import check_arguments
from pyopnb.errors import InputError

__all__ = ["assert_close"]

# unittest hides the frames of modules with this name, as pytest does by __tracebackhide__.
__unittest = True

_PASSING = array_diffs.VERDICTS[:3]


@check_arguments
def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    at_least: Literal["close", "value-identical", "bit-identical"] = "close",
    where: str = "",
) -> Any:
    """Fail, with the text of the diff, unless two values are close.

    Parameters
    ----------
    actual, expected
        As for `pyopnb.diff`; ``expected`` is the reference.
    rtol, atol, stol : float, optional
        As in `pyopnb.diff`.
    at_least : {"close", "value-identical", "bit-identical"}
        The worst verdict that passes.
    where : str
        A prefix for the message, to tell one of many cases.

    Returns
    -------
    Diff, TraceDiff, ModelDiff or OpDiff
        The diff of the two.

    Raises
    ------
    AssertionError
        The values are not close. Its message has at most twelve lines; its attribute
        ``diff`` is the diff.
    InputError
        The two cannot be compared, a tolerance is negative or not finite, or
        there is no such verdict.

    Examples
    --------
    >>> import numpy as np
    >>> assert_close(np.float32([1, 2]), np.float32([1, 2.00001])).verdict
    'close'
    >>> assert_close(np.float32([1, 2]), np.float32([1, 2.5]), where="clipper, y")
    Traceback (most recent call last):
        ...
    AssertionError: clipper, y: different: float32[2], 1 of 2 elements (50 %) outside rtol 1e-05,
    atol 1e-05
    where: [1], a = 2.0, b = 2.5
    how much: |a-b| 0.5, 20 % of |b|; atol=0.5 or rtol=0.2 would pass
    ...
    >>> assert_close(np.zeros(2), -np.zeros(2), at_least="bit-identical")
    Traceback (most recent call last):
        ...
    AssertionError: expected bit-identical, got value-identical: float64[2], equal values, but 2 of
    2 elements...
      2 zeros of opposite sign
    """
    __tracebackhide__ = True
    if at_least not in _PASSING:
        choices, got = ", ".join(_PASSING), sanitize(at_least)
        expected, advice = f"one of {choices}", messages.suggest(str(at_least), _PASSING)
        raise InputError("assert_close, at_least", expected=expected, got=got, next=repr(advice))
    result = diff(actual, expected, rtol=rtol, atol=atol, stol=stol)
    # Models and ops have other verdicts, which only `ok` can rank.
    is_ranked = result.verdict in _PASSING
    is_worse = is_ranked and _PASSING.index(result.verdict) > _PASSING.index(at_least)
    if result.ok and not is_worse:
        return result
    text = str(result)
    if at_least != "close":
        text = f"expected {at_least}, got {text}"
    if where:
        text = f"{sanitize(where).replace(chr(10), ' ')}: {text}"
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], "…"]
    # A subclass would not do: unittest hides our frames only for AssertionError itself.
    error = AssertionError("\n".join(lines))
    error.diff = result  # type: ignore[attr-defined]  # exceptions take attributes
    raise error

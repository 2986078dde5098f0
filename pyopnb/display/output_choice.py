"""Which output the charts of a sweep or a map are about."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pyopnb.engine.ops.messages import sanitize, suggest
from pyopnb.engine.ops.result import Result
from pyopnb.errors import InputError
from pyopnb.traces.summary import summary_of

__all__ = ["choose_output", "is_number", "mean_of"]


def choose_output(results: Iterable[Result | None], wanted: str | int | None) -> str | None:
    """Return the name of an output, by default of the first that has numbers.

    Parameters
    ----------
    results : iterable of (Result or None)
        None for a run that failed.

    Returns
    -------
    str or None
        None where no output has numbers.

    Raises
    ------
    InputError
        There is no such output.
    """
    # All runs of a session have the same outputs, so the first that succeeded names them.
    values: dict[str, Any] = {}
    for result in results:
        if result is not None:
            values = dict(result.items())
            break
    names = list(values)
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return names[wanted]
    if wanted is None:
        return next((name for name in names if is_number(values[name])), None)
    if wanted in names:
        return str(wanted)
    got = sanitize(repr(wanted))
    next_ = suggest(str(wanted), names)
    raise InputError("show, output", expected="an output of the model", got=got, next=next_)


def mean_of(result: Result | None, name: str) -> float:
    """Return the mean of an output; NaN where the run failed or it has no numbers."""
    if result is None:
        mean = None
    else:
        mean = summary_of(result[name]).mean
    if mean is None:
        return math.nan
    return float(mean)


def is_number(value: Any) -> bool:
    """Tell whether a value is an array of numbers that is not empty."""
    is_array = isinstance(value, (np.ndarray, np.generic))
    return is_array and value.dtype.kind not in "OUT" and value.size > 0

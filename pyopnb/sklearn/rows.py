"""The rows on which a conversion is tried, and what an estimator says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from pyopnb.ops.errors import ArgumentError, ModelError, closest, sanitize

__all__ = ["first_rows", "is_from_libraries", "refused"]

_LIBRARIES = tuple(str(Path(str(package.__file__)).parent) for package in (sklearn, np, scipy))


def first_rows(x: Any, count: int) -> Any:
    """The first rows of an example.

    Parameters
    ----------
    x : array, table of pandas, sparse matrix or list
    count : int

    Returns
    -------
    object
        Of the type of ``x``, but for a list of lists.

    Raises
    ------
    ArgumentError
        It has no rows.
    """
    if hasattr(x, "iloc"):
        return x.iloc[:count]
    if isinstance(x, (list, tuple)) or (hasattr(x, "shape") and len(x.shape) > 0):
        return x[:count]
    expected = "rows: an array, a table of pandas, a sparse matrix or a list of str"
    got = sanitize(repr(x), 60) if isinstance(x, (str, int, float)) else type(x).__name__
    raise ArgumentError("convert, X", expected=expected, got=got, next="[X]" if isinstance(x, str) else None)


def is_from_libraries(error: BaseException) -> bool:
    """Whether scikit-learn or what it stands on raised an error, and not a function of the user's inside a pipeline."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_filename.startswith(_LIBRARIES)


def refused(estimator: Any, rows: Any, error: ValueError) -> ModelError:
    """The error for rows that a fitted estimator does not take.

    Parameters
    ----------
    estimator : estimator
    rows : object
    error : ValueError
        What scikit-learn raised for them.

    Returns
    -------
    ModelError
    """
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and hasattr(rows, "columns"):
        lacking = [name for name in fitted if name not in set(rows.columns)]
        if lacking:
            return _lacks(lacking, fitted, [name for name in rows.columns if name not in set(fitted)])
    width: Any = getattr(estimator, "n_features_in_", None)
    shape: Any = getattr(rows, "shape", ())
    if width is not None and len(shape) == 2 and shape[1] != width:
        next_ = f"X[:, :{width}]" if shape[1] > width and not hasattr(rows, "iloc") else "the X that fit was given"
        return ModelError("convert, X", expected=f"{width} columns, as in fit", got=str(shape[1]), next=next_)
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "no text").rstrip(".:")
    expected = f"rows that {type(estimator).__name__} takes"
    return ModelError("convert, X", expected=expected, got=sanitize(f"{type(error).__name__}: {said}", 300), next=_next(said))


def _lacks(lacking: Sequence[Any], fitted: Sequence[Any], others: Sequence[Any]) -> ModelError:
    name = str(lacking[0])
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    close = closest(name, [str(other) for other in others])
    next_ = f"X.rename(columns={{{close!r}: {name!r}}})" if close and not more else "the X that fit was given"
    expected = f"the columns of fit: {', '.join(map(str, fitted))}"
    return ModelError(
        "convert, X", expected=sanitize(expected, 300), got=f"none named {sanitize(name)}{more}", next=sanitize(next_)
    )


def _next(said: str) -> str:
    if "NaN" in said or "infinity" in said:
        return "X without NaN and inf, or a SimpleImputer() in the pipeline"
    if "1D array" in said:
        return "X.reshape(1, -1) if it is one row, X.reshape(-1, 1) if it is one column"
    return "the X that fit was given"

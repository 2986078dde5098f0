"""The rows on which a conversion is tried, and what an estimator says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from pyopnb.errors import InputError, ModelError
from pyopnb.ops.messages import closest, sanitize

__all__ = ["first_rows", "is_from_libraries", "refused"]

_LIBRARIES = tuple(str(Path(str(package.__file__)).parent) for package in (sklearn, np, scipy))


def first_rows(x: Any, count: int) -> Any:
    """Take the first rows of an example, in its own type.

    Raises
    ------
    InputError
        ``x`` has no rows.
    """
    if hasattr(x, "iloc"):
        return x.iloc[:count]
    is_array = hasattr(x, "shape") and len(x.shape) > 0
    if is_array or isinstance(x, (list, tuple)):
        return x[:count]
    is_scalar = isinstance(x, (str, int, float))
    raise InputError(
        "convert, X",
        expected="rows: an array, a table of pandas, a sparse matrix or a list of str",
        got=sanitize(repr(x), 60) if is_scalar else type(x).__name__,
        next="[X]" if isinstance(x, str) else None,
    )


def is_from_libraries(error: BaseException) -> bool:
    """Tell an error that scikit-learn, NumPy or scipy raised from one of the user's own code."""
    step = error.__traceback__
    if step is None:
        return False
    # The last frame is the one that raised.
    while step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame.f_code.co_filename.startswith(_LIBRARIES)


def refused(estimator: Any, rows: Any, error: ValueError) -> ModelError:
    """Make the error for rows that a fitted estimator does not take.

    Parameters
    ----------
    estimator : estimator
    rows : object
    error : ValueError
        What scikit-learn raised for them.
    """
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and hasattr(rows, "columns"):
        missing = [name for name in fitted if name not in set(rows.columns)]
        extra = [name for name in rows.columns if name not in set(fitted)]
        if missing:
            return _missing_columns(missing, fitted, extra)
    # scikit-learn's own text does not say what to do.
    width: Any = getattr(estimator, "n_features_in_", None)
    shape: Any = getattr(rows, "shape", ())
    if width is not None and len(shape) == 2 and shape[1] != width:
        return _wrong_width(rows, width)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(".:") if lines else "no text"
    return ModelError(
        "convert, X",
        expected=f"rows that {type(estimator).__name__} takes",
        got=sanitize(f"{type(error).__name__}: {text}", 300),
        next=_suggestion(text),
    )


def _wrong_width(rows: Any, width: int) -> ModelError:
    columns = rows.shape[1]
    suggestion = "the X that fit was given"
    if columns > width and not hasattr(rows, "iloc"):
        suggestion = f"X[:, :{width}]"
    expected = f"{width} columns, as in fit"
    return ModelError("convert, X", expected=expected, got=str(columns), next=suggestion)


def _missing_columns(
    missing: Sequence[Any], fitted: Sequence[Any], extra: Sequence[Any]
) -> ModelError:
    name = str(missing[0])
    got = f"none named {sanitize(name)}"
    suggestion = "the X that fit was given"
    if len(missing) > 1:
        got += f" and {len(missing) - 1} more"
    else:
        close = closest(name, list(map(str, extra)))
        if close:
            suggestion = f"X.rename(columns={{{close!r}: {name!r}}})"
    expected = sanitize(f"the columns of fit: {', '.join(map(str, fitted))}", 300)
    return ModelError("convert, X", expected=expected, got=got, next=sanitize(suggestion))


def _suggestion(text: str) -> str:
    if "NaN" in text or "infinity" in text:
        return "X without NaN and inf, or a SimpleImputer() in the pipeline"
    if "1D array" in text:
        return "X.reshape(1, -1) if it is one row, X.reshape(-1, 1) if it is one column"
    return "the X that fit was given"

"""The form of an estimator's argument, and how a graph's tensors are put into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Columns", "is_table"]


def is_table(x: Any) -> bool:
    """Tell whether rows are a table of pandas."""
    return hasattr(x, "iloc") and hasattr(x, "columns")


@dataclass(frozen=True)
class Columns:
    """The form of an estimator's argument.

    Attributes
    ----------
    form : str
        ``array``, ``table`` (of pandas), ``sparse`` (a CSR matrix) or ``list`` (of texts).
    dtypes : tuple of str
        As NumPy or pandas write them: one, or one for each column of a table.
    names : tuple of str
        The names of a table's columns.
    """

    form: str = "array"
    dtypes: tuple[str, ...] = ()
    names: tuple[Any, ...] = ()

    @classmethod
    def of(cls, x: Any) -> Columns:
        """Describe an argument."""
        if is_table(x):
            return cls("table", tuple(map(str, x.dtypes)), tuple(x.columns))
        if hasattr(x, "tocsr"):
            return cls("sparse", (str(x.dtype),))
        # A list of texts has one dimension, as vectorizers take it.
        array = np.asarray(x)
        form, dtype = "array", str(array.dtype)
        if array.ndim == 1:
            form = "list"
        if array.dtype.kind in "UTSO":
            dtype = "object"
        return cls(form, (dtype,))

    def join(self, inputs: Sequence[np.ndarray]) -> Any:
        """Combine tensors, each of one or more columns, into that form."""
        if self.form == "table":
            return self._table(inputs)
        (dtype,) = self.dtypes
        if self.form == "list":
            return inputs[0].reshape(-1).astype(dtype, copy=False)
        columns = [_as_columns(part) for part in inputs]
        array = np.concatenate(columns, axis=1).astype(dtype, copy=False)
        if self.form == "array":
            return array
        import scipy.sparse

        return scipy.sparse.csr_matrix(array)

    def _table(self, inputs: Sequence[np.ndarray]) -> Any:
        import pandas as pd

        columns: list[np.ndarray] = []
        for part in inputs:
            columns.extend(_as_columns(part).T)
        series = {}
        for name, column, dtype in zip(self.names, columns, self.dtypes, strict=True):
            # An estimator may choose columns by dtype, so each keeps its dtype in the example.
            series[name] = pd.Series(column).astype(dtype)
        return pd.DataFrame(series, columns=list(self.names))


def _as_columns(array: np.ndarray) -> np.ndarray:
    return array[:, None] if array.ndim == 1 else array

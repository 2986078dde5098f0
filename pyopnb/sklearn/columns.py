"""What an estimator is called with, and how the tensors of a graph become that again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """The form of an estimator's argument.

    Attributes
    ----------
    form : str
        ``array``, ``table`` (of pandas), ``sparse`` (a CSR matrix) or ``list`` (of texts).
    dtypes : tuple of str
        As NumPy or pandas write them: one, or one a column of a table.
    names : tuple of str
        The names of a table's columns.
    """

    form: str = "array"
    dtypes: tuple[str, ...] = ()
    names: tuple[Any, ...] = ()

    @classmethod
    def of(cls, x: Any) -> Columns:
        """Describe an argument."""
        if hasattr(x, "iloc") and hasattr(x, "columns"):
            return cls("table", tuple(map(str, x.dtypes)), tuple(x.columns))
        if hasattr(x, "tocsr"):
            return cls("sparse", (str(x.dtype),))
        # A list of texts has one dimension, as vectorizers take it.
        array = np.asarray(x)
        form = "array" if array.ndim > 1 else "list"
        is_text = array.dtype.kind in "UTSO"
        return cls(form, ("object" if is_text else str(array.dtype),))

    def join(self, inputs: Sequence[np.ndarray]) -> Any:
        """Put tensors, each of one column or several, together to that form."""
        if self.form == "table":
            return self._table(inputs)
        (dtype,) = self.dtypes
        if self.form == "list":
            return inputs[0].reshape(-1).astype(dtype, copy=False)
        columns = [_as_columns(part).astype(dtype, copy=False) for part in inputs]
        # A single input is not copied.
        array = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
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
            # An estimator may choose columns by dtype, so each keeps that of the example.
            series[name] = pd.Series(column).astype(dtype)
        return pd.DataFrame(series, columns=list(self.names))


def _as_columns(array: np.ndarray) -> np.ndarray:
    return array[:, None] if array.ndim == 1 else array

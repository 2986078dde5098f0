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
        Of the columns of a table.
    """

    form: str = "array"
    dtypes: tuple[str, ...] = ()
    names: tuple[Any, ...] = ()

    @classmethod
    def of(cls, x: Any) -> Columns:
        """The form of an argument."""
        if hasattr(x, "iloc") and hasattr(x, "columns"):
            return cls("table", tuple(map(str, x.dtypes)), tuple(x.columns))
        if hasattr(x, "tocsr"):
            return cls("sparse", (str(x.dtype),))
        array = np.asarray(x)
        return cls("array" if array.ndim > 1 else "list", ("object" if array.dtype.kind in "UTSO" else str(array.dtype),))

    def join(self, inputs: Sequence[np.ndarray]) -> Any:
        """Tensors, each of one column or several, as that form."""
        if self.form == "list":
            return inputs[0].reshape(-1).astype(self.dtypes[0], copy=False)
        if self.form == "table":
            return self._table(inputs)
        parts = [part[:, None] if part.ndim == 1 else part for part in inputs]
        array = parts[0] if len(parts) == 1 else np.concatenate([part.astype(self.dtypes[0], copy=False) for part in parts], 1)
        array = array.astype(self.dtypes[0], copy=False)
        if self.form == "array":
            return array
        import scipy.sparse

        return scipy.sparse.csr_matrix(array)

    def _table(self, inputs: Sequence[np.ndarray]) -> Any:
        import pandas as pd

        arrays = [part.reshape(-1, 1) if part.ndim == 1 else part for part in inputs]
        columns = [array[:, place] for array in arrays for place in range(array.shape[1])]
        made = {
            name: pd.Series(column).astype(kind) for name, column, kind in zip(self.names, columns, self.dtypes, strict=True)
        }
        return pd.DataFrame(made, columns=list(self.names))

"""NumPy's triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    BOOL,
    INT64,
    Tensor,
    cast,
    node,
)
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []


@lowers(np.tril)
def _tril(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, upper=0)


@lowers(np.triu)
def _triu(result: Any, m: Any, k: Any = 0) -> Tensor:
    return _triangle(tensor_of(m), k, upper=1)


_DTYPES_OF_TRILU = (np.float32, np.float64, np.int64, BOOL, np.float16)


def _triangle(x: Tensor, k: Any, upper: int) -> Tensor:
    if x.dtype in _DTYPES_OF_TRILU:
        wide = x
    else:
        wide = cast(x, INT64)
    # The main diagonal is Trilu's default.
    inputs = [wide]
    if type(k) is not int or k:
        inputs.append(tensor_of(k, INT64))
    attrs = {}
    if not upper:
        attrs["upper"] = 0
    return cast(node("Trilu", inputs, wide.dtype, x.dims, **attrs), x.dtype)

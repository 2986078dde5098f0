"""NumPy's triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    node,
    served,
)
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []


def _triangle(function: Any, attrs: dict[str, int]) -> None:
    @lowers(function)
    def lower(result: Any, m: Any, k: Any = 0) -> Tensor:
        x = tensor_of(m)
        wide = x if served("Trilu", x.dtype) else cast(x, INT64)
        # The main diagonal is Trilu's default.
        inputs = [wide]
        if type(k) is not int or k:
            inputs.append(tensor_of(k, INT64))
        return cast(node("Trilu", inputs, wide.dtype, x.dims, **attrs), x.dtype)


_triangle(np.tril, {"upper": 0})
_triangle(np.triu, {})

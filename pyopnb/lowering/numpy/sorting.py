"""NumPy functions that sort: an order, a value in the middle, distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.numpy.axes import along
from pyopnb.lowering.refusal import current_line, refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    INT64,
    Tensor,
    cast,
    graph,
    reshape,
    served_dtype,
    shape,
    size,
)
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []


def _sorted(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Record a stable ascending sort with NaN last, and its indices."""
    to = x.dtype
    x = cast(x, served_dtype("TopK", to))
    inputs = [x.name, size(x, axis).name]
    values, indices = graph().add("TopK", inputs, 2, current_line(), axis=axis, largest=0)
    ordered = Tensor(values, x.dtype, x.dims)
    return cast(ordered, to), Tensor(indices, INT64, x.dims)


@lowers(np.sort)
def _sort(result: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None) -> Tensor:
    values, _ = _sorted(*along(tensor_of(a), axis))
    return values


@lowers(np.argsort)
def _argsort(result: Any, a: Any, axis: Any = -1, kind: Any = None, stable: Any = None) -> Tensor:
    if kind not in ("stable", "mergesort") and not stable:
        refuse(
            "np.argsort, whose order of equal elements differs between machines",
            'np.argsort(x, kind="stable")',
        )
    _, indices = _sorted(*along(tensor_of(a), axis))
    return indices


# ---- distinct values -----------------------------------------------------------------------------


@lowers(np.unique)
def _unique(
    result: Any,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> Any:
    x = tensor_of(ar)
    if x.dtype.kind == "f" and not graph().finite:
        refuse(
            "np.unique of floats, which drops NaN in ONNX Runtime",
            "lower(…, finite=True), if there is no NaN",
        )
    if axis is not None:
        refuse("np.unique with axis=")
    wide = cast(x, served_dtype("Unique", x.dtype))
    names = graph().add("Unique", [wide.name], 4, current_line())
    values = cast(Tensor(names[0], wide.dtype, (None,)), x.dtype)
    index = Tensor(names[1], INT64, (None,))
    inverse = Tensor(names[2], INT64, (None,))
    counts = Tensor(names[3], INT64, (None,))
    if return_inverse and x.ndim != 1:
        # Unique flattens, and the NumPy inverse has the shape of the array.
        inverse = reshape(inverse, shape(x), x.dims)
    results = [values]
    if return_index:
        results.append(index)
    if return_inverse:
        results.append(inverse)
    if return_counts:
        results.append(counts)
    if len(results) > 1:
        return results
    return values

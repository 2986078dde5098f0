"""NumPy's functions that turn an array round."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.numpy.axes import axes_of
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import Tensor, node, vector
from pyopnb.lowering.tracing import tensor_of

__all__: list[str] = []

_BEFORE_THE_FIRST = np.iinfo(np.int64).min


@lowers(np.flip)
def _flip(result: Any, m: Any, axis: Any = None) -> Tensor:
    """Record slices from the last element to the first."""
    x = tensor_of(m)
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x
    # The steps are -1, and so is the begin: the last element.
    backward = vector(*[-1] * len(axes))
    ends = vector(*[_BEFORE_THE_FIRST] * len(axes))
    return node("Slice", [x, backward, ends, vector(*axes), backward], x.dtype, x.dims)


@lowers(np.fliplr)
def _fliplr(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 1)


@lowers(np.flipud)
def _flipud(result: Any, m: Any) -> Tensor:
    return _flip(result, m, 0)

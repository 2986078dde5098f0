"""NumPy functions that repeat elements, and pad arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import listed, shape_vector
from pyopnb.lowering.tensors import (
    BOOL,
    Dims,
    Tensor,
    cast,
    node,
    unsqueeze,
)
from pyopnb.lowering.tracing import Traced, is_constant, plain, tensor_of

__all__: list[str] = []


def _without_bool(x: Tensor) -> Tensor:
    """Record a bool as an integer, for operators whose kernels take no bool."""
    if x.dtype == BOOL:
        return cast(x, np.uint8)
    return x


def _dims(result: Any, x: Tensor, *arguments: Any) -> Dims:
    """Return the sizes of a result of the same rank, as far as they are the same for all inputs."""
    if not is_constant(arguments):
        return (None,) * x.ndim
    sizes = zip(np.shape(result), x.dims, strict=True)
    return tuple(None if dim is None else size for size, dim in sizes)


# ---- repeating -----------------------------------------------------------------------------------


@lowers(np.tile)
def _tile(result: Any, A: Any, reps: Any) -> Tensor:  # noqa: N803  # the NumPy name
    x = tensor_of(A)
    if type(reps) is Traced and reps.ndim:
        refuse("np.tile with numbers that depend on values", "np.tile(x, (2, 1))")
    if type(reps) is np.ndarray:
        reps = reps.tolist()
    counts = listed(reps)
    # Pad the shorter one with ones in front.
    rank = max(x.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    x = unsqueeze(x, list(range(rank - x.ndim)))
    return _tiled(x, counts, _dims(result, x, reps))


def _tiled(x: Tensor, counts: Sequence[Any], dims: Dims) -> Tensor:
    wide = _without_bool(x)
    return cast(node("Tile", [wide, shape_vector(counts)[0]], wide.dtype, dims), x.dtype)


# ---- padding -------------------------------------------------------------------------------------


@lowers(np.pad)
def _pad(
    result: Any, array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> Tensor:
    if mode not in ("constant", "edge", "reflect", "wrap"):
        refuse(f"np.pad with mode={mode!r}", 'mode="constant", "edge", "reflect" or "wrap"')
    x = tensor_of(array)
    widths = _pad_widths(pad_width, x.ndim)
    dims = _dims(result, x, pad_width)
    # ONNX lists all widths at the start of the axes first, and then all at the end.
    before = [pair[0] for pair in widths]
    after = [pair[1] for pair in widths]
    wide = _without_bool(x)
    inputs = [wide, shape_vector([*before, *after])[0]]
    attrs = {}
    if mode != "constant":
        attrs["mode"] = mode
    elif np.ndim(plain(constant_values)):
        refuse("np.pad with several constants", "constant_values=c, once for each axis")
    else:
        inputs.append(cast(tensor_of(constant_values, x.dtype), wide.dtype))
    return cast(node("Pad", inputs, wide.dtype, dims, **attrs), x.dtype)


def _pad_widths(width: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Write the widths out as pairs, one for each axis."""
    if type(width) is Traced:
        refuse("np.pad with widths that depend on values")
    if type(width) is np.ndarray:
        width = width.tolist()
    if not isinstance(width, (tuple, list)):
        return [(width, width)] * ndim
    if not isinstance(width[0], (tuple, list)):
        # One pair for all axes, or one number in a list.
        return [(width[0], width[-1])] * ndim
    pairs = [(item[0], item[-1]) for item in width]
    if len(pairs) == 1:
        return pairs * ndim
    return pairs

"""NumPy's functions that repeat elements, and pad arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.numpy.reductions import axes_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.size_vectors import flat, shape_vector
from pyopnb.lowering.tensors import (
    BOOL,
    Tensor,
    cast,
    concat,
    constant,
    elementwise,
    node,
    reshape,
    shape,
    unsqueeze,
)
from pyopnb.lowering.tracing import Number, Traced, plain, tensor_of

__all__ = ["wide_for"]


@lowers(np.tile)
def _tile(result: Any, A: Any, reps: Any) -> Tensor:  # noqa: N803  # NumPy's name
    x = tensor_of(A)
    if type(reps) is Traced and reps.ndim:
        refuse("np.tile with numbers that depend on values", "np.tile(x, (2, 1))")
    reps = reps.tolist() if type(reps) is np.ndarray else reps
    listed = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    rank = max(x.ndim, len(listed))
    x = unsqueeze(x, list(range(rank - x.ndim)))
    listed = [1] * (rank - len(listed)) + listed
    known_sizes = [
        None if type(n) in (Number, Traced) or d is None else int(n) * d
        for n, d in zip(listed, x.dims, strict=True)
    ]
    wide = wide_for(x)
    return cast(
        node("Tile", [wide, shape_vector(listed)[0]], wide.dtype, tuple(known_sizes)), x.dtype
    )


def wide_for(x: Tensor) -> Tensor:
    """Record a bool as an integer, for operators whose kernels take no bool."""
    return cast(x, np.uint8) if x.dtype == BOOL else x


@lowers(np.repeat)
def _repeat(result: Any, a: Any, repeats: Any, axis: Any = None) -> Tensor:
    if np.ndim(plain(repeats)):
        refuse("np.repeat with a number for each element", "np.take(x, indices)")
    x = tensor_of(a)
    x, at = (flat(x), 0) if axis is None else (x, axes_of(axis, x.ndim)[0])
    once = [1] * (x.ndim + 1)
    once[at + 1] = repeats
    tiled = _tile(
        np.empty((0,) * (x.ndim + 1)),
        Traced(np.empty((0,) * (x.ndim + 1), x.dtype), unsqueeze(x, [at + 1])),
        once,
    )
    size = x.dims[at]
    known_sizes = None if size is None or type(repeats) in (Number, Traced) else size * int(repeats)
    # Not -1, which is no size where another one is 0.
    along = (
        constant(np.array([known_sizes]))
        if known_sizes is not None
        else elementwise("Mul", shape(x, at, at + 1), shape_vector([repeats])[0])
    )
    parts = [shape(x, 0, at)] * (at > 0) + [along] + [shape(x, at + 1)] * (at + 1 < x.ndim)
    return reshape(
        tiled,
        concat(parts),
        tuple(known_sizes if position == at else size for position, size in enumerate(x.dims)),
    )


@lowers(np.pad)
def _pad(
    result: Any, array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> Tensor:
    x = tensor_of(array)
    if mode not in ("constant", "edge", "reflect", "wrap"):
        refuse(f"np.pad with mode={mode!r}", 'mode="constant", "edge", "reflect" or "wrap"')
    widths = _pad_widths(pad_width, x.ndim)
    vector = shape_vector([width for side in zip(*widths, strict=True) for width in side])[0]
    dims = tuple(
        None
        if size is None or any(type(w) in (Number, Traced) for w in pair)
        else size + sum(map(int, pair))
        for size, pair in zip(x.dims, widths, strict=True)
    )
    wide = wide_for(x)
    inputs: list[Tensor] = [wide, vector]
    if mode == "constant":
        if np.ndim(plain(constant_values)):
            refuse("np.pad with several constants", "constant_values=c, once for each axis")
        inputs.append(cast(tensor_of(constant_values, x.dtype), wide.dtype))
    return cast(
        node("Pad", inputs, wide.dtype, dims, **({} if mode == "constant" else {"mode": mode})),
        x.dtype,
    )


def _pad_widths(width: Any, ndim: int) -> list[tuple[Any, Any]]:
    if type(width) is Traced:
        refuse("np.pad with widths that depend on values")
    width = width.tolist() if type(width) is np.ndarray else width
    if not isinstance(width, (tuple, list)):
        return [(width, width)] * ndim
    if all(isinstance(item, (tuple, list)) for item in width):
        pairs = [tuple(item) * (3 - len(item)) if len(item) == 1 else tuple(item) for item in width]
        return pairs * ndim if len(pairs) == 1 else pairs
    return [tuple(width) * (1 if len(width) == 2 else 2)] * ndim

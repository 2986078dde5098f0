"""Tensors of a graph that is being recorded, and functions that each record a node.

A tensor knows its dtype, its rank, and the sizes that are the same for all inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pyopnb.engine import dtype as dtype_of
from pyopnb.engine import ort_capabilities, ort_types
from pyopnb.lowering.graph import Graph
from pyopnb.lowering.refusal import current_line, refuse
from pyopnb.models import lacking

__all__ = [
    "BOOL",
    "INT64",
    "Dims",
    "Tensor",
    "broadcast",
    "cast",
    "concat",
    "constant",
    "count",
    "expand",
    "fit",
    "gather",
    "graph",
    "node",
    "recording",
    "reduce",
    "reduced_dims",
    "reshape",
    "resized",
    "scalar_size",
    "served",
    "served_dtype",
    "shape",
    "size",
    "squeeze",
    "transpose",
    "unsqueeze",
    "vector",
]

Dims = tuple[int | None, ...]
BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)

_graph: ContextVar[Graph] = ContextVar("graph")


@contextmanager
def recording(into: Graph) -> Any:
    """Record into a graph."""
    token = _graph.set(into)
    try:
        yield into
    finally:
        _graph.reset(token)


def graph() -> Graph:
    """Return the graph that is being recorded."""
    return _graph.get()


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the graph.

    Attributes
    ----------
    dims : tuple of (int or None)
        None for a size that depends on the inputs' sizes or values.
    const : ndarray or None
        The value if it is the same for all inputs.
    """

    name: str
    dtype: np.dtype
    dims: Dims
    const: np.ndarray | None = None

    @property
    def ndim(self) -> int:
        return len(self.dims)


def node(
    op_type: str, inputs: Sequence[Tensor | None], dtype: Any, dims: Dims, **attrs: Any
) -> Tensor:
    """Record a node with one output."""
    names = ["" if item is None else item.name for item in inputs]
    (name,) = graph().add(op_type, names, line=current_line(), **attrs)
    return Tensor(name, np.dtype(dtype), tuple(dims))


def constant(value: Any, dtype: Any = None) -> Tensor:
    """Record a constant."""
    array = np.asarray(value, dtype)
    return Tensor(graph().constant(array), array.dtype, array.shape, array)


def vector(*numbers: int) -> Tensor:
    """Record some integers as a vector, as sizes and axes are."""
    return constant(numbers, INT64)


def served(op_type: str, dtype: np.dtype, inputs: int = 1) -> bool:
    """Tell whether the installed runtime has a kernel of an operator for a dtype."""
    return _has_kernel(op_type, dtype, inputs, graph().opset)


@cache
def _has_kernel(op_type: str, dtype: np.dtype, inputs: int, opset: int) -> bool:
    operator = ort_capabilities.operator_at("", op_type, opset)
    if operator is None:
        return False
    # The runtime casts around a float16 node for which it has no kernel.
    widened = dtype
    if dtype == np.float16:
        widened = np.dtype(np.float32)
    type_text = ort_types.tensor_kind(dtype_of(widened).onnx)
    types = [type_text] * inputs
    if op_type == "Where":
        types = ["tensor(bool)", type_text, type_text]
    return lacking.has_kernel(operator, types, [])


def served_dtype(op_type: str, dtype: np.dtype, inputs: int = 1) -> np.dtype:
    """Return the dtype in which the runtime has a kernel of an operator.

    This is the dtype itself or a wider integer. Results in a wider integer are cast back, and wrap
    as in the narrower one.
    """
    if served(op_type, dtype, inputs):
        return dtype
    # The runtime itself computes float16 as float32; no float is wider than float64.
    for wide in (np.dtype(np.int32), INT64):
        is_wider = dtype.kind in "iub" and wide.itemsize > dtype.itemsize
        if is_wider and served(op_type, wide, inputs):
            return wide
    other = "np.float32" if dtype.kind == "f" else "np.int64"
    refuse(f"{op_type} of {dtype}, for which ONNX Runtime has no kernel", f"x.astype({other})")


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast, unless the tensor has the dtype."""
    to = np.dtype(dtype)
    if x.dtype == to:
        return x
    if x.const is not None:
        with np.errstate(all="ignore"):
            return constant(x.const.astype(to))
    return node("Cast", [x], to, x.dims, to=dtype_of(to).onnx)


# ---- sizes ---------------------------------------------------------------------------------------


def broadcast(*dims: Dims) -> Dims:
    """Return the sizes that several shapes broadcast to."""
    rank = max(map(len, dims))
    padded = [(1,) * (rank - len(item)) + tuple(item) for item in dims]
    return tuple(map(_broadcast_size, zip(*padded, strict=True)))


def _broadcast_size(sizes: Sequence[int | None]) -> int | None:
    for size in sizes:
        if size not in (None, 1):
            return size
    if None in sizes:
        return None
    return 1


def resized(dims: Dims, axis: int, size: int | None) -> Dims:
    """Replace the size of one axis."""
    return (*dims[:axis], size, *dims[axis + 1 :])


def reduced_dims(x: Tensor, axes: Sequence[int], keepdims: bool) -> Dims:
    """Return the sizes that are left when some axes are reduced."""
    dims = x.dims
    for axis in sorted(axes, reverse=True):
        replacement: Dims = ()
        if keepdims:
            replacement = (1,)
        dims = (*dims[:axis], *replacement, *dims[axis + 1 :])
    return dims


def count(dims: Dims) -> int | None:
    """Count the elements; None if the number varies with the inputs."""
    if None in dims:
        return None
    return math.prod(size or 0 for size in dims)


def shape(x: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    """Record the sizes of some axes as a vector."""
    if end is None:
        end = x.ndim
    sizes = x.dims[start:end]
    if None not in sizes:
        return constant(sizes, INT64)
    # Attributes that have their default are left out, so that equal nodes are recorded once.
    attrs: dict[str, int] = {}
    if start:
        attrs["start"] = start
    if end != x.ndim:
        attrs["end"] = end
    return node("Shape", [x], INT64, (end - start,), **attrs)


def size(x: Tensor, axis: int) -> Tensor:
    """Record the size of an axis as a vector of one."""
    return shape(x, axis, axis + 1)


def scalar_size(x: Tensor, axis: int) -> Tensor:
    """Record the size of an axis as a scalar."""
    return squeeze(size(x, axis), [0])


# ---- shapes and axes -----------------------------------------------------------------------------


def reshape(x: Tensor, to: Tensor, dims: Dims) -> Tensor:
    """Reshape a tensor; the vector ``to`` may contain one -1."""
    if dims == x.dims and None not in dims:
        return x
    if x.const is not None and None not in dims:
        return constant(x.const.reshape(dims))
    attrs: dict[str, int] = {}
    # Without allowzero ONNX reads a size of 0 as the input's own size, and with it takes no -1.
    if to.const is None or (0 in to.const and -1 not in to.const):
        attrs["allowzero"] = 1
    return node("Reshape", [x, to], x.dtype, dims, **attrs)


def transpose(x: Tensor, order: Sequence[int]) -> Tensor:
    """Permute the axes."""
    order = list(order)
    if order == list(range(x.ndim)):
        return x
    dims = tuple(x.dims[axis] for axis in order)
    return node("Transpose", [x], x.dtype, dims, perm=order)


def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Insert new axes of size 1 at these positions of the result."""
    if not axes:
        return x
    dims = list(x.dims)
    for axis in sorted(axes):
        dims.insert(axis, 1)
    return _with_other_axes("Unsqueeze", x, axes, tuple(dims))


def squeeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Remove some axes of size 1."""
    if not axes:
        return x
    return _with_other_axes("Squeeze", x, axes, reduced_dims(x, axes, keepdims=False))


def _with_other_axes(op_type: str, x: Tensor, axes: Sequence[int], dims: Dims) -> Tensor:
    if x.const is not None:
        return constant(x.const.reshape(dims))
    return node(op_type, [x, vector(*sorted(axes))], x.dtype, dims)


def expand(x: Tensor, to: Tensor, dims: Dims) -> Tensor:
    """Broadcast to the shape of a vector."""
    if x.dims == dims and None not in dims:
        return x
    if x.dtype.kind in "biuf" and not served("Expand", x.dtype):
        refuse(f"an array of {x.dtype} broadcast, for which ONNX Runtime has no kernel")
    return node("Expand", [x, to], x.dtype, dims)


# ---- along an axis -------------------------------------------------------------------------------


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Take the elements along an axis at some indices, which may be negative."""
    dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    attrs = {}
    if axis:
        attrs["axis"] = axis
    return node("Gather", [x, indices], x.dtype, dims, **attrs)


def concat(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along an axis."""
    if len(parts) == 1:
        return parts[0]
    constants = [part.const for part in parts if part.const is not None]
    if len(constants) == len(parts):
        return constant(np.concatenate(constants, axis))
    dims: list[int | None] = []
    for sizes in zip(*(part.dims for part in parts), strict=True):
        # A size known for one part applies to all of them.
        fixed = {item for item in sizes if item is not None}
        dims.append(fixed.pop() if fixed else None)
    along = [part.dims[axis] for part in parts]
    dims[axis] = None if None in along else sum(item or 0 for item in along)
    return node("Concat", parts, parts[0].dtype, tuple(dims), axis=axis)


_IDENTITIES = {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"}
"""The reductions that return the tensor unchanged if no axis is reduced."""


def reduce(op_type: str, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Reduce the given axes; an empty list means none of them."""
    axes = sorted(axes)
    if not axes:
        if op_type in _IDENTITIES:
            return x
        refuse(f"{op_type} of no axes")
    inputs = [x]
    attrs: dict[str, Any] = {} if keepdims else {"keepdims": 0}
    # ONNX reduces all axes if none are given.
    if axes != list(range(x.ndim)):
        # Up to opset 17 the axes are an attribute, ReduceSum excepted.
        if graph().opset < 18 and op_type != "ReduceSum":
            attrs["axes"] = axes
        else:
            inputs.append(vector(*axes))
    return node(op_type, inputs, x.dtype, reduced_dims(x, axes, keepdims), **attrs)


# ---- against NumPy -------------------------------------------------------------------------------


def fit(tensor: Tensor, result: Any) -> Tensor:
    """Cast a tensor to the dtype of the NumPy result, after checking its rank and known sizes."""
    result = np.asarray(result)
    if tensor.ndim != result.ndim or not _agrees(tensor.dims, result.shape):
        expected = _described(result.shape)
        got = _described(tensor.dims)
        refuse(f"nodes for {got} where NumPy gives {expected}")
    return cast(tensor, result.dtype)


def _agrees(dims: Dims, sizes: tuple[int, ...]) -> bool:
    pairs = zip(dims, sizes, strict=True)
    return all(dim in (None, item) for dim, item in pairs)


def _described(dims: Dims) -> str:
    sizes = ["?" if dim is None else str(dim) for dim in dims]
    return f"[{','.join(sizes)}]"

"""Tensors of a graph that is being recorded, and ONNX's operators as functions of them: each records a node.

A tensor knows its dtype, its rank, and those of its sizes that are the same for all inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from pyopnb.lowering.graph import Graph
from pyopnb.lowering.refusal import current_line, refuse
from pyopnb.models.ort_capabilities import operator_at
from pyopnb.models.support.kernels import has_kernel
from pyopnb.ops.dtypes import dtype as dtype_of

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
    "elementwise",
    "expand",
    "fit",
    "gather",
    "graph",
    "node",
    "recording",
    "reduce",
    "reshape",
    "served",
    "shape",
    "squeeze",
    "transpose",
    "unsqueeze",
    "where",
]

Dims = tuple[int | None, ...]
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)

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
    name : str
    dtype : numpy.dtype
    dims : tuple of (int or None)
        None for a size that depends on the inputs' sizes or values.
    const : ndarray or None
        The value where it is the same for all inputs.
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


def served(op_type: str, dtype: np.dtype, inputs: int = 1) -> bool:
    """Tell whether the installed runtime has a kernel of an operator for a dtype."""
    operator = operator_at("", op_type, graph().opset)
    kind = dtype_of(dtype).onnx
    text = f"tensor({helper.tensor_dtype_to_string(kind).removeprefix('TensorProto.').lower()})"
    text = {"tensor(float)": "tensor(float)"}.get(text, text)
    if dtype == np.float16:  # the runtime puts casts around
        text = "tensor(float)"
    types = ["tensor(bool)", text, text] if op_type == "Where" else [text] * inputs
    return operator is not None and has_kernel(operator, types, [])


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast, unless the tensor has the dtype."""
    to = np.dtype(dtype)
    if x.dtype == to:
        return x
    if x.const is not None:
        with np.errstate(all="ignore"):
            return constant(x.const.astype(to))
    return node("Cast", [x], to, x.dims, to=dtype_of(to).onnx)


def broadcast(*dims: Dims) -> Dims:
    """Return the sizes of what is broadcast together."""
    rank = max(map(len, dims))
    padded = [(1,) * (rank - len(item)) + tuple(item) for item in dims]
    return tuple(_together(axis) for axis in zip(*padded, strict=True))


def _together(sizes: Sequence[int | None]) -> int | None:
    fixed = [size for size in sizes if size not in (None, 1)]
    return fixed[0] if fixed else None if None in sizes else 1


def elementwise(op_type: str, *inputs: Tensor, dtype: Any = None, **attrs: Any) -> Tensor:
    """Record an operator that broadcasts its inputs."""
    return node(
        op_type,
        inputs,
        inputs[0].dtype if dtype is None else dtype,
        broadcast(*(x.dims for x in inputs)),
        **attrs,
    )


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Choose elements; dtypes that ONNX Runtime has no kernel for go through one that holds their values."""
    if served("Where", x.dtype) or x.dtype.kind not in "biu":
        return node("Where", [condition, x, y], x.dtype, broadcast(condition.dims, x.dims, y.dims))
    if x.dtype == BOOL:
        both = (
            elementwise("And", condition, x),
            elementwise("And", elementwise("Not", condition), y),
        )
        return elementwise("Or", *both)
    wide = np.int32 if x.dtype.itemsize < 4 else np.int64
    return cast(where(condition, cast(x, wide), cast(y, wide)), x.dtype)


def shape(x: Tensor, start: int = 0, end: int | None = None) -> Tensor:
    """Record the sizes of some axes as a vector."""
    end = x.ndim if end is None else end
    sizes = x.dims[start:end]
    if None not in sizes:
        return constant(np.array(sizes, np.int64))
    attrs = ({"start": start} if start else {}) | ({"end": end} if end != x.ndim else {})
    return node("Shape", [x], INT64, (end - start,), **attrs)


def reshape(x: Tensor, to: Tensor, dims: Dims) -> Tensor:
    """Record another shape; ``to`` is its vector, in which -1 may stand once."""
    if dims == x.dims and None not in dims:
        return x
    if x.const is not None and None not in dims:
        return constant(x.const.reshape(dims))
    # Without allowzero a size of 0 would be another one.
    zeros = {} if to.const is not None and not (to.const == 0).any() else {"allowzero": 1}
    remainder = to.const is not None and bool((to.const == -1).any())
    return node("Reshape", [x, to], x.dtype, dims, **({} if remainder else zeros))


def transpose(x: Tensor, order: Sequence[int]) -> Tensor:
    """Record another order of axes."""
    if list(order) == list(range(x.ndim)):
        return x
    return node("Transpose", [x], x.dtype, tuple(x.dims[axis] for axis in order), perm=list(order))


def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Insert new axes of size 1, which stand at these positions of the result."""
    if not axes:
        return x
    remainder = iter(x.dims)
    dims = tuple(1 if axis in axes else next(remainder) for axis in range(x.ndim + len(axes)))
    if x.const is not None:
        return constant(x.const.reshape(dims))
    return node("Unsqueeze", [x, constant(np.array(sorted(axes), np.int64))], x.dtype, dims)


def squeeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Remove some axes of size 1."""
    if not axes:
        return x
    dims = tuple(size for axis, size in enumerate(x.dims) if axis not in axes)
    if x.const is not None:
        return constant(x.const.reshape(dims))
    return node("Squeeze", [x, constant(np.array(sorted(axes), np.int64))], x.dtype, dims)


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Take the elements along an axis at some indices, which may be negative."""
    dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    return node("Gather", [x, indices], x.dtype, dims, **({"axis": axis} if axis else {}))


def concat(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join along an axis."""
    if len(parts) == 1:
        return parts[0]
    if all(part.const is not None for part in parts):
        return constant(np.concatenate([part.const for part in parts], axis))
    sizes = [part.dims[axis] for part in parts]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    sizes_of_result = [
        next((d for d in item if d is not None), None)
        for item in zip(*(part.dims for part in parts), strict=True)
    ]
    sizes_of_result[axis] = total
    return node("Concat", parts, parts[0].dtype, tuple(sizes_of_result), axis=axis)


def expand(x: Tensor, to: Tensor, dims: Dims) -> Tensor:
    """Broadcast to the shape of a vector."""
    if x.dims == dims and None not in dims:
        return x
    if x.dtype.kind in "biuf" and not served("Expand", x.dtype):
        refuse(f"an array of {x.dtype} broadcast, for which ONNX Runtime has no kernel")
    return node("Expand", [x, to], x.dtype, dims)


def reduce(op_type: str, x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Reduce axes; no axes reduce nothing."""
    if not axes and op_type in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"):
        return x
    if not axes:
        refuse(f"{op_type} of no axes")
    every = list(range(x.ndim))
    dims = tuple(
        1 if axis in axes else size
        for axis, size in enumerate(x.dims)
        if keepdims or axis not in axes
    )
    attrs: dict[str, Any] = {} if keepdims else {"keepdims": 0}
    if sorted(axes) == every:
        return node(op_type, [x], x.dtype, dims, **attrs)
    if graph().opset < 18 and op_type != "ReduceSum":
        return node(op_type, [x], x.dtype, dims, axes=sorted(axes), **attrs)
    return node(op_type, [x, constant(np.array(sorted(axes), np.int64))], x.dtype, dims, **attrs)


def fit(tensor: Tensor, result: Any) -> Tensor:
    """Cast a tensor to the dtype of NumPy's result, whose rank and known sizes it must have."""
    result = np.asarray(result)
    if tensor.ndim == result.ndim and all(
        dim in (None, size) for dim, size in zip(tensor.dims, result.shape, strict=True)
    ):
        return cast(tensor, result.dtype)
    refuse(f"nodes for {_described(tensor.dims)} where NumPy gives {_described(result.shape)}")


def _described(dims: Dims) -> str:
    return f"[{','.join('?' if dim is None else str(dim) for dim in dims)}]"


def count(dims: Dims) -> int | None:
    """Count the elements, where that is the same for all inputs."""
    return None if None in dims else math.prod(size or 0 for size in dims)

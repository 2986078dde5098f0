"""NumPy products of matrices, and linear algebra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.elementwise import mul
from pyopnb.lowering.numpy.axes import axes_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import lowers
from pyopnb.lowering.tensors import (
    Dims,
    Tensor,
    broadcast,
    cast,
    node,
    reduce,
    resized,
    served_dtype,
    vector,
)
from pyopnb.lowering.tracing import plain, tensor_of

__all__: list[str] = []


def _rank(value: Any) -> int:
    return np.ndim(plain(value))


# ---- products ------------------------------------------------------------------------------------


@lowers(np.matmul)
def _matmul(result: Any, a: Any, b: Any) -> Tensor:
    wide = served_dtype("MatMul", result.dtype)
    product = _product(tensor_of(a, wide), tensor_of(b, wide))
    return cast(product, result.dtype)


def _product(x: Tensor, y: Tensor) -> Tensor:
    # A vector has no rows on the left, and no columns on the right.
    rows = x.dims[-2:-1]
    if y.ndim > 1:
        columns = y.dims[-1:]
    else:
        columns = ()
    batch: Dims = ()
    if x.ndim > 2 or y.ndim > 2:
        batch = broadcast(x.dims[:-2] or (1,), y.dims[:-2] or (1,))
    return node("MatMul", [x, y], x.dtype, (*batch, *rows, *columns))


@lowers(np.dot)
def _dot(result: Any, a: Any, b: Any) -> Tensor:
    # With a scalar operand, np.dot multiplies elementwise.
    if not _rank(a) or not _rank(b):
        x = tensor_of(a, result.dtype)
        y = tensor_of(b, result.dtype)
        return mul(x, y)
    if _rank(b) > 2:
        refuse("np.dot with an array of more than two axes on the right", "np.einsum, or a @ b")
    return _matmul(result, a, b)


# ---- np.einsum -----------------------------------------------------------------------------------


@lowers(np.einsum)
def _einsum(result: Any, *operands: Any, optimize: Any = False) -> Tensor:
    equation, *arrays = operands
    if not isinstance(equation, str):
        refuse("np.einsum with lists of axes", 'np.einsum("ij,jk->ik", a, b)')
    if "." in equation:
        refuse("np.einsum with ...", 'a letter for each axis, "bij,bjk->bik"')
    terms, output = _read_equation(equation.replace(" ", ""))
    if any(len(set(term)) != len(term) for term in terms):
        refuse("np.einsum with an axis twice in one array", "np.diagonal(x)")
    wide = served_dtype("Einsum", result.dtype)
    tensors = [tensor_of(array, wide) for array in arrays]
    return cast(_as_einsum(tensors, terms, output), result.dtype)


def _read_equation(equation: str) -> tuple[list[str], str]:
    """Return the letters of each operand and of the output."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow:
        # Without an output NumPy keeps the letters that come once, in the order of the alphabet.
        counts = Counter("".join(terms))
        right = "".join(sorted(letter for letter, number in counts.items() if number == 1))
    return terms, right


def _as_einsum(tensors: Sequence[Tensor], terms: Sequence[str], output: str) -> Tensor:
    """Record Einsum, padding axes that may be empty: onnxruntime 1.32 divides by zero there."""
    empty = _perhaps_empty(tensors, terms)
    padded = [_with_zero(x, term, empty) for x, term in zip(tensors, terms, strict=True)]
    equation = f"{','.join(terms)}->{output}"
    dims = (None,) * len(output)
    tensor = node("Einsum", padded, tensors[0].dtype, dims, equation=equation)
    axes = [axis for axis, letter in enumerate(output) if letter in empty]
    if not axes:
        return tensor
    # Cut off the padding.
    begins = vector(*[0] * len(axes))
    ends = vector(*[-1] * len(axes))
    inputs = [tensor, begins, ends, vector(*axes)]
    return node("Slice", inputs, tensor.dtype, dims)


def _perhaps_empty(tensors: Sequence[Tensor], terms: Sequence[str]) -> set[str]:
    """Return the axes that no operand proves to have elements."""
    every: set[str] = set()
    not_empty: set[str] = set()
    for x, term in zip(tensors, terms, strict=True):
        every.update(term)
        for letter, size in zip(term, x.dims, strict=True):
            if size:
                not_empty.add(letter)
    return every - not_empty


def _with_zero(x: Tensor, term: str, empty: set[str]) -> Tensor:
    """Append a zero along the axes that may be empty."""
    widths = [0] * (2 * x.ndim)
    dims = x.dims
    for axis, letter in enumerate(term):
        if letter in empty:
            widths[x.ndim + axis] = 1
            dims = resized(dims, axis, None)
    if not any(widths):
        return x
    return node("Pad", [x, vector(*widths)], x.dtype, dims)


# ---- linear algebra ------------------------------------------------------------------------------


@lowers(np.linalg.norm)
def _norm(result: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    tensor = tensor_of(x, result.dtype)
    axes = axes_of(axis, tensor.ndim)
    # For matrices, 2 is another norm.
    if ord is not None and (ord != 2 or len(axes) != 1):
        refuse(f"np.linalg.norm with ord={ord!r}", "np.abs(x).sum(axis), or np.abs(x).max(axis)")
    return reduce("ReduceL2", tensor, axes, keepdims)

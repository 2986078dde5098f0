"""NumPy's products of matrices, and its linear algebra."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.lowering.numpy.reductions import axes_of
from pyopnb.lowering.numpy.ufuncs import same_kind
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.rules import REASONS, lowers
from pyopnb.lowering.tensors import (
    Dims,
    Tensor,
    broadcast,
    cast,
    constant,
    node,
    reduce,
    served,
    squeeze,
    transpose,
    unsqueeze,
)
from pyopnb.lowering.tracing import plain, tensor_of

__all__: list[str] = []


def _served_product(op_type: str, dtype: np.dtype) -> np.dtype:
    if served(op_type, dtype):
        return dtype
    if dtype.kind in "iu" and dtype.itemsize < 8 and served(op_type, np.dtype(np.int64)):
        return np.dtype(np.int64)  # which wraps as narrower integers do
    refuse(f"{op_type} of {dtype}, for which ONNX Runtime has no kernel", "x.astype(np.float32)")


@lowers(np.matmul)
def _matmul(result: Any, a: Any, b: Any) -> Tensor:
    to = np.asarray(result).dtype
    wide = _served_product("MatMul", to)
    x, y = tensor_of(a, wide), tensor_of(b, wide)
    batch = broadcast(x.dims[:-2] or (1,), y.dims[:-2] or (1,)) if x.ndim > 2 or y.ndim > 2 else ()
    dims: Dims = (*batch, *x.dims[-2:-1], *(y.dims[-1:] if y.ndim > 1 else ()))
    return cast(node("MatMul", [x, y], wide, dims), to)


@lowers(np.dot)
def _dot(result: Any, a: Any, b: Any) -> Tensor:
    ranks = np.ndim(plain(a)), np.ndim(plain(b))
    if 0 in ranks:
        to = np.asarray(result).dtype
        return same_kind("Mul", tensor_of(a, to), tensor_of(b, to))
    if ranks[1] <= 2:
        return _matmul(result, a, b)
    refuse("np.dot with an array of more than two axes on the right", "np.einsum, or a @ b")


@lowers(np.inner)
def _inner(result: Any, a: Any, b: Any) -> Tensor:
    ranks = np.ndim(plain(a)), np.ndim(plain(b))
    if ranks != (1, 1):
        refuse("np.inner of other than vectors", "a @ b.T")
    return _matmul(result, a, b)


@lowers(np.outer)
def _outer(result: Any, a: Any, b: Any) -> Tensor:
    x, y = tensor_of(a, result.dtype), tensor_of(b, result.dtype)
    if x.ndim != 1 or y.ndim != 1:
        refuse("np.outer of other than vectors", "np.outer(a.ravel(), b.ravel())")
    return same_kind("Mul", unsqueeze(x, [1]), y)


@lowers(np.einsum)
def _einsum(result: Any, *operands: Any, optimize: Any = False) -> Tensor:
    if not isinstance(operands[0], str):
        refuse("np.einsum with lists of axes", 'np.einsum("ij,jk->ik", a, b)')
    to = np.asarray(result).dtype
    equation = operands[0].replace(" ", "")
    terms, output, dotted = _read_equation(
        equation, [np.ndim(plain(operand)) for operand in operands[1:]]
    )
    if any(len(set(term)) != len(term) for term in terms):
        refuse("np.einsum with an axis twice in one array", "np.diagonal(x)")
    tensor = _as_matmul(operands[1:], terms, output, dotted, to)
    if tensor is not None:
        return tensor
    wide = _served_product("Einsum", to)
    tensors = [tensor_of(operand, wide) for operand in operands[1:]]
    empty = _perhaps_empty(tensors, terms)
    if any(sum(item in term for term in terms) > 1 for item in empty & dotted):
        refuse(
            "np.einsum with ... in several arrays, over sizes that can change",
            'a letter for each axis, "bij,bjk->bik"',
        )
    tensors = [_with_zero(x, term, empty) for x, term in zip(tensors, terms, strict=True)]
    tensor = node(
        "Einsum", tensors, wide, (None,) * len(output), equation=f"{','.join(terms)}->{output}"
    )
    axes = [axis for axis, item in enumerate(output) if item in empty]
    bounds = [np.zeros(len(axes)), np.full(len(axes), -1), axes]
    slices = [constant(np.array(item, np.int64)) for item in bounds]
    return cast(node("Slice", [tensor, *slices], wide, tensor.dims) if axes else tensor, to)


def _read_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str, set[str]]:
    """Give each axis a letter, and tell which of them an ellipsis stands for."""
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." * ("..." in left) + "".join(
            sorted(item for item in set(letters) if letters.count(item) == 1)
        )
    free = [item for item in string.ascii_letters if item not in equation]
    terms, most = [], 0
    for term, rank in zip(left.split(","), ranks, strict=True):
        count = rank - len(term.replace("...", "")) if "..." in term else 0
        terms.append(term.replace("...", "".join(free[:count][::-1])))
        most = max(most, count)
    return terms, right.replace("...", "".join(free[:most][::-1])), set(free[:most])


def _as_matmul(
    operands: Sequence[Any], terms: list[str], output: str, dotted: set[str], to: np.dtype
) -> Tensor | None:
    """Record a product over one axis as MatMul; None where it is none."""
    if len(terms) != 2:
        return None
    first, second = terms
    over = [item for item in first if item in second and item not in output]
    batch = [item for item in output if (item in first and item in second) or item in dotted]
    free_axes = [
        [item for item in term if item not in counterpart and item not in batch]
        for term, counterpart in ((first, second), (second, first))
    ]
    if len(over) != 1 or not all(len(item) < 2 and set(item) <= set(output) for item in free_axes):
        return None
    wide = _served_product("MatMul", to)
    orders = [[*batch, *free_axes[0], *over], [*batch, *over, *free_axes[1]]]
    a, b = (
        transpose(tensor_of(operand, wide), [term.index(item) for item in order if item in term])
        for operand, term, order in zip(operands, terms, orders, strict=True)
    )
    if any(
        [item for item in batch if item in term] != _last(batch, len(term) - 1 - len(mine))
        for term, mine in zip(terms, free_axes, strict=True)
    ):
        return None
    a = a if free_axes[0] else unsqueeze(a, [a.ndim - 1])
    b = b if free_axes[1] else unsqueeze(b, [b.ndim])
    dims = (*(broadcast(a.dims[:-2], b.dims[:-2]) if batch else ()), a.dims[-2], b.dims[-1])
    tensor = cast(node("MatMul", [a, b], wide, dims), to)
    tensor = squeeze(
        tensor, [len(batch) + position for position in range(2) if not free_axes[position]]
    )
    order = [*batch, *free_axes[0], *free_axes[1]]
    return transpose(tensor, [order.index(item) for item in output])


def _last(items: list[str], count: int) -> list[str]:
    return items[len(items) - count :]


def _perhaps_empty(tensors: Sequence[Tensor], terms: Sequence[str]) -> set[str]:
    """Return the axes along which no operand is known to have elements."""
    sizes: dict[str, int] = {}
    for x, term in zip(tensors, terms, strict=True):
        for item, size in zip(term, x.dims, strict=True):
            sizes[item] = max(sizes.get(item, 0), size or 0)
    return {item for item, size in sizes.items() if not size}


def _with_zero(x: Tensor, term: str, empty: set[str]) -> Tensor:
    """Append a zero along axes that may be empty, by which onnxruntime 1.32 would divide."""
    axes = [axis for axis, item in enumerate(term) if item in empty]
    if not axes:
        return x
    widths = np.zeros(2 * x.ndim, np.int64)
    widths[[x.ndim + axis for axis in axes]] = 1
    return node(
        "Pad",
        [x, constant(widths)],
        x.dtype,
        tuple(None if a in axes else size for a, size in enumerate(x.dims)),
    )


@lowers(np.tensordot)
def _tensordot(result: Any, a: Any, b: Any, axes: Any = 2) -> Tensor:
    ranks = np.ndim(plain(a)), np.ndim(plain(b))
    if isinstance(axes, int):
        pairs = list(zip(range(ranks[0] - axes, ranks[0]), range(axes), strict=True))
    else:
        listed = [item if isinstance(item, (tuple, list)) else (item,) for item in axes]
        pairs = [(i % ranks[0], j % ranks[1]) for i, j in zip(*listed, strict=True)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = list(letters[: ranks[0]])
    second = list(letters[ranks[0] : ranks[0] + ranks[1]])
    for i, j in pairs:
        second[j] = first[i]
    joined = [item for item in first if item not in second] + [
        item for item in second if item not in first
    ]
    return _einsum(result, f"{''.join(first)},{''.join(second)}->{''.join(joined)}", a, b)


@lowers(np.linalg.norm)
def _norm(result: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    to = np.asarray(result).dtype
    tensor = tensor_of(x, to)
    axes = axes_of(axis, tensor.ndim)
    if ord not in (None, 1, 2, "fro", np.inf, -np.inf) or (
        len(axes) > 1 and ord not in (None, "fro")
    ):
        refuse(f"np.linalg.norm with ord={ord!r} of {len(axes)} axes", "sums of np.abs(x)")
    if ord in (np.inf, -np.inf):
        refuse(
            "np.linalg.norm with ord=inf",
            "np.abs(x).max(axis)" if ord > 0 else "np.abs(x).min(axis)",
        )
    return reduce("ReduceL1" if ord == 1 else "ReduceL2", tensor, axes, bool(keepdims))


@lowers(np.linalg.det)
def _det(result: Any, a: Any) -> Tensor:
    to = np.asarray(result).dtype
    if not served("Det", to):
        refuse(
            f"np.linalg.det of {to}, for which ONNX Runtime has no kernel", "x.astype(np.float32)"
        )
    x = tensor_of(a, to)
    return node("Det", [x], to, x.dims[:-2])


@lowers(np.linalg.matmul, np.vecdot)
def _matmul_again(result: Any, a: Any, b: Any) -> Tensor:
    if np.ndim(plain(a)) == 1 or np.ndim(result) == max(np.ndim(plain(a)), np.ndim(plain(b))):
        return _matmul(result, a, b)
    refuse("np.vecdot of stacks", "(a * b).sum(-1)")


for _name in (
    "inv",
    "solve",
    "svd",
    "eigh",
    "eig",
    "qr",
    "cholesky",
    "lstsq",
    "pinv",
    "eigvalsh",
    "matrix_rank",
    "slogdet",
):
    REASONS[getattr(np.linalg, _name)] = (
        f"np.linalg.{_name}, for which ONNX has no operator",
        "leave this op in Python",
    )
for _name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "rfft2"):
    REASONS[getattr(np.fft, _name)] = (
        f"np.fft.{_name}, whose result is complex",
        "leave this op in Python, or products with cosines",
    )

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
    made = _as_matmul(operands[1:], terms, output, dotted, to)
    if made is not None:
        return made
    wide = _served_product("Einsum", to)
    tensors = [tensor_of(operand, wide) for operand in operands[1:]]
    empty = _perhaps_empty(tensors, terms)
    if any(sum(each in term for term in terms) > 1 for each in empty & dotted):
        refuse(
            "np.einsum with ... in several arrays, over sizes that can change",
            'a letter for each axis, "bij,bjk->bik"',
        )
    tensors = [_with_zero(x, term, empty) for x, term in zip(tensors, terms, strict=True)]
    made = node(
        "Einsum", tensors, wide, (None,) * len(output), equation=f"{','.join(terms)}->{output}"
    )
    axes = [axis for axis, each in enumerate(output) if each in empty]
    bounds = [np.zeros(len(axes)), np.full(len(axes), -1), axes]
    slices = [constant(np.array(each, np.int64)) for each in bounds]
    return cast(node("Slice", [made, *slices], wide, made.dims) if axes else made, to)


def _read_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str, set[str]]:
    """The axes of the operands and of the result, each with a letter, and those of them that an ellipsis stands for."""
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." * ("..." in left) + "".join(
            sorted(each for each in set(letters) if letters.count(each) == 1)
        )
    free = [each for each in string.ascii_letters if each not in equation]
    terms, most = [], 0
    for term, rank in zip(left.split(","), ranks, strict=True):
        count = rank - len(term.replace("...", "")) if "..." in term else 0
        terms.append(term.replace("...", "".join(free[:count][::-1])))
        most = max(most, count)
    return terms, right.replace("...", "".join(free[:most][::-1])), set(free[:most])


def _as_matmul(
    operands: Sequence[Any], terms: list[str], output: str, dotted: set[str], to: np.dtype
) -> Tensor | None:
    """A product over one axis of two arrays that have at most one axis of their own each, as MatMul; None for others."""
    if len(terms) != 2:
        return None
    first, second = terms
    over = [each for each in first if each in second and each not in output]
    batch = [each for each in output if (each in first and each in second) or each in dotted]
    own = [
        [each for each in term if each not in other and each not in batch]
        for term, other in ((first, second), (second, first))
    ]
    if len(over) != 1 or not all(len(each) < 2 and set(each) <= set(output) for each in own):
        return None
    wide = _served_product("MatMul", to)
    orders = [[*batch, *own[0], *over], [*batch, *over, *own[1]]]
    a, b = (
        transpose(tensor_of(operand, wide), [term.index(each) for each in order if each in term])
        for operand, term, order in zip(operands, terms, orders, strict=True)
    )
    if any(
        [each for each in batch if each in term] != _last(batch, len(term) - 1 - len(mine))
        for term, mine in zip(terms, own, strict=True)
    ):
        return None
    a = a if own[0] else unsqueeze(a, [a.ndim - 1])
    b = b if own[1] else unsqueeze(b, [b.ndim])
    dims = (*(broadcast(a.dims[:-2], b.dims[:-2]) if batch else ()), a.dims[-2], b.dims[-1])
    made = cast(node("MatMul", [a, b], wide, dims), to)
    made = squeeze(made, [len(batch) + place for place in range(2) if not own[place]])
    order = [*batch, *own[0], *own[1]]
    return transpose(made, [order.index(each) for each in output])


def _last(items: list[str], count: int) -> list[str]:
    return items[len(items) - count :]


def _perhaps_empty(tensors: Sequence[Tensor], terms: Sequence[str]) -> set[str]:
    """The axes of which no operand tells that there is something along them."""
    sizes: dict[str, int] = {}
    for x, term in zip(tensors, terms, strict=True):
        for each, size in zip(term, x.dims, strict=True):
            sizes[each] = max(sizes.get(each, 0), size or 0)
    return {each for each, size in sizes.items() if not size}


def _with_zero(x: Tensor, term: str, empty: set[str]) -> Tensor:
    """A zero more along axes that may be empty: there onnxruntime 1.32's Einsum divides by zero, which ends the process."""
    axes = [axis for axis, each in enumerate(term) if each in empty]
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
        listed = [each if isinstance(each, (tuple, list)) else (each,) for each in axes]
        pairs = [(i % ranks[0], j % ranks[1]) for i, j in zip(*listed, strict=True)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = list(letters[: ranks[0]])
    second = list(letters[ranks[0] : ranks[0] + ranks[1]])
    for i, j in pairs:
        second[j] = first[i]
    joined = [each for each in first if each not in second] + [
        each for each in second if each not in first
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

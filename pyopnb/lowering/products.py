"""NumPy's products of matrices, and its linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyopnb.lowering.dispatch import REASONS, lowers
from pyopnb.lowering.reductions import axes_of
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import Dims, Tensor, broadcast, cast, elementwise, node, reduce, served, unsqueeze
from pyopnb.lowering.values import plain, tensor_of

__all__: list[str] = []


def _served_product(op_type: str, dtype: np.dtype) -> np.dtype:
    if served(op_type, dtype):
        return dtype
    if dtype.kind in "iu" and dtype.itemsize < 8:
        return np.dtype(np.int64 if served(op_type, np.dtype(np.int64)) else np.float64)
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
        return elementwise("Mul", tensor_of(a, to), tensor_of(b, to))
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
    return elementwise("Mul", unsqueeze(x, [1]), y)


@lowers(np.einsum)
def _einsum(result: Any, *operands: Any, optimize: Any = False) -> Tensor:
    if not isinstance(operands[0], str):
        refuse("np.einsum with lists of axes", 'np.einsum("ij,jk->ik", a, b)')
    to = np.asarray(result).dtype
    wide = _served_product("Einsum", to)
    equation = operands[0].replace(" ", "")
    if any(len(set(part)) != len(part) for part in equation.split("->")[0].replace("...", "").split(",")):
        refuse("np.einsum with an axis twice in one array", "np.diagonal(x)")
    tensors = [tensor_of(operand, wide) for operand in operands[1:]]
    return cast(node("Einsum", tensors, wide, (None,) * np.ndim(result), equation=equation), to)


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
    joined = [each for each in first if each not in second] + [each for each in second if each not in first]
    return _einsum(result, f"{''.join(first)},{''.join(second)}->{''.join(joined)}", a, b)


@lowers(np.linalg.norm)
def _norm(result: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    to = np.asarray(result).dtype
    tensor = tensor_of(x, to)
    axes = axes_of(axis, tensor.ndim)
    if ord not in (None, 1, 2, "fro", np.inf, -np.inf) or (len(axes) > 1 and ord not in (None, "fro")):
        refuse(f"np.linalg.norm with ord={ord!r} of {len(axes)} axes", "sums of np.abs(x)")
    if ord in (np.inf, -np.inf):
        refuse("np.linalg.norm with ord=inf", "np.abs(x).max(axis)" if ord > 0 else "np.abs(x).min(axis)")
    return reduce("ReduceL1" if ord == 1 else "ReduceL2", tensor, axes, bool(keepdims))


@lowers(np.linalg.det)
def _det(result: Any, a: Any) -> Tensor:
    to = np.asarray(result).dtype
    if not served("Det", to):
        refuse(f"np.linalg.det of {to}, for which ONNX Runtime has no kernel", "x.astype(np.float32)")
    x = tensor_of(a, to)
    return node("Det", [x], to, x.dims[:-2])


@lowers(np.linalg.matmul, np.vecdot)
def _matmul_again(result: Any, a: Any, b: Any) -> Tensor:
    if np.ndim(plain(a)) == 1 or np.ndim(result) == max(np.ndim(plain(a)), np.ndim(plain(b))):
        return _matmul(result, a, b)
    refuse("np.vecdot of stacks", "(a * b).sum(-1)")


for _name in ("inv", "solve", "svd", "eigh", "eig", "qr", "cholesky", "lstsq", "pinv", "eigvalsh", "matrix_rank", "slogdet"):
    REASONS[getattr(np.linalg, _name)] = f"np.linalg.{_name}, for which ONNX has no operator", "leave this op in Python"
for _name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "rfft2"):
    REASONS[getattr(np.fft, _name)] = (
        f"np.fft.{_name}, whose result is complex",
        "leave this op in Python, or products with cosines",
    )

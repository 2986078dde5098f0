"""What people write in ``compute``: expressions of inputs ``x``, ``y`` (float32[4,6]), ``v``
(float32[6]), ``i`` (int64[3]), ``n`` (int32[4,6]) and ``m`` (bool[4,6]), each with the dtype of its
result where that is not float32."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["BODIES", "REFUSED", "example", "source"]

BODIES: dict[str, str] = {
    "np.logaddexp": "np.logaddexp(x, y) + np.logaddexp(0, x)",



    "np.shape": "np.zeros(np.shape(x), np.float32) + np.size(x, 0) + np.ndim(x)",

    # arithmetic
    "np.add": "np.add(x, y) + 1", "np.subtract": "2 - np.subtract(x, 0.5)", "np.multiply": "x * y * 3", "np.divide": "x / (y * y + 1)",
    "np.floor_divide": "x // 0.3 + x // (y * y + 0.1)", "np.remainder": "x % 0.7 - np.mod(y, -0.3)", "np.power": "np.abs(x) ** 1.5 + x ** 2 + np.power(x, 3)",
    "np.negative": "-x", "np.reciprocal": "np.reciprocal(x * x + 1)", "np.square": "np.square(x)", "np.sqrt": "np.sqrt(np.abs(x)) + np.abs(x) ** 0.5",
    "np.exp": "np.exp(x)", "np.expm1": "np.expm1(x * 1e-3)", "np.exp2": "np.exp2(x)", "np.log": "np.log(np.abs(x) + 1)", "np.log1p": "np.log1p(x * x * 1e-6)",
    "np.log2": "np.log2(np.abs(x) + 1)", "np.log10": "np.log10(np.abs(x) + 1)", "np.sin": "np.sin(x) + np.cos(y) + np.tan(x * 0.3)",
    "np.tanh": "np.tanh(x) + np.sinh(x) + np.cosh(x)", "np.arcsin": "np.arcsin(np.tanh(x)) + np.arccos(np.tanh(y)) + np.arctan(x)",
    "np.arcsinh": "np.arcsinh(x) + np.arccosh(np.abs(x) + 1) + np.arctanh(np.tanh(x) * 0.5)", "np.abs": "np.abs(x) + abs(y) + np.fabs(x)", "np.sign": "np.sign(x)",
    "np.floor": "np.floor(x) + np.ceil(y) + np.trunc(x * 3) + np.rint(x)", "np.round": "np.round(x, 1) + x.round() + np.around(x * 30, -1)",
    "np.maximum": "np.maximum(x, y) - np.minimum(x, 0)", "np.clip": "np.clip(x, -0.5, 0.5) + x.clip(0, None) + np.clip(x, v * 0, None)",

    "np.deg2rad": "np.deg2rad(x) + np.rad2deg(y)",
    # comparisons and choices
    "np.less": "(x < y) & (x <= 1) | ~(x > 0.5) ^ (y >= 0)  # bool", "np.equal": "(n == 1) | (n != n * 2)  # bool", "np.logical_and": "np.logical_and(x, y > 0) | np.logical_or(x > 1, y) ^ np.logical_not(x)  # bool",
    "np.where": "np.where(x > 0, x, y) + np.where(m, np.float32(1), 0)", "np.select": "np.select([x > 1, x > 0], [x, y], 0)", "np.isnan": "np.isnan(x) | np.isinf(y) | np.isfinite(x)  # bool",
    "np.isclose": "np.isclose(x, y, atol=0.5) | np.isclose(n, x)  # bool", "np.nan_to_num": "np.nan_to_num(np.log(x))", "np.any": "(x > 0).any(axis=1) | (x > 0).all(-1)  # bool",
    "bits": "((n & 6) + np.bitwise_or(n, 1) + np.bitwise_xor(n, 3) + np.invert(n) + np.left_shift(n, 2) + np.right_shift(n, 1))  # int32", "np.greater": "np.greater(n, 1) ^ np.less_equal(n, 2) ^ np.greater_equal(x, y) ^ np.not_equal(n, 0) ^ np.logical_xor(n, x)  # bool", "np.flatnonzero": "np.flatnonzero(x > 0)  # int64", "np.amax": "np.amax(x, 1) + np.amin(x, 1) + np.positive(v[0]) + np.absolute(x[:, 0]) + np.fix(x[:, 1])", "np.prod": "x.prod(1, keepdims=True)",
    # reductions
    "np.sum": "x.sum() + x.sum(0) + x.sum(axis=1, keepdims=True) + np.sum(x, (0, 1))", "np.mean": "x.mean(-1) + x.mean()",
    "np.var": "x.var(axis=0) + np.var(x, ddof=1)", "np.std": "x.std(-1, keepdims=True)", "np.max": "x.max(-1, keepdims=True) - np.min(x)",
    "np.argmax": "np.argmax(x, axis=1) + x.argmin(1) + np.argmax(x)  # int64", "np.cumsum": "np.cumsum(x, axis=1) + x.cumsum(0) + np.cumsum(x).reshape(x.shape)", "np.count_nonzero": "np.count_nonzero(n, axis=1)  # int64",
    "np.median": "np.median(x, axis=1) + np.median(x)",
    # shapes
    "np.reshape": "x.reshape(-1, 2).reshape(x.shape) + np.reshape(x, (-1,)).reshape(x.shape[0], -1)", "np.transpose": "x.T @ y + np.transpose(x, (1, 0)) @ y", "np.swapaxes": "np.swapaxes(x, 0, 1)",
    "np.moveaxis": "np.moveaxis(x[None], 0, -1)", "np.expand_dims": "np.expand_dims(x, (0, 2))", "np.squeeze": "np.squeeze(x[None], 0) + x[:, None].squeeze(axis=1)", "np.ravel": "x.ravel() + y.flatten()",
    "np.concatenate": "np.concatenate([x, y], 1) + np.hstack([y, x])", "np.stack": "np.stack([x, y], 1)", "np.vstack": "np.vstack([x, v])", "np.split": "np.split(x, 2, axis=1)[1] + np.split(x, [1, 4], 1)[0]",
    "np.array_split": "np.array_split(v, 4)[0]", "np.tile": "np.tile(x, (2, 1)) + np.tile(v, 1)", "np.repeat": "np.repeat(x, 2, axis=1) + x.repeat(2, 1)", "np.pad": "np.pad(x, ((1, 2), (0, 1))) + np.pad(x, [(1, 2), (0, 1)], mode='edge')",
    "np.flip": "np.flip(x, 1) + x[::-1] + np.fliplr(x) + np.flipud(x)", "np.roll": "np.roll(x, 1, axis=1) + np.roll(x, -7)", "np.broadcast_to": "np.broadcast_to(v, x.shape) + x",
    "np.tril": "np.tril(x) + np.triu(x, 1)", "np.diff": "np.diff(x, axis=0)", "np.meshgrid": "np.meshgrid(v, x[:, 0])[0]",
    # new arrays
    "np.zeros": "np.zeros((x.shape[0], 3), x.dtype) + np.ones((x.shape[0], 1), np.float32)", "np.zeros_like": "np.zeros_like(x) + np.ones_like(y) + np.full_like(x, 2)", "np.full": "np.full(x.shape, 0.5, dtype=np.float32)",
    "np.arange": "(np.arange(x.shape[1]) * x).astype(np.float32)", "np.linspace": "(np.linspace(0, 1, 6)[:, None, None] + x).astype(x.dtype)", "np.eye": "np.eye(x.shape[0], dtype=np.float32) @ x", "np.array": "np.array([x[0, 0], 1.0, x[1, 1]], dtype=np.float32)",
    # products
    "np.matmul": "x @ y.T", "np.dot": "np.dot(x, v) + x.dot(v)", "np.einsum": "np.einsum('ij,kj->ik', x, y) + np.einsum('ij, ij -> i', x, y)[:, None]", "np.outer": "np.outer(v, x)",
    "np.multiply.outer": "np.multiply.outer(v, x) - np.maximum.outer(v, x)", "np.subtract.outer": "np.subtract.outer(i, n[0]) + np.outer(i, n[0])  # int64", "np.less.outer": "np.less.outer(x, v)  # bool",
    "np.add.reduce": "np.add.reduce(x) + np.add.reduce(y, axis=0, keepdims=True)", "np.maximum.reduce": "np.maximum.reduce(x, axis=None) + np.minimum.reduce(y, 1) * np.multiply.reduce(x, axis=-1)",
    "np.logical_and.reduce": "np.logical_and.reduce(m, axis=1) | np.logical_or.reduce(x > 1, 1)  # bool", "np.add.accumulate": "np.add.accumulate(x) + np.add.accumulate(y, axis=1)", "np.add.accumulate of int32": "np.add.accumulate(n)  # int64",
    "np.linalg.norm": "np.linalg.norm(x, axis=1) + np.linalg.norm(x) + np.linalg.norm(x, 2, 1)",
    # sorting and finding
    "np.sort": "np.sort(x, axis=-1) + np.sort(x, 0)", "np.argsort": "np.argsort(x, axis=1, kind='stable') + x.argsort(0, kind='stable')  # int64", "np.take": "np.take(x, i, axis=1) + x.take(i, 1)", "np.take_along_axis": "np.take_along_axis(x, np.argsort(y, 1, kind='stable'), 1)",
    "np.unique": "np.unique(i)  # int64", "np.unique(return_inverse)": "np.unique(n, return_inverse=True, return_counts=True)[1]  # int64", "np.unique(all)": "sum(part[:2].sum() for part in np.unique(n, True, True, True))  # int64", "np.nonzero": "np.nonzero(n)[0] + np.where(n)[1]  # int64", "np.argwhere": "np.argwhere(m)  # int64", "np.searchsorted": "np.searchsorted(np.sort(v), x)  # int64",
    "topk": "np.take_along_axis(x, np.argsort(-x, axis=1, kind='stable')[:, :2], 1)",
    # reading by index
    "x[1:3]": "x[1:3, ::2] + x[-3:-1, ::-2]", "x[:, None]": "x[:, None] * y[None, ..., :]", "x[..., -1]": "x[..., -1] + x[:, 0]", "x[i]": "x[:, i] + x[:, [0, 1, -1]]", "x[m]": "x[m] * 2", "x[v > 0]": "x[:, v > 0]",
    "x[i, i]": "x[i, i + 1] + x[[0, 1, 2], [1, 2, 3]]", "x[0]": "x[0] + x[-1] + x[0, 1]", "x[:n // 2]": "x[: x.shape[0] // 2] + x[: x.shape[0] // 2]", "x[:, i][..., None]": "x[1:, i, None]",
    # what is written instead of functions that are refused
    "instead of np.digitize": "np.searchsorted(np.float32([-1, 0, 1]), x, side='right')  # int64",
    "instead of sliding windows": "np.stack([x[..., k : x.shape[-1] - 2 + k] for k in range(3)], -1)", "instead of np.trapezoid": "((x[..., 1:] + x[..., :-1]) / 2).sum(-1)", "instead of np.add.at": "(i == np.arange(4)[:, None]) @ x[0, :3]",
    "instead of np.fill_diagonal": "np.where(np.eye(v.shape[0], dtype=bool), 9, v[:, None] * v)", "instead of np.cov": "(x - x.mean(1, keepdims=True)) @ (x - x.mean(1, keepdims=True)).T / np.float32(5)",
    "instead of np.cbrt": "np.sign(x) * np.abs(x) ** (1 / 3)", "instead of np.modf": "x - np.trunc(x)", "instead of np.packbits": "((m.reshape(-1, 8) * 2 ** np.arange(7, -1, -1)).sum(1))  # int64",
    # integers
    "integers": "(n * n + n // 3 - n % 5 + n ** 2 + abs(n) - (n << 2) + (n >> 1)) & 7 | 8 ^ n  # int32", "integer division": "n // (n - n) + n % np.where(m, n, 0)  # int32", "sums of integers": "n.sum(0) + n.max() + n[:2].cumsum(0)[-1] * n.mean().astype(np.int64)  # int64",
    "small integers": "(n.astype(np.int8) * np.int8(50) + np.maximum(n.astype(np.int8), 3)).astype(np.int8)  # int8", "true division": "(n / 3 + n / n.shape[0]).astype(np.float32)", "promotion": "(x * n + np.float64(2)).astype(np.float32)",
    "bools": "(m * x + m.sum() + (m + m) * 1).astype(np.float32)", "sizes": "x * x.shape[0] / x.size + x / np.sqrt(x.shape[-1]).astype(np.float32) + len(x.shape)",
}  # fmt: skip

REFUSED: dict[str, tuple[str, str]] = {
    "a branch": ("x if x.sum() > 0 else y", "a condition that depends on values. Try: np.where"),
    "float()": ("x * float(x[0, 0])", r"float\(\) of an array"),
    "a loop over rows": ("np.stack([row * 2 for row in x])", "a loop over an axis of a size that can change"),
    "a loop over a size": ("sum(x * k for k in range(x.shape[1]))", "the value of a size that can change"),
    "math": ("x * __import__('math').sqrt(x[0, 0])", r"float\(\) of an array"),
    "a list": ("np.array([float(v) for v in x.ravel().tolist()], np.float32)", r"\.tolist\(\)"),
    "random numbers": ("x + np.random.rand()", "random numbers"),
    "np.unique": ("np.unique(x)", "np.unique of floats"),
    "np.cumprod": ("np.cumprod(x, 1)", "np.cumprod, for which there is no operator. Try: np.exp"),
    "np.percentile": ("np.percentile(x, 10).astype(np.float32)", "np.percentile, for which there is no operator. Try: np.sort"),
    "np.partition": ("np.partition(x, 2, axis=1)", "np.partition, whose order inside the parts"),
    "np.bincount": ("np.bincount(i)  # int64", "np.bincount"),
    "np.interp": ("np.interp(v, v, v).astype(np.float32)", "np.interp"),
    "np.multiply.accumulate": ("np.multiply.accumulate(x)", "np.cumprod, for which there is no operator. Try: np.exp"),
    "np.subtract.reduce": ("np.subtract.reduce(x)", r"np.subtract.reduce, for which there is no operator\.\n"),
    "np.maximum.accumulate": ("np.maximum.accumulate(x)", r"np.maximum.accumulate, for which there is no operator\.\n"),
    "np.add.at": ("np.add.at(x.copy(), i, 1) or x", r"np.add.at"),
    "np.digitize": ("np.digitize(x, np.float32([0, 1]))  # int64", r"np.digitize, .*Try: np.searchsorted\(bins"),
    "sliding windows": ("np.lib.stride_tricks.sliding_window_view(x, 3, 1).sum(-1)", r"sliding_window_view, .*Try: np.stack"),
    "np.arctan2": ("np.arctan2(x, y)", "np.arctan2"),
    "np.apply_along_axis": ("np.apply_along_axis(np.sort, 1, x)", "a Python function for each row"),
    "a write into an input": ("x.__setitem__(0, 1) or x", "a write into an input. Try: y = x.copy"),
    "a cast by call": ("np.float32(x)", "the array's values"),
}  # fmt: skip


_HINTS = {
    "x": "float32[A,B]",
    "y": "float32[A,B]",
    "v": "float32[B]",
    "i": "int64[K]",
    "n": "int32[A,B]",
    "m": "bool[A,B]",
}


def _inputs(body: str) -> list[str]:
    """The inputs that a body reads: `lower` tries values in each, so that one too many costs half as much again."""
    return [name for name in _HINTS if re.search(rf"(?<![\w.']){name}\b(?!=)", body)]


def example(body: str) -> list[np.ndarray]:
    """The inputs of a body."""
    random = np.random.default_rng(0)
    arrays = {
        "x": random.normal(size=(4, 6)).astype(np.float32),
        "y": random.normal(size=(4, 6)).astype(np.float32),
        "v": random.normal(size=6).astype(np.float32),
        "i": np.int64([0, 2, 1]),
        "n": random.integers(-4, 5, (4, 6)).astype(np.int32),
        "m": random.random((4, 6)) < 0.5,
    }
    return [arrays[name] for name in _inputs(body)]


def source(body: str) -> str:
    """The class of a body."""
    expression, _, dtype = body.partition("  # ")
    parameters = ", ".join(f"{name}: '{_HINTS[name]}'" for name in _inputs(body))
    return f"class Body:\n    def compute(self, {parameters}) -> '{dtype or 'float32'}[...]':\n        return {expression}\n"

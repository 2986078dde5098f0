"""Alternatives to NumPy functions that have no ONNX operator."""

from __future__ import annotations

import numpy as np

from pyopnb.lowering.rules import REASONS, name_of

__all__: list[str] = []

_NO_OPERATOR = {
    np.bincount: "(x[:, None] == np.arange(n)).sum(0)",
    np.cbrt: "np.sign(x) * np.abs(x) ** (1 / 3)",
    np.convolve: "a sum of products with slices, x[1:-1] * w[0] + x[2:] * w[1]",
    np.copysign: "np.where(y < 0, -np.abs(x), np.abs(x)), where y is never -0.0",
    np.corrcoef: "x - x.mean(1, keepdims=True), and its product with itself",
    np.correlate: "a sum of products with slices, x[:-1] * w[0] + x[1:] * w[1]",
    np.cov: "d @ d.T / (n - 1), with d = x - x.mean(1, keepdims=True)",
    np.cumprod: "np.exp(np.cumsum(np.log(x))) for positive numbers",
    np.arctan2: "np.arctan(y / x), with np.where for the quadrants",
    np.diag: "x * np.eye(n), or (x * np.eye(n)).sum(-1)",
    np.diagonal: "(x * np.eye(n)).sum(-1)",
    np.digitize: 'np.searchsorted(bins, x, side="right")',
    np.fill_diagonal: "np.where(np.eye(n, dtype=bool), value, x)",
    np.gradient: "differences of slices, (x[2:] - x[:-2]) / 2",
    np.hypot: "np.sqrt(a * a + b * b)",
    np.histogram: "sums of comparisons with the edges",
    np.interp: "np.searchsorted and np.take",
    np.kron: "a[:, None, :, None] * b[None, :, None, :], and reshape",
    np.lib.stride_tricks.sliding_window_view: (
        "np.stack([x[..., k : x.shape[-1] - 2 + k] for k in range(3)], -1)"
    ),
    np.modf: "x - np.trunc(x), np.trunc(x)",
    np.nanmax: "np.where(np.isnan(x), -np.inf, x).max()",
    np.nansum: "np.where(np.isnan(x), 0, x).sum()",
    np.packbits: "(x.reshape(-1, 8) * 2 ** np.arange(7, -1, -1)).sum(1)",
    np.percentile: "np.sort(x), and an index",
    np.quantile: "np.sort(x), and an index",
    np.tensordot: "np.einsum, or a @ b of reshaped arrays",
    np.trapezoid: "((x[..., 1:] + x[..., :-1]) / 2).sum(-1)",
}
_OTHER_REASONS = {
    np.partition: ("whose order inside the parts is up to NumPy", "np.sort(x)"),
    np.argpartition: ("whose order inside the parts is up to NumPy", "np.argsort(x)"),
    np.allclose: ("whose result is a condition", "np.isclose(a, b).all()"),
    np.array_equal: ("whose result is a condition", "(a == b).all()"),
    np.piecewise: ("which calls functions of parts", "np.where"),
}
for _function, _advice in _NO_OPERATOR.items():
    REASONS[_function] = (f"{name_of(_function)}, for which there is no operator", _advice)
for _function, (_reason, _advice) in _OTHER_REASONS.items():
    REASONS[_function] = (f"{name_of(_function)}, {_reason}", _advice)
REASONS[np.apply_along_axis] = ("a Python function for each row", "NumPy functions with axis=")

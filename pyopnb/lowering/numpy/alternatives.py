"""Functions without operators for which there is something to write instead."""

from __future__ import annotations

import numpy as np

from pyopnb.lowering.rules import REASONS, name_of

__all__: list[str] = []

_INSTEAD = {
    np.cbrt: "np.sign(x) * np.abs(x) ** (1 / 3)",
    np.convolve: "a sum of products with slices, x[1:-1] * w[0] + x[2:] * w[1]",
    np.copysign: "np.where(y < 0, -np.abs(x), np.abs(x)), where y is never -0.0",
    np.corrcoef: "x - x.mean(1, keepdims=True), and its product with itself",
    np.correlate: "a sum of products with slices, x[:-1] * w[0] + x[1:] * w[1]",
    np.cov: "d @ d.T / (n - 1), with d = x - x.mean(1, keepdims=True)",
    np.fill_diagonal: "np.where(np.eye(n, dtype=bool), value, x)",
    np.gradient: "differences of slices, (x[2:] - x[:-2]) / 2",
    np.kron: "np.outer and reshape",
    np.lib.stride_tricks.sliding_window_view: "np.stack([x[..., k : x.shape[-1] - 2 + k] for k in range(3)], -1)",
    np.modf: "x - np.trunc(x), np.trunc(x)",
    np.packbits: "(x.reshape(-1, 8) * 2 ** np.arange(7, -1, -1)).sum(1)",
    np.trapezoid: "((x[..., 1:] + x[..., :-1]) / 2).sum(-1)",
}

REASONS |= {
    function: (f"{name_of(function)}, for which there is no operator", advice)
    for function, advice in _INSTEAD.items()
}

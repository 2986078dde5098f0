"""Weights of a few bits, with a scale for each block, as com.microsoft's MatMulNBits packs them."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.precision import widen
from pyopnb.catalog.cores.rotary import rms_normalize

__all__ = ["multiply_nbits", "normalize_skip", "unpack_nbits"]


def unpack_nbits(
    packed: np.ndarray, scales: np.ndarray, *, bits: int, block_size: int, columns: int
) -> np.ndarray:
    """Dequantize the weights of a layer.

    Parameters
    ----------
    packed : ndarray
        uint8[N,blocks,block_size·bits/8], the lowest bits first.
    scales : ndarray
        float[N,blocks], or flat.
    bits : {2, 4, 8}
    block_size, columns : int
        The last block may reach beyond the columns.

    Returns
    -------
    ndarray
        float32[N,columns].
    """
    outputs = packed.shape[0]
    per_byte = 8 // bits
    shifts = np.arange(per_byte, dtype=np.uint8)
    shifts = shifts * np.uint8(bits)
    # A byte holds several levels.
    levels = packed[..., None] >> shifts
    levels = levels & np.uint8(2**bits - 1)
    blocks = levels.reshape(outputs, -1, block_size)
    blocks = blocks.astype(np.float32)
    # Without zero points, the middle level means 0.
    weights = blocks - 2 ** (bits - 1)
    weights = weights * widen(scales).reshape(outputs, -1, 1)
    return weights.reshape(outputs, -1)[:, :columns]


def multiply_nbits(
    x: np.ndarray,
    packed: np.ndarray,
    scales: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    bits: int,
    block_size: int,
) -> np.ndarray:
    """Multiply by weights of a few bits, in float32."""
    weights = unpack_nbits(packed, scales, bits=bits, block_size=block_size, columns=x.shape[-1])
    # The kernels accumulate in float32.
    product = widen(x) @ weights.T
    if bias is None:
        return product
    return product + widen(bias)


def normalize_skip(
    x: np.ndarray, skip: np.ndarray | None, scale: np.ndarray | None, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Add a skip connection and normalize, as the node before the product would.

    Returns
    -------
    normalized, total : ndarray
        float32, and rounded to the dtype of ``x``.
    """
    if skip is None:
        total = x
    else:
        total = widen(x) + widen(skip)
        total = total.astype(x.dtype)
    if scale is None:
        return widen(total), total
    normalized = rms_normalize(widen(total), widen(scale), epsilon)
    return normalized.astype(x.dtype), total

"""The computations of dropout operators and their gradients."""

from __future__ import annotations

import numpy as np

from pyopnb.catalog.cores.precision import widen

__all__ = ["bitmask", "bits_of", "drop", "dropped_gradient"]


def drop(
    values: np.ndarray,
    everything: np.ndarray,
    ratio: np.ndarray | None,
    training_mode: np.ndarray | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Drop elements at random in training, and return the result with the mask of kept elements.

    ``everything`` is the mask outside training, which the entry makes: `lower` follows `numpy.ones`
    in an entry only. With a seed each run drops the same elements, and with 0 each drops others.
    """
    share = _share(ratio)
    if training_mode is None or not training_mode.item() or share == 0:
        return values, everything
    if not 0 < share < 1:
        raise ValueError(f"ratio: expected at least 0 and less than 1, got {share:g}")
    mask = np.random.default_rng(seed or None).random(everything.shape) >= share
    # Scale the kept elements, so that the expected sum stays the same.
    return np.where(mask, widen(values) / (1 - share), 0), mask


def _share(ratio: np.ndarray | None) -> float:
    """Return the share of elements to drop, which ONNX sets to a half."""
    if ratio is None:
        return 0.5
    return float(ratio.item())


def bitmask(mask: np.ndarray) -> np.ndarray:
    """Return a uint32 for each 32 elements, with the lowest bit for the first."""
    # Bits beyond the last element stay 0, as the kernel leaves them.
    padded = np.zeros(-(-mask.size // 32) * 32, bool)
    padded[: mask.size] = mask.ravel()
    return np.packbits(padded, bitorder="little").view("<u4").astype(np.uint32)


def bits_of(mask: np.ndarray, size: int) -> np.ndarray:
    """Unpack a mask of `bitmask`'s form into bools."""
    # Bytes of the mask are little-endian on every machine.
    unpacked = mask.astype("<u4").view(np.uint8)
    unpacked = np.unpackbits(unpacked, bitorder="little")
    return unpacked[:size].astype(bool)


def dropped_gradient(
    gradient: np.ndarray,
    mask: np.ndarray,
    ratio: np.ndarray | None,
    training_mode: np.ndarray | None,
) -> np.ndarray:
    """Return the gradient of a dropout; outside training it is the gradient itself."""
    if training_mode is not None and not training_mode.item():
        return gradient.copy()
    share = _share(ratio)
    if share == 0:
        return gradient.copy()
    scaled = gradient.astype(np.float64) / (1 - share)
    return np.where(mask, scaled, 0).astype(gradient.dtype)

"""Pixels as PNG, with NumPy and zlib alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

__all__ = ["enlarged", "png"]


def png(pixels: np.ndarray, colours: Sequence[tuple[int, int, int]]) -> bytes:
    r"""A PNG of pixels that name their colours by number.

    Parameters
    ----------
    pixels : ndarray
        uint8, rows of columns, neither of them none.
    colours : sequence of (int, int, int)
        At most 256.

    Examples
    --------
    >>> png(np.zeros((1, 1), np.uint8), [(255, 0, 0)])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or not pixels.size:
        raise ValueError(f"{pixels.dtype} {pixels.shape} is no picture: uint8, two axes, not empty")
    if not int(pixels.max()) < len(colours) <= 256:
        raise ValueError(f"colour {int(pixels.max())} of {len(colours)}")
    height, width = pixels.shape
    rows = np.zeros((height, width + 1), np.uint8)  # a row begins with the number of its filter: none
    rows[:, 1:] = pixels
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    table = bytes(part for colour in colours for part in colour)
    parts = ((b"IHDR", head), (b"PLTE", table), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def enlarged(pixels: np.ndarray, across: int, down: int) -> np.ndarray:
    """Each pixel as a field of pixels: viewers blur a small picture when they enlarge it."""
    return pixels.repeat(down, axis=0).repeat(across, axis=1)

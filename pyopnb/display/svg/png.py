"""Palette images as PNG, with NumPy and zlib alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from pyopnb.display.svg.colours import RGB

__all__ = ["png"]


def png(indices: np.ndarray, colours: Sequence[RGB]) -> bytes:
    r"""A PNG of pixels that are indices into a palette.

    Parameters
    ----------
    indices : ndarray
        uint8[rows, columns], not empty.
    colours : sequence of (int, int, int)
        At most 256.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        The indices are of another dtype or rank, empty, or beyond the palette.

    Examples
    --------
    >>> png(np.zeros((1, 1), np.uint8), [(255, 0, 0)])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    if indices.dtype != np.uint8 or indices.ndim != 2 or not indices.size:
        raise ValueError(f"png: expected uint8[rows,columns], not empty, got {indices.dtype}{list(indices.shape)}")
    if not int(indices.max()) < len(colours) <= 256:
        raise ValueError(f"png: expected indices below {min(len(colours), 256)}, got {int(indices.max())}")
    height, width = indices.shape
    rows = np.zeros((height, width + 1), np.uint8)  # a row begins with the number of its filter; 0 is none
    rows[:, 1:] = indices
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    table = bytes(part for colour in colours for part in colour)
    parts = ((b"IHDR", header), (b"PLTE", table), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""Images as PNG, with NumPy and zlib alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np

__all__ = ["png"]

# PNG's numbers for kinds of pixels: indices into a palette, or RGBA.
_INDEXED, _RGBA = 3, 6
_MOST_INDEXED = 256


def png(pixels: np.ndarray) -> bytes:
    r"""Write pixels as a PNG, with a palette for few colors, which takes much less space.

    Parameters
    ----------
    pixels : ndarray
        uint8[rows, columns, 3] or [rows, columns, 4], RGB or RGBA. Not empty.

    Examples
    --------
    >>> png(np.zeros((1, 1, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width, channels = pixels.shape
    colors = np.full((height, width, 4), 255, np.uint8)
    colors[..., :channels] = pixels
    # One number a pixel is sorted much faster than four.
    table, indices = np.unique(colors.view(np.uint32), return_inverse=True)
    chunks = []
    if table.size <= _MOST_INDEXED:
        kind = _INDEXED
        palette = table.view(np.uint8).reshape(-1, 4)
        chunks.append(_chunk(b"PLTE", palette[:, :3].tobytes()))
        chunks.append(_chunk(b"tRNS", palette[:, 3].tobytes()))
        rows = np.insert(indices.reshape(height, width).astype(np.uint8), 0, 0, axis=1)
    else:
        kind = _RGBA
        # Each pixel is its difference to the one on the left, which PNG calls filter 1: in a
        # photograph they are small numbers, and compress to about half.
        differences = np.diff(colors, axis=1, prepend=np.uint8(0)).reshape(height, -1)
        rows = np.insert(differences, 0, 1, axis=1)
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
    return b"".join([b"\x89PNG\r\n\x1a\n", head, *chunks, data, _chunk(b"IEND", b"")])


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

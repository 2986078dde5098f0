"""Images as PNG, with NumPy and zlib alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from pyopnb.display.svg.colours import RGB, RGBA

__all__ = ["png"]


def png(pixels: np.ndarray, colours: Sequence[RGB | RGBA] = (), *, flat: bool = False) -> bytes:
    r"""A PNG of pixels: colours, or indices into a palette.

    Parameters
    ----------
    pixels : ndarray
        uint8[rows, columns], indices; or uint8[rows, columns, 3] or [rows, columns, 4], RGB or RGBA. Not empty.
    colours : sequence of tuple of int
        The palette: at most 256, RGB or RGBA.
    flat : bool
        Whether the pixels are a drawing of large areas of one colour, which is fastest and smallest without filters.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        The pixels are of another dtype or shape, empty, or beyond the palette.

    Examples
    --------
    >>> png(np.zeros((1, 1), np.uint8), [(255, 0, 0)])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    indexed = pixels.ndim == 2
    if (
        pixels.dtype != np.uint8
        or not (indexed or (pixels.ndim == 3 and pixels.shape[2] in (3, 4)))
        or not pixels.size
    ):
        got = f"{pixels.dtype}{list(pixels.shape)}"
        raise ValueError(
            f"png: expected uint8[rows,columns], [rows,columns,3] or [rows,columns,4], not empty, got {got}"
        )
    if indexed and not int(pixels.max()) < len(colours) <= 256:
        raise ValueError(
            f"png: expected indices below {min(len(colours), 256)}, got {int(pixels.max())}"
        )
    height, width = pixels.shape[:2]
    kind = 3 if indexed else 2 if pixels.shape[2] == 3 else 6
    rows = _unfiltered(pixels) if indexed or flat else _filtered(pixels)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if indexed:
        parts.append((b"PLTE", bytes(part for colour in colours for part in colour[:3])))
        opacities = bytes(colour[3] if len(colour) > 3 else 255 for colour in colours)
        parts += [(b"tRNS", opacities)] if min(opacities) < 255 else []
    parts += [(b"IDAT", zlib.compress(rows.data, 4 if flat else 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _unfiltered(pixels: np.ndarray) -> np.ndarray:
    flat = pixels.reshape(pixels.shape[0], -1)
    rows = np.zeros(
        (flat.shape[0], flat.shape[1] + 1), np.uint8
    )  # a row begins with the number of its filter; 0 is none
    rows[:, 1:] = flat
    return rows


def _filtered(pixels: np.ndarray) -> np.ndarray:
    """Rows of differences to the pixel on the left or above, whichever are smaller: a photograph takes half the space."""
    left, above = np.zeros_like(pixels), np.zeros_like(pixels)
    left[:, 1:], above[1:] = pixels[:, :-1], pixels[:-1]
    mean = ((left.astype(np.uint16) + above) // 2).astype(np.uint8)
    choices = np.stack(
        [pixels - near for near in (np.zeros_like(pixels), left, above, mean)]
    )  # PNG's filters 0 to 3
    choices = choices.reshape(4, pixels.shape[0], -1)
    sizes = np.abs(choices.view(np.int8).astype(np.int16)).sum(axis=2)
    best = sizes.argmin(axis=0)
    return np.concatenate(
        [best.astype(np.uint8)[:, None], choices[best, np.arange(best.size)]], axis=1
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

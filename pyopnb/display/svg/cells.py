"""Numbers as cells in the colours of a scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyopnb.display.svg.colours import RGB, ColourScale, translucent
from pyopnb.display.svg.shapes import Cells

__all__ = ["SPECIAL", "cells"]

# So many of a palette's colours are used; PNG's 256 then have room for the special ones.
_SHADES = 246
SPECIAL: Mapping[str, RGB] = {"NaN": (213, 0, 127), "inf": (0, 121, 107), "-inf": (0, 77, 140)}
"""What is not finite has colours that no palette has."""

# The transparent colour comes after the special ones.
_BLANK = _SHADES + len(SPECIAL)


def cells(
    values: np.ndarray,
    scale: ColourScale,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    blank_zero: bool = False,
) -> Cells:
    """Draw numbers as cells in the colours of a scale; NaN and infinities have colours of their own.

    Parameters
    ----------
    values : ndarray
        float64[rows, columns].
    scale : ColourScale
    x, y, width, height : float
    blank_zero : bool
        Whether 0 is transparent instead of a colour of the scale.

    Returns
    -------
    Cells
    """
    colours = translucent(scale.kind)
    picked = np.linspace(0, len(colours) - 1, _SHADES).round().astype(int)
    shades = [colours[index] for index in picked]
    shades += [(*colour, 255) for colour in SPECIAL.values()]
    shades.append((0, 0, 0, 0))

    positions = np.nan_to_num(scale.positions(values), nan=0.0, posinf=1.0, neginf=0.0)
    indices = np.rint((_SHADES - 1) * np.clip(positions, 0, 1)).astype(np.uint8)
    special = (np.isnan(values), np.isposinf(values), np.isneginf(values))
    for number, hits in enumerate(special):
        indices[hits] = _SHADES + number
    if blank_zero:
        indices[values == 0] = _BLANK
    return Cells(x, y, width, height, indices, tuple(shades))

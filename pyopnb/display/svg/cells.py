"""Numbers as cells in the colours of a scale."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pyopnb.display.svg.colours import RGB, Scale, translucent
from pyopnb.display.svg.png import png
from pyopnb.display.svg.shapes import Cells

__all__ = ["SPECIAL", "cells", "cells_png"]

_SHADES = 246  # of a palette's colours; PNG's 256 have room for the special ones
SPECIAL: Mapping[str, RGB] = {"NaN": (213, 0, 127), "inf": (0, 121, 107), "-inf": (0, 77, 140)}
"""What is not finite has colours that no palette has."""

_INDEX = {name: _SHADES + number for number, name in enumerate([*SPECIAL, "0"])}


def cells(
    values: np.ndarray,
    scale: Scale,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    blank_zero: bool = False,
) -> Cells:
    """Numbers as cells in the colours of a scale; NaN and infinities have colours of their own.

    Parameters
    ----------
    values : ndarray
        float64[rows, columns].
    scale : Scale
    x, y, width, height : float
    blank_zero : bool
        Whether 0 is transparent instead of a colour of the scale.

    Returns
    -------
    Cells
    """
    colours = translucent(scale.kind)
    shades = tuple(colours[round(k * (len(colours) - 1) / (_SHADES - 1))] for k in range(_SHADES))
    indices = np.rint((_SHADES - 1) * _positions(values, scale)).astype(np.uint8)
    indices[np.isnan(values)] = _INDEX["NaN"]
    indices[np.isposinf(values)] = _INDEX["inf"]
    indices[np.isneginf(values)] = _INDEX["-inf"]
    if blank_zero:
        indices[values == 0] = _INDEX["0"]
    return Cells(
        x,
        y,
        width,
        height,
        indices,
        (*shades, *((*colour, 255) for colour in SPECIAL.values()), (0, 0, 0, 0)),
    )


def _positions(values: np.ndarray, scale: Scale) -> np.ndarray:
    """`Scale.position` of many numbers; those that are not finite get 0."""
    low, high = scale.low, scale.high
    with np.errstate(all="ignore"):
        if scale.log:
            low, high, values = math.log(low), math.log(high), np.log(np.maximum(values, low))
        if not low < high:
            return np.full(values.shape, 0.5 if scale.kind == "diverging" else 0.0)
        positions = (values / 2 - low / 2) / (high / 2 - low / 2)
    return np.clip(np.nan_to_num(positions, nan=0.0, posinf=0.0, neginf=0.0), 0, 1)


def cells_png(cells: Cells) -> bytes:
    """A PNG as large as the cells, because viewers blur a small picture when they enlarge it."""
    rows, columns = cells.pixels.shape[:2]
    down, across = max(1, round(cells.height / rows)), max(1, round(cells.width / columns))
    return png(cells.pixels.repeat(down, axis=0).repeat(across, axis=1), cells.colours)

"""matplotlib's figures, imported when the first is asked for, and made without pyplot: nothing global is touched."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.svg.to_matplotlib import to_figure
from pyopnb.errors import PyopError

__all__ = ["figure_of", "figure_png"]

# At this resolution a pixel of a drawing becomes two.
_DPI = 144
# A PNG stays below these, as matplotlib refuses sides of 65,536 pixels.
_LONGEST_SIDE, _MOST_PIXELS = 60_000, 150_000_000


def figure_of(drawing: Drawing) -> Any:
    """Make a figure that shows a drawing.

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    try:
        return to_figure(drawing)
    except ImportError as error:
        raise PyopError("plot needs matplotlib", next="pip install pyopnb[plot]") from error


def figure_png(drawing: Drawing) -> bytes:
    """Write a drawing as a PNG of twice its size, or smaller if that were too large.

    Raises
    ------
    PyopError
        matplotlib is not installed.
    """
    figure = figure_of(drawing)
    width, height = figure.get_size_inches()
    most_pixels = math.sqrt(_MOST_PIXELS / (width * height))
    dpi = min(float(_DPI), _LONGEST_SIDE / max(width, height), most_pixels)
    written = io.BytesIO()
    # A letter that no installed font has becomes a box.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(written, format="png", dpi=dpi)
    return written.getvalue()

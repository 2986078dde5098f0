"""The matplotlib ``Figure`` that a notebook shows; importing this imports matplotlib."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from matplotlib.figure import Figure

__all__ = ["ShownFigure"]

# At this resolution a pixel of a drawing becomes two.
_DPI = 144
# A PNG stays below these, as matplotlib refuses sides of 65,536 pixels.
_LONGEST_SIDE, _MOST_PIXELS = 60_000, 150_000_000


class ShownFigure(Figure):
    """A figure that is an image in a notebook, also where pyplot was never imported."""

    def png(self, **options: Any) -> bytes:
        """Write a PNG of twice the drawing's size, or smaller if that were too large."""
        width, height = self.get_size_inches()
        most_pixels = math.sqrt(_MOST_PIXELS / (width * height))
        dpi = min(float(_DPI), _LONGEST_SIDE / max(width, height), most_pixels)
        file = io.BytesIO()
        # A letter that no installed font has becomes a box.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            self.savefig(file, format="png", dpi=dpi, **options)
        return file.getvalue()

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        # Its letters are black, which a dark page would hide.
        image = self.png(facecolor="white")
        width, height = self.get_size_inches() * 72
        return image, {"width": round(width), "height": round(height)}

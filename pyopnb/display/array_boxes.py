"""Boxes on the picture that they are about."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyopnb.display.array_look import squeeze
from pyopnb.display.svg.chart import SMALL, Chart
from pyopnb.display.svg.shapes import Cells, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import text_width
from pyopnb.errors import InputError

__all__ = ["boxes_on", "has_boxes"]

_MOST = 100
# Seen on every picture: one is light and the other dark.
_OUTER, _INNER = "#ffffff", "#cc3311"


def has_boxes(value: np.ndarray) -> bool:
    """Tell whether the rows of an array can be boxes."""
    shape = squeeze(value).shape
    return value.dtype.kind in "iuf" and shape[-1] == 4 and len(shape) <= 2


def boxes_on(value: np.ndarray, chart: Chart, size: tuple[int, int], title: str) -> Chart:
    """Draw boxes on a picture.

    Parameters
    ----------
    value : ndarray
        The left, upper, right and lower side of each, in pixels, or as shares of the picture
        if none is beyond 1.
    chart : Chart
        Of the picture.
    size : (int, int)
        The rows and columns of the picture.
    """
    pictures = [shape for shape in chart.shapes if isinstance(shape, Cells)]
    if len(pictures) != 1:
        got = f"{len(pictures)} of them"
        raise InputError("show, picture", expected="one picture", got=got, next="picture=x[0]")
    boxes = squeeze(value).reshape(-1, 4).astype(np.float64)
    unit = "pixels"
    height, width = size
    if np.nanmax(np.abs(boxes), initial=0.0) <= 1:
        unit = "shares of the picture"
        height = width = 1
    scale = np.array([pictures[0].width / width, pictures[0].height / height] * 2)
    drawn = boxes[np.isfinite(boxes).all(axis=1)][:_MOST]
    shapes = [*chart.shapes, *_rectangles(drawn * scale, pictures[0])]
    caption = f"Boxes as left, top, right, bottom in {unit}."
    if len(drawn) < len(boxes):
        caption += f" {len(drawn):,} of {len(boxes):,}."
    return Chart(chart.width, chart.height, shapes, title, caption)


def _rectangles(corners: np.ndarray, picture: Cells) -> Iterator[Shape]:
    """Draw the part of each box that is on the picture, with its number."""
    for number, box in enumerate(corners):
        left, right = np.clip(box[[0, 2]], 0, picture.width).tolist()
        top, bottom = np.clip(box[[1, 3]], 0, picture.height).tolist()
        if left < right and top < bottom:
            place = (picture.x + left, picture.y + top, right - left, bottom - top)
            yield Rectangle(*place, stroke=_OUTER, stroke_width=3)
            yield Rectangle(*place, stroke=_INNER, stroke_width=1.5)
            text = str(number)
            badge = text_width(text, SMALL) + 4
            yield Rectangle(*place[:2], badge, SMALL + 2, _INNER)
            yield Text(place[0] + 2, place[1] + SMALL, text, SMALL, _OUTER)

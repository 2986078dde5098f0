"""A drawing by matplotlib: everything that the SVG has, in the same place."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.colors import ColorScale
from pyopnb.display.svg.graph import draw
from pyopnb.display.svg.shapes import Drawing, Text
from pyopnb.display.svg.to_matplotlib import figure_png, to_figure
from pyopnb.display.svg.to_svg import to_svg

GRAPH = BoxGraph(
    [
        Box("x", ("float32[N]",), "end", ("float32[N]",)),
        Box("Relu", ("one & <two>",), value=3.0, mark="added"),
        Box("own", kind="own", mark="fused"),
        Box("p $x^2$", kind="end"),
        Box("far", kind="far"),
        Box("far", kind="far"),
        Box("Loop", ("▸ body: 1 node",), "folded"),
    ],
    [
        Line(0, 1),
        Line(0, 2, mark="removed"),
        Line(1, 3),
        Line(2, 3),
        Line(3, 6),
        Line(4, 6),
        Line(5, 6),
    ],
)


def colors(drawn: Any) -> np.ndarray:
    written = io.BytesIO()
    drawn.savefig(written, format="png", dpi=72)
    with Image.open(written) as image:
        page = Image.new("RGBA", image.size, "white")
        return np.asarray(Image.alpha_composite(page, image.convert("RGBA")))


def test_every_text_is_where_the_svg_has_it() -> None:
    drawing = draw(replace(GRAPH, scale=ColorScale(1.0, 4.0), legend="µs"))
    drawn = to_figure(drawing)
    (axes,) = drawn.axes
    said = {one.get_text() for one in axes.texts}
    assert {
        "x",
        "Relu",
        "one & <two>",
        "+ added",
        "fused",
        "◆ own",
        "p $x^2$",
        "far",
        "▸ body: 1 node",
        "µs",
    } <= said
    assert (
        sorted(one.get_text() for one in axes.texts).count("far") == 2
    )  # written once in the SVG, and used twice
    wide, high = map(int, re.findall(r'width="(\d+)" height="(\d+)"', to_svg(drawing))[0])
    assert colors(drawn).shape == (high, wide, 4)
    assert all(
        0 <= one.get_position()[0] <= wide and 0 <= one.get_position()[1] <= high
        for one in axes.texts
    )


def test_spaces_alone_have_no_outline():
    assert figure_png(Drawing(20, 20, (Text(5, 10, "  ", 12.0, "#000000"),))).startswith(b"\x89PNG")

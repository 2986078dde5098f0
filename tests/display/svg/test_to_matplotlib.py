"""A drawing by matplotlib: everything that the SVG has, in the same place."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pyopnb.display.figures import figure_png
from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.chart import page
from pyopnb.display.svg.colours import ColourScale, palette
from pyopnb.display.svg.graph import draw
from pyopnb.display.svg.heat_map import heat_maps
from pyopnb.display.svg.line_chart import line_chart
from pyopnb.display.svg.shapes import Drawing, Text
from pyopnb.display.svg.to_matplotlib import to_figure
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


def colours(drawn: Any) -> np.ndarray:
    written = io.BytesIO()
    drawn.savefig(written, format="png", dpi=72)
    with Image.open(written) as image:
        page = Image.new("RGBA", image.size, "white")
        return np.asarray(Image.alpha_composite(page, image.convert("RGBA")))


def like(seen: np.ndarray, colour: str) -> np.ndarray:
    """Which pixels have a colour, ``#rrggbb`` or ``#rrggbbaa``, on white."""
    red, green, blue, *opacity = bytes.fromhex(colour[1:])
    wanted = 255 - (255 - np.array([red, green, blue])) * (opacity or [255])[0] / 255
    return (np.abs(seen[..., :3] - wanted) <= 2).all(-1)


def test_every_text_is_where_the_svg_has_it() -> None:
    drawing = draw(GRAPH, scale=ColourScale(1.0, 4.0), legend_title="µs")
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
    assert colours(drawn).shape == (high, wide, 4)
    assert all(
        0 <= one.get_position()[0] <= wide and 0 <= one.get_position()[1] <= high
        for one in axes.texts
    )


def test_a_box_has_the_pixels_that_the_svg_says() -> None:
    drawing = draw(BoxGraph([Box("MatMul", ("a row",), "own")], []))
    text, seen = to_svg(drawing), colours(to_figure(drawing))
    rows, columns = np.nonzero(like(seen, "#7a3ff21c"))
    x, y = map(float, re.findall(r"translate\(([\d.]+),([\d.]+)\)", text)[0])
    wide, high = map(float, re.findall(r'<rect width="([\d.]+)" height="([\d.]+)" rx="5"', text)[0])
    assert [columns.min(), columns.max(), rows.min(), rows.max()] == pytest.approx(
        [x + 1, x + wide - 2, y + 1, y + high - 2], abs=2.5
    )


def test_names_are_letters_and_nothing_else() -> None:
    names = ["<script>", "$\\frac{", "a\nb", "'\"&", "\u202e", "漢"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn = to_figure(draw(BoxGraph([Box(name) for name in names], [])))
        colours(drawn)
    assert {one.get_text() for one in drawn.axes[0].texts} >= {"<script>", "$\\frac{", "'\"&"}


def test_charts_have_their_cells_lines_and_texts() -> None:
    values = np.array([[0.0, 1.0], [2.0, np.nan]])
    charts = [
        heat_maps([values], [""], ColourScale(0.0, 2.0), "map", size=(32, 32)),
        line_chart([0, 1], {"few": [1, 2], "many": [2, 9]}, "lines", label="across"),
    ]
    drawing = page(charts, "charts")
    drawn = to_figure(drawing)
    (axes,) = drawn.axes
    said = [one.get_text() for one in axes.texts]
    assert {"map", "lines", "few", "many", "across", "NaN"} <= set(said)
    assert len(said) == to_svg(drawing).count("<text ")
    # The cells and the strip of their scale.
    assert len(axes.images) == to_svg(drawing).count("<image ") == 2
    seen = colours(drawn)
    left, top = 8, 8 + 22
    for row, column, colour in (
        (0, 1, palette()[127]),
        (1, 0, palette()[-1]),
        (1, 1, (213, 0, 127)),
    ):
        pixel = seen[top + 16 * row + 8, left + 16 * column + 8, :3].astype(int)
        assert np.abs(pixel - colour).max() <= 4


def test_spaces_alone_have_no_outline():
    assert figure_png(Drawing(20, 20, (Text(5, 10, "  ", 12.0, "#000000"),))).startswith(b"\x89PNG")

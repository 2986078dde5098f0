"""Pictures of graphs: XML for all texts, everything on the canvas, texts in their boxes, never too long."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.colors import LINE, scale_for
from pyopnb.display.svg.graph import draw, draw_within
from pyopnb.display.svg.to_svg import to_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script>]]>&\"\x00\x1b\u202e漢字" + "A" * 10_000


def svg(graph, plain=None, **options):
    return to_svg(draw(replace(graph, **options), plain=plain))


def texts(made):
    return [element.text for element in ET.fromstring(made).iter(f"{SVG}text")]


def placed(made):
    """The boxes as (left, top, width, height), wherever they are written."""
    tree = ET.fromstring(made)
    kept = {group.get("id"): group for group in tree.findall(f"{SVG}defs/{SVG}g")}
    for element in tree:
        if element.tag == f"{SVG}use":
            group, x, y = (
                kept[element.get("href")[1:]],
                float(element.get("x")),
                float(element.get("y")),
            )
        elif element.tag == f"{SVG}g" and element.get("transform"):
            group, (x, y) = element, map(float, re.findall(r"[-\d.]+", element.get("transform")))
        else:
            continue
        rect = group.findall(f"{SVG}rect")[0]
        yield group, x, y, float(rect.get("width")), float(rect.get("height"))


def size_of(made):
    tree = ET.fromstring(made)
    return float(tree.get("width")), float(tree.get("height"))


def chain(count, **more):
    return BoxGraph(
        [Box(f"n{n}", **more) for n in range(count)], [Line(n, n + 1) for n in range(count - 1)]
    )


labels = st.text(max_size=30) | st.just(HOSTILE)
boxes = st.builds(
    Box,
    labels,
    st.lists(labels, max_size=3).map(tuple),
    st.sampled_from(["node", "own", "end", "folded", "far", "wrong"]),
    st.lists(labels, max_size=4).map(tuple),
    st.none() | st.floats(),
    st.sampled_from(["", "added", "removed", "changed"]) | labels,
)


@st.composite
def graphs(draw):
    made = draw(st.lists(boxes, min_size=1, max_size=7))
    place = st.integers(0, len(made) - 1)
    lines = draw(
        st.lists(
            st.builds(Line, place, place, st.integers(0, 4), st.sampled_from(["", "added"])),
            max_size=12,
        )
    )
    return BoxGraph(made, [line for line in lines if line.source < line.target])


@settings(max_examples=50)
@given(graphs(), st.booleans())
def test_whatever_is_written_it_is_xml_on_its_canvas(graph, plain):
    made = svg(graph, scale=scale_for([0, 1]), legend=HOSTILE, plain=plain)
    wide, high = size_of(made)
    found = list(placed(made))
    assert len(found) == len(graph.boxes)
    for _, x, y, w, h in found:
        assert x >= 0 and x + w <= wide + 0.5 and y >= 0 and y + h <= high + 0.5
    assert all(len(text or "") < 500 and (text or "").isprintable() for text in texts(made))


def test_nothing_is_loaded_and_nothing_runs():
    made = svg(
        BoxGraph(
            [Box(HOSTILE, (HOSTILE,), mark=HOSTILE, labels=(HOSTILE,)), Box("b")],
            [Line(0, 1)],
        )
    )
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(made).iter()}
    assert tags <= {"svg", "style", "rect", "defs", "g", "use", "path", "text"}
    assert (
        "http" not in made.replace('xmlns="http://www.w3.org/2000/svg"', "")
        and "@import" not in made
    )


def test_lines_end_at_their_boxes():
    made = svg(BoxGraph([Box("a"), Box("b"), Box("c")], [Line(0, 1), Line(0, 2), Line(1, 2)]))
    spots = {group.find(f"{SVG}text").text: (x, y, w, h) for group, x, y, w, h in placed(made)}
    head = next(
        element for element in ET.fromstring(made).iter(f"{SVG}path") if element.get("fill") == LINE
    )
    ends = [(float(x), float(y)) for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)l", head.get("d"))]
    expected = {"b": 1, "c": 2}
    for name, count in expected.items():
        x, y, w, _ = spots[name]
        assert sum(x <= end <= x + w and abs(y - at) <= 1 for end, at in ends) == count
    assert len(ends) == 3


@pytest.mark.parametrize("count", [30, 700, 4000])
def test_a_picture_is_never_too_long(count):
    graph = BoxGraph(
        [Box(f"box {n}", ("a row", "b row"), labels=("float32[1,2,3]",)) for n in range(count)],
        chain(count).lines,
    )
    made = draw_within(graph, 40_000)
    assert len(made.svg.encode()) <= 40_000
    assert made.count > 20
    assert len(list(placed(svg(graph)))) == count
    assert (made.drawing.width, made.drawing.height) == size_of(made.svg)

"""Pictures of graphs: XML for all texts, everything on the canvas, texts in their boxes."""

import itertools
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.colors import LINE, scale_for
from pyopnb.display.svg.graph import draw
from pyopnb.display.svg.shapes import Group, Path
from pyopnb.display.svg.to_svg import to_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script>]]>&\"\x00\x1b\u202e漢字" + "A" * 10_000


def svg(graph, **options):
    return to_svg(draw(replace(graph, **options)))


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
@given(graphs())
def test_whatever_is_written_it_is_xml_on_its_canvas(graph):
    made = svg(graph, scale=scale_for([0, 1]), legend=HOSTILE)
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
    ends = [(float(x), float(y)) for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)L", head.get("d"))]
    expected = {"b": 1, "c": 2}
    for name, count in expected.items():
        x, y, w, _ = spots[name]
        assert sum(x <= end <= x + w and abs(y - at) <= 1 for end, at in ends) == count
    assert len(ends) == 3


@pytest.mark.parametrize("count", [30, 700, 4000])
def test_a_picture_of_a_chain_has_every_box(count):
    boxes = [Box(f"box {n}", ("a row",), labels=("float32[1,2,3]",)) for n in range(count)]
    assert len(list(placed(svg(BoxGraph(boxes, chain(count).lines))))) == count


def test_a_short_chain_goes_on_in_columns_that_fit_a_screen():
    boxes = [Box(f"box {n}", ("a row",), labels=("float32[1,2,3]",)) for n in range(20)]
    made = svg(BoxGraph(boxes, chain(20).lines))
    width, height = size_of(made)
    assert width < 900 and height < 700
    spots = [(x, y, x + w, y + h) for _, x, y, w, h in placed(made)]
    # Down one column, then down the next.
    breaks = [n for n in range(1, 20) if spots[n][1] < spots[n - 1][1]]
    assert breaks and all(spots[n][0] > spots[n - 1][2] for n in breaks)
    for a, b in itertools.combinations(spots, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    # Where more than one line leads on, it stays as it is.
    crossed = [*chain(20).lines, *(Line(n, n + 3) for n in range(17))]
    assert size_of(svg(BoxGraph(boxes, crossed)))[1] > 1_000


def test_boxes_of_a_large_graph_count_the_lines_from_far_above():
    chance = random.Random(0)
    lines = [*chain(600).lines]
    lines += [Line(chance.randrange(n - 1), n) for n in range(3, 600) for _ in range(3)]
    lines = list(dict.fromkeys(lines))
    drawing = draw(BoxGraph(chain(600).boxes, lines))
    counts = {
        shape.shapes[1].text: int(shape.shapes[2].text.split()[1])
        for shape in drawing.shapes
        if isinstance(shape, Group) and len(shape.shapes) > 2
    }
    assert sum(counts.values()) > 100
    heads = next(
        shape for shape in drawing.shapes if isinstance(shape, Path) and shape.fill == LINE
    )
    drawn = sum(command == "Z" for command, _ in heads.steps)
    assert drawn + sum(counts.values()) == len(lines)
    # The nearest are drawn, as is every line of a graph whose lines lead less far.
    assert "n599" in counts and "n1" not in counts
    few = svg(BoxGraph(chain(120).boxes, [line for line in lines if line.target < 120]))
    assert not any("far above" in text for text in texts(few))

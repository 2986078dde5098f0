"""Boxes do not overlap in any graph; edges begin and end at their boxes and pass through none."""

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyopnb.display.svg.boxes import Line
from pyopnb.display.svg.layout import Size, lay_out

sizes = st.builds(Size, st.integers(1, 200).map(float), st.integers(1, 90).map(float))


@st.composite
def graphs(draw):
    boxes = draw(st.lists(sizes, min_size=1, max_size=14))
    place = st.integers(0, len(boxes) - 1)
    pairs = draw(st.lists(st.tuples(place, place, st.integers(0, 2)), max_size=24))
    pairs = [(min(a, b), max(a, b), port) for a, b, port in pairs if a != b]
    return boxes, [Line(*pair) for pair in pairs]


def sides(layout, boxes, number):
    (x, y), size = layout.centers[number], boxes[number]
    return x - size.width / 2, y - size.height / 2, x + size.width / 2, y + size.height / 2


def overlaps(layout, boxes):
    found = []
    for one, other in combinations(range(len(boxes)), 2):
        a, b = sides(layout, boxes, one), sides(layout, boxes, other)
        if a[0] < b[2] - 1e-6 and b[0] < a[2] - 1e-6 and a[1] < b[3] - 1e-6 and b[1] < a[3] - 1e-6:
            found.append((one, other))
    return found


@settings(max_examples=120)
@given(graphs())
def test_boxes_stand_apart_and_edges_lead_down_past_them(graph):
    boxes, edges = graph
    layout = lay_out(boxes, edges)
    assert overlaps(layout, boxes) == []
    frames = [sides(layout, boxes, number) for number in range(len(boxes))]
    for left, upper, right, lower in frames:
        assert left >= -1e-6 and right <= layout.width + 1e-6
        assert upper >= -1e-6 and lower <= layout.height + 1e-6
    for edge, route in zip(edges, layout.routes, strict=True):
        source, target = frames[edge.source], frames[edge.target]
        assert route[0] == pytest.approx(((source[0] + source[2]) / 2, source[3]))
        assert route[-1] == pytest.approx(((target[0] + target[2]) / 2, target[1]))
        for x, y in route:
            assert -1e-6 <= x <= layout.width + 1e-6 and -1e-6 <= y <= layout.height + 1e-6
        for (x, upper), (end, lower) in pairwise(route):
            assert upper <= lower + 1e-6
            # What goes straight passes no box.
            for left, top, right, bottom in frames if x == end else ():
                beside = x <= left + 1e-6 or x >= right - 1e-6
                assert beside or upper >= bottom - 1e-6 or lower <= top + 1e-6


def test_long_lines_do_not_push_a_picture_apart():
    boxes = [Size(40, 20)] * 120
    chance = random.Random(3)
    layout = lay_out(
        boxes,
        [
            Line(chance.randrange(max(0, n - back), n), n)
            for n in range(1, 120)
            for back in (120, 15)
        ],
    )
    assert layout.width < 1500
    assert overlaps(layout, boxes) == []


def test_deep_and_wide_graphs_need_no_stack():
    boxes = [Size(10, 10)] * 5000
    assert lay_out(boxes, [Line(n, n + 1) for n in range(4999)]).height > 100_000

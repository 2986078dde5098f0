"""The shapes of a graph whose boxes and lines have their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from pyopnb.display.svg.colours import INK, LINE, Scale, text_colour
from pyopnb.display.svg.marks import BADGE, badge_text, badge_width, look_of_mark, plain_mark
from pyopnb.display.svg.placement import (
    LABEL,
    ROW,
    ROW_HEIGHT,
    STACK,
    TITLE,
    TITLE_HEIGHT,
    PlacedGraph,
    SizedBox,
)
from pyopnb.display.svg.shapes import Group, Path, PathStep, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit

__all__ = ["Artist"]

_Point = tuple[float, float]

_KINDS: dict[
    str, tuple[str, str, float, tuple[float, ...]]
] = {  # fill, pale on white and dark on black; border, its width, its dashes
    "node": ("#808a9412", LINE, 1, ()),
    "own": ("#7a3ff21c", "#7a3ff2", 2, ()),
    "end": ("#5f8ab51c", "#7b93ab", 1, ()),
    "folded": ("#b589001c", "#b58900", 1, ()),
    "opened": ("#808a940a", "#b58900", 1, ()),
    "far": ("none", LINE, 1, (3, 3)),
    "wrong": ("#c4302b1c", "#c4302b", 1.5, (4, 2)),
}


class Artist:
    """Draws graphs, and those inside their boxes, in four layers: boxes that contain graphs, lines, other boxes, labels."""

    def __init__(self, scale: Scale | None, plain: bool) -> None:
        self._scale, self._plain = scale, plain
        self._outer: list[Shape] = []
        self._boxes: list[Shape] = []
        self._labels: list[Shape] = []
        self._lines: dict[str, _Lines] = {}

    def draw(self, graph: PlacedGraph, x: float, y: float) -> Iterator[Shape]:
        """The shapes of a graph whose upper left corner is at x, y."""
        waiting = [(graph, x, y)]
        while waiting:
            current, left, top = waiting.pop()
            if current.title:
                title = fit(current.title, LABEL, max(60, current.width))
                self._draw_label(title, left + current.width / 2, top + 10)
                top += TITLE_HEIGHT
            left += (current.width - current.layout.width) / 2
            corners = [
                _corner(*placed, left, top)
                for placed in zip(current.boxes, current.layout.centres, strict=True)
            ]
            for box, (box_x, box_y) in zip(current.boxes, corners, strict=True):
                self._draw_box(box, box_x, box_y)
                inner_y = box_y + box.head_height
                for inner in box.inside:
                    waiting.append((inner, box_x + (box.width - inner.width) / 2, inner_y))
                    inner_y += inner.height + 10
            self._draw_lines(current, corners, left, top)
        yield from self._outer
        for lines in self._lines.values():
            yield from lines.shapes()
        yield from self._boxes
        yield from self._labels

    def _draw_box(self, box: SizedBox, x: float, y: float) -> None:
        (self._outer if box.inside else self._boxes).append(
            Group(x, y, tuple(self._box_shapes(box)), box.box.about, box.box.names)
        )
        for port, label in enumerate(box.labels):
            if label:
                self._draw_label(
                    label, x + box.width / 2 + box.port_offset(port), y + box.height + 11
                )

    def _draw_label(self, text: str, x: float, y: float) -> None:
        self._labels.append(Text(round(x), round(y), text, LABEL, INK, "middle"))

    def _box_shapes(self, sized: SizedBox) -> Iterator[Shape]:
        """The shapes of a box whose upper left corner is the origin."""
        box, width = sized.box, sized.width
        fill, border, thickness, dashes = _KINDS[box.kind]
        colour = INK
        if box.value is not None and self._scale:
            fill = self._scale.colour(box.value)
            colour = text_colour(fill)
        if box.mark:
            border, thickness = look_of_mark(box.mark)[0], 2
        radius = sized.height / 2 if box.kind == "end" else 5
        if box.kind == "folded":
            size = (width - STACK, sized.height - STACK)
            yield Rectangle(STACK, STACK, *size, fill, border, radius=radius)
        else:
            size = (width, sized.height)
        yield Rectangle(0, 0, *size, fill, border, thickness, dashes, radius)
        yield Text(
            (width - badge_width(box.mark)) / 2, 16, sized.title, TITLE, colour, "middle", bold=True
        )
        for number, row in enumerate(sized.rows):
            yield Text(
                width / 2, TITLE_HEIGHT + 10 + ROW_HEIGHT * number, row, ROW, colour, "middle"
            )
        if box.mark:
            badge = badge_width(box.mark) - 6
            yield Rectangle(width - badge - 4, 5, badge, 14, border, radius=7)
            yield Text(width - badge + 1, 15.2, badge_text(box.mark), BADGE, "#ffffff", bold=True)

    def _draw_lines(
        self, graph: PlacedGraph, corners: Sequence[_Point], left: float, top: float
    ) -> None:
        routes = [[(x + left, y + top) for x, y in route] for route in graph.layout.routes]
        incoming: dict[int, list[list[_Point]]] = {}
        for number, (line, route) in enumerate(zip(graph.lines, routes, strict=True)):
            if not route:
                continue
            incoming.setdefault(line.target, []).append(route)
            if not graph.layout.branches[number]:
                box, y = graph.boxes[line.source], corners[line.source][1]
                centre = (
                    graph.layout.centres[line.source][0] + left
                )  # not of the corner, whose rounding would make kinks
                _start_at_port(
                    route, centre + box.port_offset(line.port), y, y + box.line_start(line.port)
                )
        for target, arriving in incoming.items():
            _spread_ends(arriving, corners[target][0], graph.boxes[target].width)
        for line, route in zip(graph.lines, routes, strict=True):
            lines = self._lines.setdefault(line.mark, _Lines(line.mark, self._plain))
            if route:
                lines.add(route)
            else:
                box, (x, y) = graph.boxes[line.source], corners[line.source]
                lines.add_loop(round(x + box.width), round(y + box.height / 2))


def _corner(box: SizedBox, centre: _Point, left: float, top: float) -> _Point:
    return round(left + centre[0] - box.width / 2), round(top + centre[1] - box.size.height / 2)


def _start_at_port(route: list[_Point], x: float, upper: float, lower: float) -> None:
    """Let a line begin at its port: below the label there, or at the upper border if it closes a cycle."""
    upwards = route[0][1] > route[1][1]
    route[0] = (x, upper if upwards else lower)
    route[1] = (x, route[1][1])


def _spread_ends(routes: Sequence[list[_Point]], x: float, width: float) -> None:
    """Let lines end straight below where they come from as far as the box is that wide, and apart from each other."""
    low, high = x + min(10, width / 3), x + width - min(10, width / 3)
    distance = min(9.0, (high - low) / max(1, len(routes) - 1))
    arrivals = [route[-3][0] if len(route) > 2 else route[0][0] for route in routes]
    order = sorted(range(len(routes)), key=arrivals.__getitem__)
    ends: list[float] = []
    for number in order:
        wish = min(high, max(low, arrivals[number]))
        ends.append(max(wish, ends[-1] + distance) if ends else wish)
    limit = high
    for at in range(len(ends) - 1, -1, -1):
        ends[at] = min(ends[at], limit)
        limit = ends[at] - distance
    for number, end in zip(order, ends, strict=True):
        route = routes[number]
        route[-2:] = (end, route[-2][1]), (end, route[-1][1])


class _Lines:
    """All lines of one mark as one path, and their arrowheads as another."""

    def __init__(self, mark: str, plain: bool) -> None:
        self._mark, self._plain = mark, plain
        self._steps: list[PathStep] = []
        self._heads: dict[tuple[PathStep, ...], None] = {}
        self._drawn: set[tuple[_Point, _Point]] = set()

    def add(self, route: Iterable[_Point]) -> None:
        """A line along these points, straight down and in curves across; what another line has drawn already is left out."""
        points = [(round(x), round(y)) for x, y in route]
        steps = self._steps
        down = lifted = True
        for a, b in pairwise(points):
            if a == b:
                continue
            if (a, b) in self._drawn:
                lifted = True
                continue
            self._drawn.add((a, b))
            if lifted:
                steps.append(("M", a))
            if a[0] != b[0]:
                middle = a[1] + round((b[1] - a[1]) / 2)
                steps.append(("C", (a[0], middle, b[0], middle, *b)))
            elif down and not lifted:
                steps[-1] = ("L", b)
            else:
                steps.append(("L", b))
            down, lifted = a[0] == b[0], False
        (_, before), (x, y) = points[-2:]
        if (
            before > y or not self._plain
        ):  # of thousands of lines, only those that go up need a head
            back = y + 6 if before > y else y - 6
            self._heads[("M", (x, y)), ("L", (x - 3, back)), ("L", (x + 3, back)), ("Z", ())] = None

    def add_loop(self, x: float, y: float) -> None:
        """A line from the right side of a box back to it."""
        corners = ((x, y - 4), (x + 7, y - 4), (x + 7, y + 4), (x, y + 4))
        self._steps += [("L" if number else "M", corner) for number, corner in enumerate(corners)]
        self._heads[("M", (x, y + 4)), ("L", (x + 6, y + 1)), ("L", (x + 6, y + 7)), ("Z", ())] = (
            None
        )

    def shapes(self) -> Iterator[Path]:
        """The lines, and their arrowheads."""
        colour, thickness = (look_of_mark(self._mark)[0], 2.0) if self._mark else (LINE, 1.2)
        dashes = (5.0, 3.0) if plain_mark(self._mark) == "removed" else ()
        yield Path(tuple(self._steps), "none", colour, thickness, dashes)
        yield Path(tuple(step for head in self._heads for step in head), colour)

"""The shapes of a graph whose boxes and lines have their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pyopnb.display.svg.colours import INK, LINE, ColourScale, text_colour
from pyopnb.display.svg.marks import BADGE, badge_text, badge_width, mark_colour, plain_mark
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

__all__ = ["Artist"]

_Point = tuple[float, float]

# Of each kind of box: fill, pale on white and dark on black; border, its width, its dashes.
_KINDS: dict[str, tuple[str, str, float, tuple[float, ...]]] = {
    "node": ("#808a9412", LINE, 1, ()),
    "own": ("#7a3ff21c", "#7a3ff2", 2, ()),
    "end": ("#5f8ab51c", "#7b93ab", 1, ()),
    "folded": ("#b589001c", "#b58900", 1, ()),
    "far": ("none", LINE, 1, (3, 3)),
    "wrong": ("#c4302b1c", "#c4302b", 1.5, (4, 2)),
}
# A label stands this many pixels below its box.
_LABEL_BASELINE = 11
# Lines that end at one box are this many pixels apart, if there is room.
_LINE_ENDS = 9.0
# An arrowhead is this many pixels long.
_HEAD = 6


class Artist:
    """Draws a graph in three layers: lines, boxes, labels."""

    def __init__(self, scale: ColourScale | None, plain: bool) -> None:
        self._scale, self._plain = scale, plain
        self._boxes: list[Shape] = []
        self._labels: list[Shape] = []
        self._lines: dict[str, _Lines] = {}

    def draw(self, graph: PlacedGraph, left: float, top: float) -> Iterator[Shape]:
        """Draw a graph whose upper left corner is at left, top."""
        corners = []
        for box, centre in zip(graph.boxes, graph.layout.centres, strict=True):
            # Whole pixels, so that borders are sharp.
            x = round(left + centre[0] - box.width / 2)
            y = round(top + centre[1] - box.size.height / 2)
            corners.append((x, y))
            shapes = tuple(self._box_shapes(box))
            self._boxes.append(Group(x, y, shapes, box.box.about, box.box.names))
            for port, label in enumerate(box.labels):
                if label:
                    middle = x + box.width / 2 + box.port_offset(port)
                    self._draw_label(label, middle, y + box.height + _LABEL_BASELINE)
        self._draw_lines(graph, corners, left, top)
        for lines in self._lines.values():
            yield from lines.shapes()
        yield from self._boxes
        yield from self._labels

    def _draw_label(self, text: str, x: float, y: float) -> None:
        self._labels.append(Text(round(x), round(y), text, LABEL, INK, "middle"))

    def _box_shapes(self, sized: SizedBox) -> Iterator[Shape]:
        """Draw a box whose upper left corner is the origin."""
        box, width, height = sized.box, sized.width, sized.height
        fill, border, thickness, dashes = _KINDS[box.kind]
        colour = INK
        if box.value is not None and self._scale:
            fill = self._scale.colour(box.value)
            colour = text_colour(fill)
        if box.mark:
            border = mark_colour(box.mark)
            thickness = 2
        radius = height / 2 if box.kind == "end" else 5
        if box.kind == "folded":
            # A second sheet stands out behind the first.
            width -= STACK
            height -= STACK
            yield Rectangle(STACK, STACK, width, height, fill, border, radius=radius)
        yield Rectangle(0, 0, width, height, fill, border, thickness, dashes, radius)
        badge = badge_width(box.mark)
        middle = (sized.width - badge) / 2
        yield Text(middle, 16, sized.title, TITLE, colour, "middle", bold=True)
        y = TITLE_HEIGHT + 10
        for row in sized.rows:
            yield Text(sized.width / 2, y, row, ROW, colour, "middle")
            y += ROW_HEIGHT
        if box.mark:
            x = sized.width - badge + 2
            yield Rectangle(x, 5, badge - 6, 14, border, radius=7)
            yield Text(x + 5, 15.2, badge_text(box.mark), BADGE, "#ffffff", bold=True)

    def _draw_lines(
        self, graph: PlacedGraph, corners: Sequence[_Point], left: float, top: float
    ) -> None:
        """Draw the lines of a graph, each from its port to its place on the border of the box where it ends."""
        routes: list[list[_Point]] = []
        incoming: dict[int, list[list[_Point]]] = {}
        for number, line in enumerate(graph.lines):
            route = [(x + left, y + top) for x, y in graph.layout.routes[number]]
            routes.append(route)
            incoming.setdefault(line.target, []).append(route)
            box = graph.boxes[line.source]
            # From the centre and not the corner, whose rounding would make kinks.
            x = graph.layout.centres[line.source][0] + left + box.port_offset(line.port)
            route[0] = (x, corners[line.source][1] + box.line_start(line.port))
            route[1] = (x, route[1][1])
        for target, arriving in incoming.items():
            _spread_ends(arriving, corners[target][0], graph.boxes[target].width)
        for line, route in zip(graph.lines, routes, strict=True):
            if line.mark not in self._lines:
                self._lines[line.mark] = _Lines(line.mark, self._plain)
            self._lines[line.mark].add(route)


def _spread_ends(routes: Sequence[list[_Point]], x: float, width: float) -> None:
    """Let lines end straight below where they come from as far as the box is that wide, and apart from each other."""
    margin = min(10, width / 3)
    ordered = sorted(routes, key=_arrival)
    distance = min(_LINE_ENDS, (width - 2 * margin) / max(1, len(routes) - 1))
    for number, route in enumerate(ordered):
        # Each leaves room for those on its left and right.
        low = x + margin + number * distance
        high = x + width - margin - (len(routes) - 1 - number) * distance
        end = max(low, min(high, _arrival(route)))
        route[-2] = (end, route[-2][1])
        route[-1] = (end, route[-1][1])


def _arrival(route: list[_Point]) -> float:
    """Return the x from which a line comes to its last layer."""
    return route[-3][0]


class _Lines:
    """All lines of one mark as one path, and their arrowheads as another."""

    def __init__(self, mark: str, plain: bool) -> None:
        self._mark, self._plain = mark, plain
        # A dict in place of a set, as pieces that follow one another make one path.
        self._pieces: dict[tuple[_Point, _Point], None] = {}
        self._heads: list[PathStep] = []
        self._ends: set[_Point] = set()

    def add(self, route: Sequence[_Point]) -> None:
        """Draw a line along these points; what another line has drawn is left out."""
        points = [(round(x), round(y)) for x, y in route]
        self._pieces.update(dict.fromkeys(pairwise(points)))
        # Thousands of lines are read without heads, as all of them lead down.
        if not self._plain:
            self._add_head(points[-1])

    def _add_head(self, end: _Point) -> None:
        """Draw an arrowhead, once where several lines end."""
        if end in self._ends:
            return
        self._ends.add(end)
        x = end[0]
        back = end[1] - _HEAD
        self._heads.append(("M", end))
        self._heads.append(("L", (x - 3, back)))
        self._heads.append(("L", (x + 3, back)))
        self._heads.append(("Z", ()))

    def _steps(self) -> Iterator[PathStep]:
        """Draw the pieces straight down, and in curves across."""
        end = None
        for a, b in self._pieces:
            if a == b:
                continue
            if a != end:
                yield "M", a
            if a[0] == b[0]:
                yield "L", b
            else:
                # A curve that leaves and arrives upright.
                middle = a[1] + round((b[1] - a[1]) / 2)
                yield "C", (a[0], middle, b[0], middle, *b)
            end = b

    def shapes(self) -> Iterator[Path]:
        """Return the lines, and their arrowheads."""
        colour, thickness = LINE, 1.2
        if self._mark:
            colour = mark_colour(self._mark)
            thickness = 2.0
        dashes = (5.0, 3.0) if plain_mark(self._mark) == "removed" else ()
        yield Path(tuple(self._steps()), "none", colour, thickness, dashes)
        yield Path(tuple(self._heads), colour)

"""A layered graph as a drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from pyopnb.common import plural
from pyopnb.display.svg.boxes import Box, BoxGraph, Line, mark_look, plain_mark
from pyopnb.display.svg.chart import SMALL, scale_strip, small_text
from pyopnb.display.svg.colors import INK, LINE, ColorScale, text_color
from pyopnb.display.svg.layout import Layout, Point, Size, far_edges, in_columns, lay_out
from pyopnb.display.svg.shapes import Drawing, Group, Path, PathStep, Rectangle, Shape, Text
from pyopnb.display.svg.text_width import fit, text_width

__all__ = ["draw"]

_MARGIN = 16
_LEGEND_HEIGHT, _LEGEND_WIDTH = 44, 180

# Font sizes.
_TITLE, _ROW, _LABEL, _BADGE = 12, 10, 9.5, 9
_TITLE_HEIGHT, _ROW_HEIGHT, _LABEL_HEIGHT = 18, 13, 14
# Pixels by which the sheet behind a folded box protrudes.
_SHEET = 3
# Longer texts in a box, below it, and in a badge are cut to these widths in pixels.
_WIDEST, _WIDEST_LABEL, _WIDEST_BADGE = 210, 170, 90
_PADDING = 9
_MOST_LABELS = 3
# A label is this many pixels below its box.
_LABEL_BASELINE = 11
# Lines that end at one box are this many pixels apart, if there is room.
_LINE_ENDS = 9.0
# An arrowhead is this many pixels long.
_HEAD = 6

# Of each kind of box: fill, pale on white and dark on black; border, its width, its dashes.
_KINDS: dict[str, tuple[str, str, float, tuple[float, ...]]] = {
    "node": ("#808a9412", LINE, 1, ()),
    "own": ("#7a3ff21c", "#7a3ff2", 2, ()),
    "end": ("#5f8ab51c", "#7b93ab", 1, ()),
    "folded": ("#b589001c", "#b58900", 1, ()),
    "far": ("none", LINE, 1, (3, 3)),
    "wrong": ("#c4302b1c", "#c4302b", 1.5, (4, 2)),
}


def draw(graph: BoxGraph) -> Drawing:
    """Draw a graph, without its longest lines if these would take too long."""
    far = far_edges(len(graph.boxes), graph.lines)
    lines = [line for line in graph.lines if line not in far]
    boxes = [_SizedBox(box) for box in _with_remarks(graph.boxes, far)]
    layout = in_columns(lay_out([box.size for box in boxes], lines, far))

    shapes: list[Shape] = []
    width = layout.width + 2 * _MARGIN
    top = _MARGIN
    if graph.scale:
        shapes.append(small_text(_MARGIN, 19, fit(graph.legend, SMALL, _LEGEND_WIDTH)))
        shapes += scale_strip(graph.scale, _MARGIN, 23, _LEGEND_WIDTH)
        width = max(width, _LEGEND_WIDTH + 2 * _MARGIN)
        top += _LEGEND_HEIGHT
    for box, (x, y) in zip(boxes, layout.centers, strict=True):
        # Whole pixels, so that borders are sharp.
        box.x = round(_MARGIN + x - box.width / 2)
        box.y = round(top + y - box.size.height / 2)
    shapes += _line_shapes(boxes, lines, layout, top)
    for box in boxes:
        shapes.append(
            Group(box.x, box.y, tuple(box.shapes(graph.scale)), box.box.about, box.box.names)
        )
    for box in boxes:
        shapes += box.label_shapes()
    height = layout.height + top + _MARGIN
    return Drawing(round(width), round(height), tuple(shapes))


# ---- boxes


class _SizedBox:
    """A box with its size and corner, and its texts cut to their space.

    The size includes the labels below the box.
    """

    def __init__(self, box: Box) -> None:
        self.box = box
        self.x = self.y = 0
        # The sign says without colors that an op of the registry runs here.
        title = box.title
        if box.kind == "own":
            title = f"◆ {box.title}"
        self.title = fit(title, _TITLE, _WIDEST, bold=True)
        self.rows = [fit(row, _ROW, _WIDEST) for row in box.rows]
        self.labels: list[str] = []
        if any(box.labels) and len(box.labels) <= _MOST_LABELS:
            self.labels = [fit(label, _LABEL, _WIDEST_LABEL) for label in box.labels]
        self._mark_color, badge = mark_look(box.mark)
        self._badge = fit(badge, _BADGE, _WIDEST_BADGE, bold=True)
        self._badge_width = 0.0
        if badge:
            self._badge_width = text_width(self._badge, _BADGE, bold=True) + 16

        widths = [text_width(row, _ROW) for row in self.rows]
        widths.append(text_width(self.title, _TITLE, bold=True) + self._badge_width)
        # The ends of a pill are round.
        padding = _PADDING
        if box.kind == "end":
            padding = _PADDING + 5
        self.width = max(34.0, max(widths) + 2 * padding)
        self.height = _TITLE_HEIGHT + _ROW_HEIGHT * len(self.rows) + 6
        if box.kind == "folded":
            self.height += _SHEET
        self._label_widths = [text_width(label, _LABEL) + 10 for label in self.labels]
        height = self.height
        if self.labels:
            height += _LABEL_HEIGHT
        self.size = Size(max(self.width, sum(self._label_widths)), height)

    def port_offset(self, port: int) -> float:
        """Return how far right of the center a port's lines begin: below its label's middle."""
        widths = self._label_widths
        if port >= len(widths):
            return 0.0
        return sum(widths[:port]) + widths[port] / 2 - sum(widths) / 2

    def line_start(self, port: int) -> float:
        """Return where the lines of a port begin: below its label."""
        start = self.y + self.height
        if port < len(self.labels) and self.labels[port]:
            start += _LABEL_HEIGHT
        return start

    def label_shapes(self) -> Iterator[Text]:
        """Write the labels below the box."""
        y = round(self.y + self.height + _LABEL_BASELINE)
        for port, label in enumerate(self.labels):
            if label:
                x = round(self.x + self.width / 2 + self.port_offset(port))
                yield Text(x, y, label, _LABEL, INK, "middle")

    def shapes(self, scale: ColorScale | None) -> Iterator[Shape]:
        """Draw the box with its upper left corner as the origin."""
        box, width, height = self.box, self.width, self.height
        fill, border, thickness, dashes = _KINDS[box.kind]
        color = INK
        if box.value is not None and scale:
            fill = scale.color(box.value)
            color = text_color(fill)
        if box.mark:
            border = self._mark_color
            thickness = 2
        radius = 5.0
        if box.kind == "end":
            radius = height / 2
        if box.kind == "folded":
            # A second sheet protrudes behind the first.
            width -= _SHEET
            height -= _SHEET
            yield Rectangle(_SHEET, _SHEET, width, height, fill, border, radius=radius)
        yield Rectangle(0, 0, width, height, fill, border, thickness, dashes, radius)
        middle = (self.width - self._badge_width) / 2
        yield Text(middle, 16, self.title, _TITLE, color, "middle", bold=True)
        y = _TITLE_HEIGHT + 10
        for row in self.rows:
            yield Text(self.width / 2, y, row, _ROW, color, "middle")
            y += _ROW_HEIGHT
        if box.mark:
            x = self.width - self._badge_width + 2
            yield Rectangle(x, 5, self._badge_width - 6, 14, border, radius=7)
            yield Text(x + 5, 15.2, self._badge, _BADGE, "#ffffff", bold=True)


# ---- lines


def _with_remarks(boxes: Sequence[Box], far: Iterable[Line]) -> Iterator[Box]:
    """Add a row to each box at which lines end that are not drawn."""
    counts = Counter([line.target for line in far])
    for number, box in enumerate(boxes):
        if number in counts:
            row = f"+ {plural(counts[number], 'line')} from far above"
            box = replace(box, rows=(*box.rows, row))
        yield box


def _line_shapes(
    boxes: Sequence[_SizedBox], lines: Sequence[Line], layout: Layout, top: float
) -> Iterator[Shape]:
    """Draw the lines of a graph, all of one mark as one path, and their arrowheads as another."""
    routes: list[list[Point]] = []
    incoming: dict[int, list[list[Point]]] = {}
    for line, points in zip(lines, layout.routes, strict=True):
        route = [(x + _MARGIN, y + top) for x, y in points]
        routes.append(route)
        incoming.setdefault(line.target, []).append(route)
        box = boxes[line.source]
        # From the center and not the corner, whose rounding would make kinks.
        x = layout.centers[line.source][0] + _MARGIN + box.port_offset(line.port)
        route[0] = (x, box.line_start(line.port))
        route[1] = (x, route[1][1])
    for target, arriving in incoming.items():
        _spread_ends(arriving, boxes[target])

    # Dicts in place of sets, as consecutive pieces make one path; a part that lines
    # share is drawn once.
    pieces: dict[str, dict[tuple[Point, Point], None]] = {}
    heads: dict[str, dict[Point, None]] = {}
    for line, route in zip(lines, routes, strict=True):
        rounded = [(round(x), round(y)) for x, y in route]
        pieces.setdefault(line.mark, {}).update(dict.fromkeys(pairwise(rounded)))
        heads.setdefault(line.mark, {})[rounded[-1]] = None
    for mark, drawn in pieces.items():
        color, thickness = LINE, 1.2
        if mark:
            color, thickness = mark_look(mark)[0], 2.0
        dashes: tuple[float, ...] = ()
        if plain_mark(mark) == "removed":
            dashes = (5.0, 3.0)
        yield Path(tuple(_curves(drawn)), "none", color, thickness, dashes)
        yield Path(tuple(_arrowheads(heads[mark])), color)


def _spread_ends(routes: Sequence[list[Point]], box: _SizedBox) -> None:
    """Let lines end straight below their sources as far as the box is that wide, and apart."""
    margin = min(10, box.width / 3)
    distance = min(_LINE_ENDS, (box.width - 2 * margin) / max(1, len(routes) - 1))
    # The third last point is where a line comes to its last layer.
    for number, route in enumerate(sorted(routes, key=lambda route: route[-3][0])):
        # Each leaves room for its neighbors on the left and right.
        low = box.x + margin + number * distance
        high = box.x + box.width - margin - (len(routes) - 1 - number) * distance
        end = max(low, min(high, route[-3][0]))
        route[-2] = (end, route[-2][1])
        route[-1] = (end, route[-1][1])


def _curves(pieces: dict[tuple[Point, Point], None]) -> Iterator[PathStep]:
    """Draw the pieces of lines straight down, and in curves across."""
    end = None
    for a, b in pieces:
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


def _arrowheads(ends: dict[Point, None]) -> Iterator[PathStep]:
    for x, y in ends:
        yield "M", (x, y)
        yield "L", (x - 3, y - _HEAD)
        yield "L", (x + 3, y - _HEAD)
        yield "Z", ()

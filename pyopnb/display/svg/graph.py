"""A layered graph as a drawing: boxes with a title and a few rows, lines with labels, graphs inside boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyopnb.display.svg.chart import legend
from pyopnb.display.svg.colours import INK, LINE, Scale, text_colour
from pyopnb.display.svg.layout import Edge, Layout, Size, edges_to_cut, lay_out
from pyopnb.display.svg.shapes import Drawing, Group, Path, Rectangle, Shape, Step, Text, drawing
from pyopnb.display.svg.text_width import fit, text_width
from pyopnb.display.svg.to_svg import to_svg

__all__ = ["Box", "Graph", "Line", "Picture", "draw", "draw_within", "mark_colour", "plain_mark"]

_Point = tuple[float, float]

_TITLE, _ROW, _LABEL, _BADGE = 12, 10, 9.5, 9  # font sizes
_ROW_HEIGHT, _TITLE_HEIGHT, _LABEL_HEIGHT = 13, 18, 14
_WIDEST = 210  # pixels of a text in a box
_PADDING = 9
_MARGIN = 16
_LEGEND_HEIGHT, _LEGEND_WIDTH = 44, 180
_STACK = 3  # pixels by which the sheet behind a folded box stands out
_LEGEND_BYTES = 2_200
_PLAIN_FROM = 800  # boxes from which on rows and labels are left out: they take space, and nobody reads them
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
_MARKS = {"added": ("#1a7f37", "+"), "removed": ("#c4302b", "−"), "changed": ("#9a6700", "~")}  # colour and sign
_SIGNS = {"+": "added", "-": "removed"}  # the first letter of a mark that is drawn like these
_OTHER_MARK = ("#44546a", "")


@dataclass(frozen=True)
class Box:
    """One box of a picture.

    Attributes
    ----------
    title : str
    rows : tuple of str
        Small text below the title.
    kind : str
        ``node``; ``own``, with a heavy border and a sign; ``end``, a pill; ``folded`` or ``opened``, which contains a graph;
        ``far``, a placeholder for something elsewhere; ``wrong``.
    labels : tuple of str
        The labels of the lines that leave it, by port.
    value : float, optional
        A number that the picture's scale turns into the colour of the box.
    mark : str
        A badge: ``added``, ``removed``, ``changed``, or any short text; one with a sign, as ``+fused`` and ``-fused``, is drawn
        like ``added`` or ``removed``.
    inside : tuple of Graph
        Graphs that are drawn inside the box.
    about : str
        Everything else that there is to say, line by line, for who points at the box.
    names : tuple of str
        What the box stands for, by which tables refer to it.
    """

    title: str
    rows: tuple[str, ...] = ()
    kind: str = "node"
    labels: tuple[str, ...] = ()
    value: float | None = None
    mark: str = ""
    inside: tuple[Graph, ...] = ()
    about: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """From a port of one box to another box, by their indices; ``mark`` as of a box, shown by colour and dashes."""

    source: int
    target: int
    port: int = 0
    mark: str = ""


@dataclass(frozen=True)
class Graph:
    """Boxes in reading order, and the lines between them."""

    boxes: Sequence[Box]
    lines: Sequence[Line]
    title: str = ""

    def part(self, most: int, around: int = 0) -> Graph:
        """At most ``most`` boxes, among them that of index ``around``; those before and after become one placeholder each."""
        count = len(self.boxes)
        if count <= most:
            return self
        begin = max(0, min(around - most // 2, count - most))
        end = begin + most
        boxes = list(self.boxes[begin:end])
        if begin:
            boxes.insert(0, Box(f"… {begin:,} boxes before", kind="far"))
        if end < count:
            boxes.append(Box(f"… {count - end:,} more boxes", kind="far"))
        first, last = bool(begin), len(boxes) - 1

        def index(old: int) -> int:
            return 0 if old < begin else last if old >= end else old - begin + first

        placeholders = ({0} if begin else set()) | ({last} if end < count else set())
        lines = set()
        for line in self.lines:
            source, target = index(line.source), index(line.target)
            if source != target and not {source, target} <= placeholders:
                lines.add(Line(source, target, 0 if source in placeholders else line.port, line.mark))
        ordered = sorted(lines, key=lambda line: (line.source, line.port, line.target, line.mark))
        boxes = [replace(box, labels=()) if number in placeholders else box for number, box in enumerate(boxes)]
        return Graph(boxes, ordered, self.title)


@dataclass(frozen=True)
class Picture:
    """The SVG of a graph, or of a part of it.

    Attributes
    ----------
    svg : str
    drawing : Drawing
        What the SVG shows.
    count : int
        Boxes of the graph that are in it.
    """

    svg: str
    drawing: Drawing
    count: int


def draw_within(graph: Graph, most: int, *, scale: Scale | None = None, legend_title: str = "", around: int = 0) -> Picture:
    """An SVG of at most so many bytes.

    Rows and labels are dropped first, then the boxes far from that of index ``around``.

    Parameters
    ----------
    graph : Graph
    most : int
        Bytes.
    scale, legend_title
        As of `draw`.
    around : int

    Returns
    -------
    Picture
    """
    count, plain = len(graph.boxes), len(graph.boxes) > _PLAIN_FROM
    longer = 1.02  # times its estimate, that an SVG may have: layouts are too expensive to try many
    while True:
        count, plain, estimate = _estimated_to_fit(graph, most / longer, around, scale, (count, plain))
        drawing = draw(graph.part(count, around), scale=scale, legend_title=legend_title, plain=plain)
        svg = to_svg(drawing, titles=False)
        length = len(svg.encode())
        if length <= most or (count <= 1 and plain):
            return Picture(svg, drawing, count)
        longer = max(1.02 * length / estimate, longer)
        count, plain = _smaller(count, plain, length, most)


def _smaller(count: int, plain: bool, length: float, most: float) -> tuple[int, bool]:
    """How many boxes to try next, and whether without rows, after so many took ``length`` bytes."""
    if not plain and length < 3 * most:
        return count, True
    count = max(1, min(count - 1, int(count * 0.97 * most / length)))
    return count, count > _PLAIN_FROM or count == 1


def _estimated_to_fit(
    graph: Graph, most: float, around: int, scale: Scale | None, largest: tuple[int, bool]
) -> tuple[int, bool, int]:
    """How many boxes, whether without rows, and the bytes that these take; at most as many as ``largest``."""
    count, plain = largest
    while True:
        length = _estimated_bytes(graph.part(count, around), plain, scale)
        if length <= most or (count <= 1 and plain):
            return count, plain, length
        count, plain = _smaller(count, plain, length, most)


def _estimated_bytes(graph: Graph, plain: bool, scale: Scale | None) -> int:
    """About the length of the SVG; the figures are means over networks."""
    length = 500 + (_LEGEND_BYTES if scale else 0)
    drawn: set[object] = set()
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        length += (18 if plain else 39) * len(current.lines)
        for box in current.boxes:
            rows = box.rows if not plain or box.kind in ("end", "folded") else ()
            length += 36 if plain else 36 + sum([40 + len(label) for label in box.labels if label])
            fill = scale.colour(box.value) if scale and box.value is not None else None
            look = box.title, rows, box.kind, fill, box.mark
            if look not in drawn:  # what looks alike is written once
                drawn.add(look)
                length += 130 + len(box.title) + sum([42 + min(40, len(row)) for row in rows]) + 190 * bool(box.mark)
            waiting += box.inside
    return length


def draw(graph: Graph, *, scale: Scale | None = None, legend_title: str = "", plain: bool | None = None) -> Drawing:
    """A graph as a drawing.

    Parameters
    ----------
    graph : Graph
    scale : Scale, optional
        Turns the boxes' values into colours; its legend becomes part of the picture.
    legend_title : str
        What the values are.
    plain : bool, optional
        Without rows and labels. By default so for more than 800 boxes.

    Returns
    -------
    Drawing
    """
    plain = len(graph.boxes) > _PLAIN_FROM if plain is None else plain
    placed = _place(graph, plain)
    top = _MARGIN + (_LEGEND_HEIGHT if scale else 0)
    shapes = list(_Artist(scale, plain).draw(placed, _MARGIN, top))
    width, height = placed.width + 2 * _MARGIN, placed.height + top + _MARGIN
    if scale:
        shapes += legend(scale, legend_title, _MARGIN, 10, _LEGEND_WIDTH)
        width = max(width, _LEGEND_WIDTH + 2 * _MARGIN)
    return drawing(width, height, shapes)


# ---- sizes


class _SizedBox:
    """A box with its texts cut to their space, and its size, to which the labels below it belong."""

    def __init__(self, box: Box, plain: bool, inside: list[_PlacedGraph]) -> None:
        self.box, self.inside = box, inside
        self.title = fit(f"◆ {box.title}" if box.kind == "own" else box.title, _TITLE, _WIDEST, bold=True)
        rows = box.rows if not plain or box.kind in ("end", "folded") else ()
        self.rows = [fit(row, _ROW, _WIDEST) for row in rows]
        labels = [] if plain or len(box.labels) > 3 else [fit(label, _LABEL, 170) for label in box.labels]
        self.labels = labels if any(labels) else []
        self._label_widths = [text_width(label, _LABEL) + 10 for label in self.labels]
        widths = [text_width(self.title, _TITLE, bold=True) + _badge_width(box.mark)]
        widths += [text_width(row, _ROW) for row in self.rows]
        widths += [graph.width for graph in inside]
        padding = _PADDING + (5 if box.kind == "end" else 0)
        self.width = max(34.0, max(widths) + 2 * padding)
        self.height = self.head_height + sum(graph.height + 10 for graph in inside) + (_STACK if box.kind == "folded" else 0)
        below = _LABEL_HEIGHT if self.labels else 0
        self.size = Size(max(self.width, sum(self._label_widths)), self.height + below)

    @property
    def head_height(self) -> float:
        """Of the title and the rows, above the graphs inside."""
        return _TITLE_HEIGHT + _ROW_HEIGHT * len(self.rows) + 6

    def port_offset(self, port: int) -> float:
        """How far right of the centre the lines of a port begin."""
        if self.labels:
            widths = self._label_widths
            return sum(widths[:port]) + widths[min(port, len(widths) - 1)] / 2 - sum(widths) / 2
        count = max(1, len(self.box.labels))
        return (min(port, count - 1) - (count - 1) / 2) * min(16.0, (self.width - 16) / count)

    def line_start(self, port: int) -> float:
        """How far below the upper border the lines of a port begin: below its label."""
        return self.height + (_LABEL_HEIGHT if port < len(self.labels) and self.labels[port] else 0)


@dataclass(slots=True)
class _PlacedGraph:
    """A graph with the places of all boxes and lines."""

    title: str
    boxes: list[_SizedBox]
    lines: list[Line]
    layout: Layout

    @property
    def width(self) -> float:
        return max(self.layout.width, text_width(self.title[:60], _ROW))

    @property
    def height(self) -> float:
        return self.layout.height + (_TITLE_HEIGHT if self.title else 0)


def _place(graph: Graph, plain: bool) -> _PlacedGraph:
    """Lay out the graphs inside boxes first, in a loop, so that deep nests need no stack."""
    waiting, order = [graph], []
    while waiting:
        current = waiting.pop()
        order.append(current)
        waiting += [inner for box in current.boxes for inner in box.inside]
    placed: dict[int, _PlacedGraph] = {}
    for current in reversed(order):
        boxes = [_SizedBox(box, plain, [placed[id(inner)] for inner in box.inside]) for box in current.boxes]
        placeholders, lines = _cut_long_lines(current, [box.size for box in boxes])
        boxes += [_SizedBox(box, plain, []) for box in placeholders]
        layout = lay_out([box.size for box in boxes], [Edge(line.source, line.target, line.port) for line in lines])
        placed[id(current)] = _PlacedGraph(current.title, boxes, lines, layout)
    return placed[id(graph)]


def _cut_long_lines(graph: Graph, sizes: Sequence[Size]) -> tuple[list[Box], list[Line]]:
    """The lines without the longest, if there are too many, and boxes at their ends that name their sources."""
    edges = [Edge(line.source, line.target, line.port) for line in graph.lines]
    cut = edges_to_cut(sizes, edges, 600 + 3 * len(graph.boxes)) if edges else set()
    lines = [line for number, line in enumerate(graph.lines) if number not in cut]
    sources: dict[tuple[int, str], list[int]] = {}
    for line in (graph.lines[number] for number in sorted(cut)):
        sources.setdefault((line.target, line.mark), []).append(line.source)
    placeholders: list[Box] = []
    for (target, mark), numbers in sources.items():
        lines.append(Line(len(graph.boxes) + len(placeholders), target, mark=mark))
        placeholders.append(Box(_name_sources([graph.boxes[number] for number in numbers]), kind="far"))
    return placeholders, lines


def _name_sources(boxes: Sequence[Box]) -> str:
    if len(boxes) > 2:
        return f"from {len(boxes):,} others"
    names = (f"{box.title} ({box.rows[0]})" if box.rows and box.kind != "end" else box.title for box in boxes)
    return f"from {', '.join(name[:40] for name in names)}"


# ---- shapes


class _Artist:
    """Draws graphs, and those inside their boxes, in four layers: boxes that contain graphs, lines, other boxes, labels."""

    def __init__(self, scale: Scale | None, plain: bool) -> None:
        self._scale, self._plain = scale, plain
        self._outer: list[Shape] = []
        self._boxes: list[Shape] = []
        self._labels: list[Shape] = []
        self._lines: dict[str, _Lines] = {}

    def draw(self, graph: _PlacedGraph, x: float, y: float) -> Iterator[Shape]:
        """The shapes of a graph whose upper left corner is at x, y."""
        waiting = [(graph, x, y)]
        while waiting:
            current, left, top = waiting.pop()
            if current.title:
                title = fit(current.title, _LABEL, max(60, current.width))
                self._draw_label(title, left + current.width / 2, top + 10)
                top += _TITLE_HEIGHT
            left += (current.width - current.layout.width) / 2
            corners = [_corner(*placed, left, top) for placed in zip(current.boxes, current.layout.centres, strict=True)]
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

    def _draw_box(self, box: _SizedBox, x: float, y: float) -> None:
        (self._outer if box.inside else self._boxes).append(
            Group(x, y, tuple(self._box_shapes(box)), box.box.about, box.box.names)
        )
        for port, label in enumerate(box.labels):
            if label:
                self._draw_label(label, x + box.width / 2 + box.port_offset(port), y + box.height + 11)

    def _draw_label(self, text: str, x: float, y: float) -> None:
        self._labels.append(Text(round(x), round(y), text, _LABEL, INK, "middle"))

    def _box_shapes(self, sized: _SizedBox) -> Iterator[Shape]:
        """The shapes of a box whose upper left corner is the origin."""
        box, width = sized.box, sized.width
        fill, border, thickness, dashes = _KINDS[box.kind]
        colour = INK
        if box.value is not None and self._scale:
            fill = self._scale.colour(box.value)
            colour = text_colour(fill)
        if box.mark:
            border, thickness = _mark(box.mark)[0], 2
        radius = sized.height / 2 if box.kind == "end" else 5
        if box.kind == "folded":
            size = (width - _STACK, sized.height - _STACK)
            yield Rectangle(_STACK, _STACK, *size, fill, border, radius=radius)
        else:
            size = (width, sized.height)
        yield Rectangle(0, 0, *size, fill, border, thickness, dashes, radius)
        yield Text((width - _badge_width(box.mark)) / 2, 16, sized.title, _TITLE, colour, "middle", bold=True)
        for number, row in enumerate(sized.rows):
            yield Text(width / 2, _TITLE_HEIGHT + 10 + _ROW_HEIGHT * number, row, _ROW, colour, "middle")
        if box.mark:
            badge = _badge_width(box.mark) - 6
            yield Rectangle(width - badge - 4, 5, badge, 14, border, radius=7)
            yield Text(width - badge + 1, 15.2, _badge_text(box.mark), _BADGE, "#ffffff", bold=True)

    def _draw_lines(self, graph: _PlacedGraph, corners: Sequence[_Point], left: float, top: float) -> None:
        routes = [[(x + left, y + top) for x, y in route] for route in graph.layout.routes]
        incoming: dict[int, list[list[_Point]]] = {}
        for number, (line, route) in enumerate(zip(graph.lines, routes, strict=True)):
            if not route:
                continue
            incoming.setdefault(line.target, []).append(route)
            if not graph.layout.branches[number]:
                box, y = graph.boxes[line.source], corners[line.source][1]
                centre = graph.layout.centres[line.source][0] + left  # not of the corner, whose rounding would make kinks
                _start_at_port(route, centre + box.port_offset(line.port), y, y + box.line_start(line.port))
        for target, arriving in incoming.items():
            _spread_ends(arriving, corners[target][0], graph.boxes[target].width)
        for line, route in zip(graph.lines, routes, strict=True):
            lines = self._lines.setdefault(line.mark, _Lines(line.mark, self._plain))
            if route:
                lines.add(route)
            else:
                box, (x, y) = graph.boxes[line.source], corners[line.source]
                lines.add_loop(round(x + box.width), round(y + box.height / 2))


def _corner(box: _SizedBox, centre: _Point, left: float, top: float) -> _Point:
    return round(left + centre[0] - box.width / 2), round(top + centre[1] - box.size.height / 2)


def plain_mark(mark: str) -> str:
    """The mark whose look a mark has: of one with a sign ``added`` or ``removed``, else itself.

    Examples
    --------
    >>> plain_mark("-fused"), plain_mark("changed"), plain_mark("-0.5")
    ('removed', 'changed', '-0.5')
    """
    return _SIGNS.get(mark[:1], mark) if mark[1:2].isalpha() else mark


def mark_colour(mark: str) -> str:
    """The colour of a mark, as ``#rrggbb``."""
    return _mark(mark)[0]


def _mark(mark: str) -> tuple[str, str]:
    return _MARKS.get(plain_mark(mark), _OTHER_MARK)


def _badge_width(mark: str) -> float:
    return text_width(_badge_text(mark), _BADGE, bold=True) + 16 if mark else 0


def _badge_text(mark: str) -> str:
    return f"{_mark(mark)[1]} {fit(mark if plain_mark(mark) == mark else mark[1:], _BADGE, 90, bold=True)}".strip()


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
        self._steps: list[Step] = []
        self._heads: dict[tuple[Step, ...], None] = {}
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
        if before > y or not self._plain:  # of thousands of lines, only those that go up need a head
            back = y + 6 if before > y else y - 6
            self._heads[("M", (x, y)), ("L", (x - 3, back)), ("L", (x + 3, back)), ("Z", ())] = None

    def add_loop(self, x: float, y: float) -> None:
        """A line from the right side of a box back to it."""
        corners = ((x, y - 4), (x + 7, y - 4), (x + 7, y + 4), (x, y + 4))
        self._steps += [("L" if number else "M", corner) for number, corner in enumerate(corners)]
        self._heads[("M", (x, y + 4)), ("L", (x + 6, y + 1)), ("L", (x + 6, y + 7)), ("Z", ())] = None

    def shapes(self) -> Iterator[Path]:
        """The lines, and their arrowheads."""
        colour, thickness = (_mark(self._mark)[0], 2.0) if self._mark else (LINE, 1.2)
        dashes = (5.0, 3.0) if plain_mark(self._mark) == "removed" else ()
        yield Path(tuple(self._steps), "none", colour, thickness, dashes)
        yield Path(tuple(step for head in self._heads for step in head), colour)

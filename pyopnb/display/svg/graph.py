"""A layered graph as an SVG: boxes with a title and a few rows, lines with labels, graphs inside boxes.

The picture stands alone: it loads nothing, runs nothing, and brings its own ground, as it is shown in an ``<img>`` that knows
nothing of the theme around it. Boxes that look alike are written once, and lines that share a way too, so that thousands of
them stay small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise

from pyopnb.display.svg.colours import CARD, LINE, MUTED, TEXT, Scale, ink, legend
from pyopnb.display.svg.layout import Edge, Layout, Size, far, laid_out
from pyopnb.display.svg.text_width import FONT, fitted, width

__all__ = ["Box", "Graph", "Line", "Picture", "svg", "within"]

_Point = tuple[float, float]

_TITLE, _ROW, _LABEL = 12, 10, 9.5  # sizes of letters
_ROW_HEIGHT, _HEAD_HEIGHT, _LABEL_HEIGHT = 13, 18, 14
_WIDEST = 210  # a text of a box, in pixels
_PAD = 9
_MARGIN = 16
_LEGEND = 44
_STACKED = 3
_CLEAN = 800  # boxes from which on rows and labels are left out: nobody reads them, and they cost room
_KINDS = {  # fill, border, width of the border, dashes
    "node": ("#ffffff", "#b6bec8", 1, ""),
    "own": ("#efe6ff", "#7a3ff2", 2, ""),
    "end": ("#e3ecf5", "#7b93ab", 1, ""),
    "folded": ("#fff8e6", "#b58900", 1, ""),
    "opened": ("#fbfbfc", "#b58900", 1, ""),
    "far": ("none", "#8c959f", 1, "3 3"),
    "wrong": ("#fff0f0", "#c4302b", 1.5, "4 2"),
}
_MARKS = {"added": ("#1a7f37", "+"), "removed": ("#c4302b", "−"), "changed": ("#9a6700", "~")}
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
        ``node``; ``own``: stands out by a heavy border and a sign; ``end``: a pill; ``folded`` and ``opened``: holds a graph;
        ``far``: stands for something elsewhere; ``wrong``.
    labels : tuple of str
        What stands on the lines that leave it, by port.
    value : float, optional
        Its colour on the picture's scale.
    mark : str
        A badge: ``added``, ``removed``, ``changed``, or any short text.
    inside : tuple of Graph
        Graphs that are drawn in it.
    """

    title: str
    rows: tuple[str, ...] = ()
    kind: str = "node"
    labels: tuple[str, ...] = ()
    value: float | None = None
    mark: str = ""
    inside: tuple[Graph, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """From a port of one box to another box, by their numbers; ``mark`` as a box has it, shown by colour and dashes."""

    source: int
    target: int
    port: int = 0
    mark: str = ""


@dataclass(frozen=True)
class Graph:
    """Boxes, in the order in which they are to be read, and the lines between them."""

    boxes: Sequence[Box]
    lines: Sequence[Line]
    title: str = ""

    def part(self, most: int, around: int = 0) -> Graph:
        """At most so many boxes, one of them that of this number; what comes before and after is one box each."""
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

        def at(number: int) -> int:
            return 0 if number < begin else last if number >= end else number - begin + first

        moved = (replace(line, source=at(line.source), target=at(line.target)) for line in self.lines)
        crossing = {line for line in moved if line.source != line.target}
        ordered = sorted(crossing, key=lambda line: (line.source, line.port, line.target, line.mark))
        outside = {0} if begin else set()
        outside |= {last} if end < count else set()
        kept = [line for line in ordered if not (line.source in outside and line.target in outside)]
        boxes = [replace(box, labels=()) if place in outside else box for place, box in enumerate(boxes)]
        return Graph(boxes, [replace(x, port=0) if x.source in outside else x for x in kept], self.title)


@dataclass(frozen=True)
class Picture:
    """A graph as a text that an ``<img>`` shows.

    Attributes
    ----------
    svg : str
    shown : int
        Boxes of the graph that are in it.
    whole : str
        The picture of all boxes, however long it is.
    """

    svg: str
    shown: int
    whole: str

    @property
    def size(self) -> Size:
        """In pixels."""
        words = self.svg[:200].split('"')
        return Size(float(words[3]), float(words[5]))


def within(graph: Graph, most: int, *, scale: Scale | None = None, legend_title: str = "", around: int = 0) -> Picture:
    """A picture of at most so many bytes.

    First the rows and labels go, then the boxes that are far from the one of number ``around``.
    """
    count = len(graph.boxes)
    shown, plain, whole = count, count > _CLEAN, ""
    while True:
        made = svg(graph.part(shown, around), scale=scale, legend_title=legend_title, plain=plain)
        whole = whole or made
        length = len(made.encode())
        if length <= most or (shown <= 1 and plain):
            return Picture(made, shown, whole)
        if not plain and length < 3 * most:
            plain = True
        else:
            shown = max(1, min(shown - 1, int(shown * 0.95 * most / length)))
            plain = shown > _CLEAN or shown == 1


def svg(graph: Graph, *, scale: Scale | None = None, legend_title: str = "", plain: bool = False) -> str:
    """A graph as an SVG.

    Parameters
    ----------
    graph : Graph
    scale : Scale, optional
        What the boxes' values are as colours; its legend is part of the picture.
    legend_title : str
        What the values are.
    plain : bool
        Without rows and labels.
    """
    placed = _placed(graph, plain)
    top = _MARGIN + (_LEGEND if scale else 0)
    pen = _Pen(scale, plain)
    pen.draw(placed, _MARGIN, top)
    wide, high = placed.width + 2 * _MARGIN, placed.height + top + _MARGIN
    if scale:
        title = fitted(legend_title, 10, 180)
        wide = max(wide, 180 + 2 * _MARGIN)
        pen.parts.append(legend(scale, title, _MARGIN, 10))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'font-family="{FONT}"><style>{_STYLE}</style><rect width="100%" height="100%" rx="8" fill="{CARD}"/>'
        f"{pen.written()}</svg>"
    )


_STYLE = (
    f".l{{fill:none;stroke:{LINE};stroke-width:1.2}}.h{{fill:{LINE}}}"
    f".t{{font-size:{_TITLE}px;font-weight:600;text-anchor:middle}}.r{{font-size:{_ROW}px;text-anchor:middle}}"
    f".m{{font-size:{_ROW - 1}px;font-weight:600;fill:#fff}}"
    f".n{{font-size:{_LABEL}px;text-anchor:middle;fill:{MUTED}}}"
)


# ---- sizes


@dataclass
class _Look:
    """A box with its texts cut to their room, and its size; the labels below it belong to the room that it needs."""

    box: Box
    title: str
    rows: list[str]
    labels: list[str]
    width: float
    height: float
    inside: list[_Placed] = field(default_factory=list)

    @property
    def room(self) -> Size:
        below = _LABEL_HEIGHT if any(self.labels) else 0
        return Size(max(self.width, sum(map(_label_width, self.labels))), self.height + below)

    def foot(self, port: int) -> float:
        """How far below the upper border the lines of a port begin: under its label."""
        return self.height + (_LABEL_HEIGHT if port < len(self.labels) and self.labels[port] else 0)

    def port(self, number: int) -> float:
        """How far from the middle the lines of a port begin."""
        count = max(1, len(self.box.labels))
        if any(self.labels):
            widths = [_label_width(label) for label in self.labels]
            return sum(widths[:number]) + widths[min(number, len(widths) - 1)] / 2 - sum(widths) / 2
        return (min(number, count - 1) - (count - 1) / 2) * min(16.0, (self.width - 16) / count)


@dataclass
class _Placed:
    """A graph with the place of everything."""

    graph: Graph
    looks: list[_Look]
    lines: list[Line]
    layout: Layout

    @property
    def width(self) -> float:
        return max(self.layout.width, width(self.graph.title[:60], _ROW))

    @property
    def height(self) -> float:
        return self.layout.height + (_HEAD_HEIGHT if self.graph.title else 0)


def _label_width(label: str) -> float:
    return width(label, _LABEL) + 10


def _placed(graph: Graph, plain: bool) -> _Placed:
    """Lay out a graph, those inside its boxes before it: a loop instead of a call in a call, so that depth costs no stack."""
    waiting, order = [graph], []
    while waiting:
        one = waiting.pop()
        order.append(one)
        waiting += [inner for box in one.boxes for inner in box.inside]
    done: dict[int, _Placed] = {}
    for one in reversed(order):
        looks = [_look(box, plain, [done[id(inner)] for inner in box.inside]) for box in one.boxes]
        more, lines = _without_far(one, [look.room for look in looks])
        looks += [_look(box, plain, []) for box in more]
        layout = laid_out([look.room for look in looks], [Edge(line.source, line.target, line.port) for line in lines])
        done[id(one)] = _Placed(one, looks, lines, layout)
    return done[id(graph)]


def _without_far(graph: Graph, rooms: Sequence[Size]) -> tuple[list[Box], list[Line]]:
    """The lines without the longest, if there are too many, and more boxes, which say at their ends where these come from."""
    edges = [Edge(line.source, line.target, line.port) for line in graph.lines]
    cut = far(rooms, edges, 600 + 3 * len(graph.boxes)) if edges else set()
    more: list[Box] = []
    lines = [line for number, line in enumerate(graph.lines) if number not in cut]
    sources: dict[tuple[int, str], list[int]] = {}
    for line in (graph.lines[number] for number in sorted(cut)):
        sources.setdefault((line.target, line.mark), []).append(line.source)
    for (target, mark), several in sources.items():
        lines.append(Line(len(graph.boxes) + len(more), target, mark=mark))
        more.append(Box(_whence([graph.boxes[source] for source in several]), kind="far"))
    return more, lines


def _whence(boxes: Sequence[Box]) -> str:
    if len(boxes) > 2:
        return f"from {len(boxes):,} others"
    said = (f"{box.title} ({box.rows[0]})" if box.rows and box.kind != "end" else box.title for box in boxes)
    return f"from {', '.join(text[:40] for text in said)}"


def _look(box: Box, plain: bool, inside: list[_Placed]) -> _Look:
    title = fitted(f"◆ {box.title}" if box.kind == "own" else box.title, _TITLE, _WIDEST, bold=True)
    keep = box.rows if not plain or box.kind in ("end", "folded") else ()
    rows = [fitted(row, _ROW, _WIDEST) for row in keep]
    labels = [] if plain or len(box.labels) > 3 else [fitted(label, _LABEL, 170) for label in box.labels]
    wide = [width(title, _TITLE, bold=True) + _mark_width(box.mark), *(width(row, _ROW) for row in rows)]
    wide += [one.width for one in inside]
    high = _HEAD_HEIGHT + _ROW_HEIGHT * len(rows) + 6 + sum(one.height + 10 for one in inside)
    pad = _PAD + (5 if box.kind == "end" else 0)
    if box.kind == "folded":
        high += _STACKED
    return _Look(box, title, rows, labels if any(labels) else [], max(34.0, max(wide) + 2 * pad), high, inside)


def _mark_width(mark: str) -> float:
    return width(_mark_text(mark), _ROW - 1, bold=True) + 16 if mark else 0


def _mark_text(mark: str) -> str:
    return f"{_MARKS.get(mark, _OTHER_MARK)[1]} {fitted(mark, _ROW - 1, 90, bold=True)}".strip()


# ---- drawing


class _Pen:
    """What is written so far: boxes, lines and labels in their order from back to front."""

    def __init__(self, scale: Scale | None, plain: bool) -> None:
        self.parts: list[str] = []
        self._scale, self._plain = scale, plain
        self._spots: list[tuple[str, float, float]] = []
        self._back: list[tuple[str, float, float]] = []
        self._ways: dict[str, _Way] = {}
        self._labels: list[str] = []

    def draw(self, placed: _Placed, x: float, y: float) -> None:
        """Everything of a graph, at absolute places, and of those inside it."""
        waiting = [(placed, x, y)]
        while waiting:
            one, left, top = waiting.pop()
            if one.graph.title:
                self._label(fitted(one.graph.title, _LABEL, max(60, one.width)), left + one.width / 2, top + 10)
                top += _HEAD_HEIGHT
            left += (one.width - one.layout.width) / 2
            corners = [_corner(look, at, left, top) for look, at in zip(one.looks, one.layout.centres, strict=True)]
            for look, (a, b) in zip(one.looks, corners, strict=True):
                (self._back if look.inside else self._spots).append((self._box(look), a, b))
                self._write_labels(look, a, b)
                b += _HEAD_HEIGHT + _ROW_HEIGHT * len(look.rows) + 6
                for inner in look.inside:
                    waiting.append((inner, a + (look.width - inner.width) / 2, b))
                    b += inner.height + 10
            self._lines(one, corners, left, top)

    def written(self) -> str:
        """The SVG of it all."""
        spots = [*self._back, *self._spots]
        often = Counter(body for body, _, _ in spots)
        names = {body: f"b{number:x}" for number, body in enumerate(b for b, count in often.items() if count > 1)}
        kept = "".join(f'<g id="{name}">{body}</g>' for body, name in names.items())
        back = "".join(_spot(names, *spot) for spot in self._back)
        front = "".join(_spot(names, *spot) for spot in self._spots)
        lines = "".join(way.written() for way in self._ways.values())
        return f"<defs>{kept}</defs>{back}{lines}{front}{''.join(self._labels)}{''.join(self.parts)}"

    def _box(self, look: _Look) -> str:
        """A box with its upper left corner at 0, 0."""
        box = look.box
        fill, border, thick, dashes = _KINDS[box.kind]
        text = TEXT
        if box.value is not None and self._scale:
            fill = self._scale.colour(box.value)
            text = ink(fill)
        if box.mark:
            border, thick = _MARKS.get(box.mark, _OTHER_MARK)[0], 2
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        round_ = look.height / 2 if box.kind == "end" else 5
        less = _STACKED if box.kind == "folded" else 0  # room for the sheet that looks out behind
        size = f'width="{look.width - less:.1f}" height="{look.height - less:.1f}" rx="{round_:g}"'
        under = f'<rect x="{_STACKED}" y="{_STACKED}" {size} fill="{fill}" stroke="{border}"/>' if box.kind == "folded" else ""
        made = [f'{under}<rect {size} fill="{fill}" stroke="{border}" stroke-width="{thick:g}"{dashed}/>']
        middle = (look.width - _mark_width(box.mark)) / 2
        made.append(f'<text class="t" x="{middle:.1f}" y="16" fill="{text}">{escape(look.title)}</text>')
        faint = f'fill="{MUTED}"' if text == TEXT and fill in (_KINDS[box.kind][0], "none") else f'fill="{text}"'
        for number, row in enumerate(look.rows):
            y = _HEAD_HEIGHT + 10 + _ROW_HEIGHT * number
            made.append(f'<text class="r" x="{look.width / 2:.1f}" y="{y}" {faint}>{escape(row)}</text>')
        if box.mark:
            made.append(_badge(box.mark, look.width))
        return "".join(made)

    def _write_labels(self, look: _Look, x: float, y: float) -> None:
        for number, label in enumerate(look.labels):
            if label:
                self._label(label, x + look.width / 2 + look.port(number), y + look.height + 11)

    def _label(self, text: str, x: float, y: float) -> None:
        self._labels.append(f'<text class="n" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>')

    def _lines(self, placed: _Placed, corners: Sequence[_Point], left: float, top: float) -> None:
        routes = [[(x + left, y + top) for x, y in route] for route in placed.layout.routes]
        for number, line in enumerate(placed.lines):
            if routes[number] and not placed.layout.branches[number]:
                look, (_, y) = placed.looks[line.source], corners[line.source]
                middle = placed.layout.centres[line.source][0] + left  # and not of the corner: rounded, it would make kinks
                _leave(routes[number], middle + look.port(line.port), y, y + look.foot(line.port))
        for target, arriving in _arriving(placed.lines, routes).items():
            look, (x, _) = placed.looks[target], corners[target]
            _arrive([routes[number] for number in arriving], x, look.width)
        for line, route in zip(placed.lines, routes, strict=True):
            way = self._ways.setdefault(line.mark, _Way(line.mark, self._plain))
            if route:
                way.go(route)
            else:
                look, (x, y) = placed.looks[line.source], corners[line.source]
                way.loop(x + look.width, y + look.height / 2)


def _corner(look: _Look, centre: _Point, left: float, top: float) -> _Point:
    return round(left + centre[0] - look.width / 2), round(top + centre[1] - look.room.height / 2)


def _spot(names: dict[str, str], body: str, x: float, y: float) -> str:
    if body in names:
        return f'<use href="#{names[body]}" x="{x:g}" y="{y:g}"/>'
    return f'<g transform="translate({x:g},{y:g})">{body}</g>'


def _badge(mark: str, right: float) -> str:
    colour, _ = _MARKS.get(mark, _OTHER_MARK)
    wide = _mark_width(mark) - 6
    return (
        f'<rect x="{right - wide - 4:.1f}" y="5" width="{wide:.1f}" height="14" rx="7" fill="{colour}"/>'
        f'<text class="m" x="{right - wide + 1:.1f}" y="15.2">{escape(_mark_text(mark))}</text>'
    )


def _leave(route: list[_Point], x: float, upper: float, lower: float) -> None:
    """Let a line begin at its port, at the border of the box itself or below the label there."""
    up = route[0][1] > route[1][1]  # it closes a circle
    route[0] = (x, upper if up else lower)
    route[1] = (x, route[1][1])


def _arriving(lines: Sequence[Line], routes: Sequence[Sequence[_Point]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, line in enumerate(lines):
        if routes[number]:
            found.setdefault(line.target, []).append(number)
    return found


def _arrive(routes: Sequence[list[_Point]], x: float, wide: float) -> None:
    """Let lines end where they come from straight above as far as the box is that wide, and not all in one place."""
    low, high = x + min(10, wide / 3), x + wide - min(10, wide / 3)
    apart = min(9.0, (high - low) / max(1, len(routes) - 1))
    ends: list[float] = []
    ordered = sorted(routes, key=lambda route: route[-3][0] if len(route) > 2 else route[0][0])
    for route in ordered:
        wish = min(high, max(low, route[-3][0] if len(route) > 2 else route[0][0]))
        ends.append(max(wish, ends[-1] + apart) if ends else wish)
    limit = high
    for place in range(len(ends) - 1, -1, -1):
        ends[place] = min(ends[place], limit)
        limit = ends[place] - apart
    for route, end in zip(ordered, ends, strict=True):
        route[-2], route[-1] = (end, route[-2][1]), (end, route[-1][1])


class _Way:
    """Lines of one mark as one path, and their heads as another."""

    def __init__(self, mark: str, plain: bool) -> None:
        self._mark, self._plain = mark, plain
        self._steps: list[str] = []
        self._heads: dict[str, None] = {}
        self._gone: set[tuple[_Point, _Point]] = set()

    def go(self, route: Sequence[_Point]) -> None:
        """Along these points, straight down and in curves across; what a line of the same port has gone already is left out."""
        points = [(round(x), round(y)) for x, y in route]
        last: _Point | None = None  # where the pen is; None where it was lifted
        down = 0.0  # what it has still to go straight
        for a, b in pairwise(points):
            if a == b:
                continue
            if (a, b) in self._gone:
                self._straight(down)
                last, down = None, 0
                continue
            self._gone.add((a, b))
            if last is None:
                self._steps.append(f"M{a[0]} {a[1]}")
            if a[0] == b[0]:
                down += b[1] - a[1]
            else:
                self._straight(down)
                self._steps.append(_curve(a, b))
                down = 0
            last = b
        self._straight(down)
        (_, before), (x, y) = points[-2:]
        if before > y or not self._plain:  # of thousands of lines, only those that go up need a head
            self._heads[f"M{x} {y}l-3{'-' if before <= y else ' '}6h6z"] = None

    def _straight(self, down: float) -> None:
        if down:
            self._steps.append(f"v{down}")

    def loop(self, x: float, y: float) -> None:
        """From the right side of a box back to it."""
        self._steps.append(f"M{x:.0f} {y - 4:.0f}h7v8h-7")
        self._heads[f"M{x:.0f} {y + 4:.0f}l6-3v6z"] = None

    def written(self) -> str:
        colour = _MARKS.get(self._mark, _OTHER_MARK)[0] if self._mark else ""
        dashes = ' stroke-dasharray="5 3"' if self._mark == "removed" else ""
        line = f' style="stroke:{colour};stroke-width:2"{dashes}' if colour else ""
        head = f' style="fill:{colour}"' if colour else ""
        return f'<path class="l"{line} d="{"".join(self._steps)}"/><path class="h"{head} d="{"".join(self._heads)}"/>'


def _curve(a: _Point, b: _Point) -> str:
    across, down = b[0] - a[0], b[1] - a[1]
    half = round(down / 2)
    return f"c0 {half} {across} {half} {across} {down}".replace(" -", "-")

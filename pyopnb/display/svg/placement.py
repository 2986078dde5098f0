"""Places of the boxes and lines of a graph: each box as large as its texts, graphs inside boxes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyopnb.display.svg.boxes import Box, Graph, Line
from pyopnb.display.svg.layers import Edge, Size
from pyopnb.display.svg.layout import Layout, edges_to_cut, lay_out
from pyopnb.display.svg.marks import badge_width
from pyopnb.display.svg.text_width import fit, text_width

__all__ = [
    "LABEL",
    "ROW",
    "ROW_HEIGHT",
    "STACK",
    "TITLE",
    "TITLE_HEIGHT",
    "PlacedGraph",
    "SizedBox",
    "place",
]

TITLE, ROW, LABEL = 12, 10, 9.5
"""Font sizes."""

ROW_HEIGHT, TITLE_HEIGHT, _LABEL_HEIGHT = 13, 18, 14
STACK = 3
"""Pixels by which the sheet behind a folded box stands out."""

_WIDEST = 210  # pixels of a text in a box
_PADDING = 9


class SizedBox:
    """A box with its texts cut to their space, and its size, to which the labels below it belong."""

    def __init__(self, box: Box, plain: bool, inside: list[PlacedGraph]) -> None:
        self.box, self.inside = box, inside
        self.title = fit(
            f"◆ {box.title}" if box.kind == "own" else box.title, TITLE, _WIDEST, bold=True
        )
        rows = box.rows if not plain or box.kind in ("end", "folded") else ()
        self.rows = [fit(row, ROW, _WIDEST) for row in rows]
        labels = (
            [] if plain or len(box.labels) > 3 else [fit(label, LABEL, 170) for label in box.labels]
        )
        self.labels = labels if any(labels) else []
        self._label_widths = [text_width(label, LABEL) + 10 for label in self.labels]
        widths = [text_width(self.title, TITLE, bold=True) + badge_width(box.mark)]
        widths += [text_width(row, ROW) for row in self.rows]
        widths += [graph.width for graph in inside]
        padding = _PADDING + (5 if box.kind == "end" else 0)
        self.width = max(34.0, max(widths) + 2 * padding)
        self.height = (
            self.head_height
            + sum(graph.height + 10 for graph in inside)
            + (STACK if box.kind == "folded" else 0)
        )
        below = _LABEL_HEIGHT if self.labels else 0
        self.size = Size(max(self.width, sum(self._label_widths)), self.height + below)

    @property
    def head_height(self) -> float:
        """Of the title and the rows, above the graphs inside."""
        return TITLE_HEIGHT + ROW_HEIGHT * len(self.rows) + 6

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
class PlacedGraph:
    """A graph with the places of all boxes and lines."""

    title: str
    boxes: list[SizedBox]
    lines: list[Line]
    layout: Layout

    @property
    def width(self) -> float:
        return max(self.layout.width, text_width(self.title[:60], ROW))

    @property
    def height(self) -> float:
        return self.layout.height + (TITLE_HEIGHT if self.title else 0)


def place(graph: Graph, plain: bool) -> PlacedGraph:
    """Lay out the graphs inside boxes first, in a loop, so that deep nests need no stack."""
    waiting, order = [graph], []
    while waiting:
        current = waiting.pop()
        order.append(current)
        waiting += [inner for box in current.boxes for inner in box.inside]
    placed: dict[int, PlacedGraph] = {}
    for current in reversed(order):
        boxes = [
            SizedBox(box, plain, [placed[id(inner)] for inner in box.inside])
            for box in current.boxes
        ]
        placeholders, lines = _cut_long_lines(current, [box.size for box in boxes])
        boxes += [SizedBox(box, plain, []) for box in placeholders]
        layout = lay_out(
            [box.size for box in boxes],
            [Edge(line.source, line.target, line.port) for line in lines],
        )
        placed[id(current)] = PlacedGraph(current.title, boxes, lines, layout)
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
        placeholders.append(
            Box(_name_sources([graph.boxes[number] for number in numbers]), kind="far")
        )
    return placeholders, lines


def _name_sources(boxes: Sequence[Box]) -> str:
    if len(boxes) > 2:
        return f"from {len(boxes):,} others"
    names = (
        f"{box.title} ({box.rows[0]})" if box.rows and box.kind != "end" else box.title
        for box in boxes
    )
    return f"from {', '.join(name[:40] for name in names)}"

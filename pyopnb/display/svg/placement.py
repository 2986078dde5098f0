"""Places of the boxes and lines of a graph: each box as large as its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyopnb.display.svg.boxes import Box, BoxGraph, Line
from pyopnb.display.svg.layers import Size
from pyopnb.display.svg.layout import Layout, lay_out, lines_to_cut
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

# Longer texts in a box, and below it, are cut to these widths in pixels.
_WIDEST, _WIDEST_LABEL = 210, 170
_PADDING = 9
_MOST_LABELS = 3


class SizedBox:
    """A box with its texts cut to their space, and its size, to which the labels below it belong."""

    def __init__(self, box: Box, plain: bool) -> None:
        self.box = box
        # The sign says without colours that an op of the registry runs here.
        title = f"◆ {box.title}" if box.kind == "own" else box.title
        self.title = fit(title, TITLE, _WIDEST, bold=True)
        self.rows: list[str] = []
        if not plain or box.kind in ("end", "folded"):
            self.rows = [fit(row, ROW, _WIDEST) for row in box.rows]
        self.labels: list[str] = []
        if not plain and any(box.labels) and len(box.labels) <= _MOST_LABELS:
            self.labels = [fit(label, LABEL, _WIDEST_LABEL) for label in box.labels]
        self._label_widths = [text_width(label, LABEL) + 10 for label in self.labels]
        self.width = self._measure_width()
        self.height = TITLE_HEIGHT + ROW_HEIGHT * len(self.rows) + 6
        if box.kind == "folded":
            self.height += STACK
        height = self.height
        if self.labels:
            height += _LABEL_HEIGHT
        self.size = Size(max(self.width, sum(self._label_widths)), height)

    def _measure_width(self) -> float:
        """Return the width that the texts need."""
        widest = text_width(self.title, TITLE, bold=True) + badge_width(self.box.mark)
        for row in self.rows:
            widest = max(widest, text_width(row, ROW))
        padding = _PADDING
        # The ends of a pill are round.
        if self.box.kind == "end":
            padding += 5
        return max(34.0, widest + 2 * padding)

    def port_offset(self, port: int) -> float:
        """Return how far right of the centre the lines of a port begin."""
        if self.labels:
            # Each line begins below the middle of its label.
            widths = self._label_widths
            port = min(port, len(widths) - 1)
            middle = sum(widths[:port]) + widths[port] / 2
            return middle - sum(widths) / 2
        count = max(1, len(self.box.labels))
        distance = min(16.0, (self.width - 16) / count)
        port = min(port, count - 1)
        return (port - (count - 1) / 2) * distance

    def line_start(self, port: int) -> float:
        """Return how far below the upper border the lines of a port begin: below its label."""
        if port < len(self.labels) and self.labels[port]:
            return self.height + _LABEL_HEIGHT
        return self.height


@dataclass(slots=True)
class PlacedGraph:
    """A graph with the places of all boxes and lines."""

    boxes: list[SizedBox]
    lines: list[Line]
    layout: Layout


def place(graph: BoxGraph, plain: bool) -> PlacedGraph:
    """Lay out a graph."""
    boxes = [SizedBox(box, plain) for box in graph.boxes]
    placeholders, lines = _cut_long_lines(graph, [box.size for box in boxes])
    boxes += [SizedBox(box, plain) for box in placeholders]
    return PlacedGraph(boxes, lines, lay_out([box.size for box in boxes], lines))


def _cut_long_lines(graph: BoxGraph, sizes: Sequence[Size]) -> tuple[list[Box], list[Line]]:
    """Drop the longest lines, if there are too many, and put boxes at their ends that name their sources."""
    if not graph.lines:
        return [], []
    cut = lines_to_cut(sizes, graph.lines, 600 + 3 * len(graph.boxes))
    lines = [line for number, line in enumerate(graph.lines) if number not in cut]
    sources: dict[tuple[int, str], list[str]] = {}
    for number in sorted(cut):
        line = graph.lines[number]
        source = graph.boxes[line.source]
        # Many nodes have the same op, so the first row, which is often the name, tells them apart.
        name = " ".join([source.title, *source.rows[:1]])
        sources.setdefault((line.target, line.mark), []).append(name[:40])
    placeholders: list[Box] = []
    for (target, mark), names in sources.items():
        lines.append(Line(len(graph.boxes) + len(placeholders), target, mark=mark))
        text = ", ".join(names) if len(names) < 3 else f"{len(names):,} others"
        placeholders.append(Box(f"from {text}", kind="far"))
    return placeholders, lines

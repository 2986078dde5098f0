"""What a picture of a graph shows: boxes with a title and a few rows, lines with labels, graphs inside boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Box", "Graph", "Line"]


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
                lines.add(
                    Line(source, target, 0 if source in placeholders else line.port, line.mark)
                )
        ordered = sorted(lines, key=lambda line: (line.source, line.port, line.target, line.mark))
        boxes = [
            replace(box, labels=()) if number in placeholders else box
            for number, box in enumerate(boxes)
        ]
        return Graph(boxes, ordered, self.title)

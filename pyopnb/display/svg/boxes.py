"""The parts of a picture of a graph: boxes with a title, rows and a mark, and labeled lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyopnb.display.svg.colors import ColorScale

__all__ = ["Box", "BoxGraph", "Line", "mark_look", "plain_mark"]

# Color and sign of each.
_MARKS = {
    "added": ("#1a7f37", "+"),
    "removed": ("#c4302b", "−"),
    "changed": ("#9a6700", "~"),
}
# A mark that begins with one of these is drawn like the word beside it.
_SIGNS = {"+": "added", "-": "removed"}
_UNKNOWN = ("#5d7290", "")
# Neighbors are not looked for beyond a box with more lines, such as a mask.
_MOST_LINKS = 16


@dataclass(frozen=True)
class Box:
    """One box of a picture.

    Attributes
    ----------
    rows : tuple of str
        Small text below the title.
    kind : str
        ``node``; ``own``, with a heavy border and a sign; ``end``, a pill; ``folded``, which
        contains a graph; ``far``, a placeholder for something elsewhere; ``wrong``.
    labels : tuple of str
        The labels of the lines that leave it, by port.
    value : float, optional
        A number that the picture's scale turns into the color of the box.
    mark : str
        A badge: ``added``, ``removed``, ``changed``, or any short text; one with a sign, as
        ``+fused`` and ``-fused``, is drawn like ``added`` or ``removed``.
    about : str
        The lines of text for a reader who points at the box.
    names : tuple of str
        The nodes or tensors that the box shows, by which tables refer to it.
    scope : tuple of str
        The modules to which the node of an exporter belongs, outer ones first.
    inside : callable, optional
        Makes the graph in a group.
    """

    title: str
    rows: tuple[str, ...] = ()
    kind: str = "node"
    labels: tuple[str, ...] = ()
    value: float | None = None
    mark: str = ""
    about: str = ""
    names: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    inside: Callable[[], BoxGraph] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line from a port of one box to another box, by their indices.

    ``mark`` is as for a box, shown by color and dashes.
    """

    source: int
    target: int
    port: int = 0
    mark: str = ""


@dataclass(frozen=True)
class BoxGraph:
    """Boxes in reading order, and the lines between them.

    Attributes
    ----------
    scale : ColorScale, optional
        Turns the boxes' values into colors; it becomes part of the picture.
    legend : str
        The name of the values.
    """

    boxes: Sequence[Box]
    lines: Sequence[Line]
    scale: ColorScale | None = None
    legend: str = ""

    def part(self, kept: Sequence[int]) -> BoxGraph:
        """Return the boxes at some indices, in their order, and the lines between them."""
        numbers = {box: number for number, box in enumerate(kept)}
        lines = []
        for line in self.lines:
            if line.source in numbers and line.target in numbers:
                source, target = numbers[line.source], numbers[line.target]
                lines.append(Line(source, target, line.port, line.mark))
        return replace(self, boxes=[self.boxes[box] for box in kept], lines=lines)

    def near(self, center: int, most: int) -> BoxGraph:
        """Return the boxes nearest to the one at an index, at most ``most``."""
        links = defaultdict(list)
        for line in self.lines:
            links[line.source].append(line.target)
            links[line.target].append(line.source)
        near = [center]
        # The list grows while it is read.
        for box in near:
            if len(near) < most and (box == center or len(links[box]) <= _MOST_LINKS):
                near += [other for other in dict.fromkeys(links[box]) if other not in near]
        return self.part(sorted(near[:most]))


def plain_mark(mark: str) -> str:
    """Return the mark that a mark looks like: ``added`` or ``removed`` if it has a sign.

    Examples
    --------
    >>> plain_mark("-fused"), plain_mark("changed"), plain_mark("-0.5")
    ('removed', 'changed', '-0.5')
    """
    if mark[1:2].isalpha():
        return _SIGNS.get(mark[:1], mark)
    return mark


def mark_look(mark: str) -> tuple[str, str]:
    """Return the color of a mark, as ``#rrggbb``, and the text of its badge.

    Examples
    --------
    >>> mark_look("+fused"), mark_look("slow")
    (('#1a7f37', '+ fused'), ('#5d7290', 'slow'))
    """
    plain = plain_mark(mark)
    color, sign = _MARKS.get(plain, _UNKNOWN)
    # The sign of a mark such as +fused is drawn before it.
    if plain == mark:
        word = mark
    else:
        word = mark[1:]
    return color, f"{sign} {word}".strip()

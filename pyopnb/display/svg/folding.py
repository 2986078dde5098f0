"""Fold the boxes of a large graph into groups, so that it is seen on one screen.

Groups are the scopes that exporters write, or else blocks that repeat, or boxes that follow each
other. The boxes of a group are consecutive in a topological order, so groups form no cycles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from pyopnb.common import plural, sanitize
from pyopnb.display.svg.axes import quantity
from pyopnb.display.svg.boxes import Box, BoxGraph, Line

__all__ = ["fold"]

# A graph of at most this many boxes is drawn whole.
_WHOLE = 64
# A picture with groups has about this many boxes at most, and a group has at least this many.
_SCREEN, _FEWEST = 30, 4
# One box that repeats, or a block of some.
_REPEATED = re.compile(r"(.)\1{5,}|(.{6,400}?)\2+", re.DOTALL)


class _Part(NamedTuple):
    """Boxes that become one: blocks of the same structure, named by their scopes at a depth."""

    blocks: list[range]
    depth: int


def fold(graph: BoxGraph) -> BoxGraph:
    """Put the boxes of a large graph into groups, each a box that has a smaller graph inside."""
    if len(graph.boxes) <= _WHOLE:
        return graph
    graph = _in_reading_order(graph)
    parts = _parts(graph)
    boxes = [_box(graph, part) for part in parts]
    numbers = []
    for number, part in enumerate(parts):
        numbers += [number] * sum(map(len, part.blocks))
    lines: dict[Line, None] = {}
    for line in graph.lines:
        source, target = numbers[line.source], numbers[line.target]
        if source != target:
            # All lines of a group leave it together.
            port = 0 if boxes[source].inside else line.port
            lines[Line(source, target, port, line.mark)] = None
    return replace(graph, boxes=boxes, lines=list(lines))


def _in_reading_order(graph: BoxGraph) -> BoxGraph:
    """Put what reads nothing, such as a copy of a weight, to the first box that reads it."""
    reading = {line.target for line in graph.lines}
    firsts: dict[int, int] = {}
    for line in graph.lines:
        if line.source not in reading and graph.boxes[line.source].kind != "end":
            firsts.setdefault(line.source, line.target)
    boxes = list(graph.boxes)
    for box, first in firsts.items():
        boxes[box] = replace(boxes[box], scope=boxes[first].scope)
    order = sorted(range(len(boxes)), key=lambda box: (firsts.get(box, box), box not in firsts))
    return replace(graph, boxes=boxes).part(order)


def _parts(graph: BoxGraph) -> list[_Part]:
    """Divide boxes by scopes, as deep as a screen has room for, or by repetition, or evenly."""
    kinds = _kinds(graph.boxes)
    count = len(kinds)
    for depth in range(max(len(box.scope) for box in graph.boxes), 0, -1):
        scopes = [box.scope[:depth] or number for number, box in enumerate(graph.boxes)]
        changes = [number for number in range(1, count) if scopes[number] != scopes[number - 1]]
        parts = _merged(changes, kinds, depth)
        if changes and len(parts) <= _SCREEN:
            return parts
    singles = set(range(count))
    blocks = set()
    for match in _REPEATED.finditer(kinds):
        singles -= set(range(*match.span()))
        blocks |= {*range(*match.span(), len(match[1] or match[2])), match.end()}
    for starts in (singles | blocks, blocks):
        parts = _merged(starts, kinds)
        if 1 < len(parts) <= _SCREEN:
            return parts
    size = max(_WHOLE, math.ceil(count / _SCREEN))
    return _merged(range(size, count, size), kinds)


def _kinds(boxes: Sequence[Box]) -> str:
    """Write a character for each box, the same for the same op with the same sizes."""
    numbers: dict[str, int] = {}
    kinds = ""
    for box in boxes:
        # The names of ends and of symbolic dimensions differ from layer to layer.
        title, types = box.title, box.labels
        if box.kind == "end":
            title, types = "", box.rows
        sizes = re.findall(r"\b\d+\b", " ".join(types))
        kind = " ".join([title, box.mark, *sizes])
        kinds += chr(numbers.setdefault(kind, len(numbers)))
    return kinds


def _merged(starts: Iterable[int], kinds: str, depth: int = 0) -> list[_Part]:
    """Divide boxes into blocks, and make a part of blocks of the same structure."""
    parts = []
    borders = sorted({0, *starts, len(kinds)})
    blocks = [range(*ends) for ends in pairwise(borders)]
    for _, alike in groupby(blocks, lambda block: kinds[block.start : block.stop]):
        part = _Part(list(alike), depth)
        boxes = range(part.blocks[0].start, part.blocks[-1].stop)
        if len(boxes) < _FEWEST:
            parts += [_Part([range(box, box + 1)], depth) for box in boxes]
        else:
            parts.append(part)
    return parts


def _box(graph: BoxGraph, part: _Part) -> Box:
    """Draw a part as one box with its worst number, and the block that has it inside."""
    blocks = part.blocks
    boxes = graph.boxes[blocks[0].start : blocks[-1].stop]
    if len(boxes) == 1:
        return boxes[0]
    numbers = np.array([-np.inf if box.value is None else box.value for box in boxes])
    worst = int(numbers.argmax())
    block = blocks[worst // len(blocks[0])]
    first, last = _name(graph, blocks[0], part.depth), _name(graph, blocks[-1], part.depth)
    title = " … ".join(dict.fromkeys([first, last]))
    words = plural(len(block), "node")
    if len(blocks) > 1:
        words = f"× {len(blocks)}, {words} each"
    rows = [f"▸ {words}"]
    value = boxes[worst].value
    if value is not None and first != last:
        rows.append(f"the largest is in {_name(graph, block, part.depth)}")
    if value is not None and graph.scale and graph.scale.unit:
        rows.append(f"{quantity(numbers[numbers > -np.inf].sum(), graph.scale.unit)} in all")
    # An origin matters more than anything else.
    mark = max([box.mark for box in boxes], key="origin".__eq__)
    return Box(
        title,
        tuple(rows),
        "folded",
        value=value,
        mark=mark,
        about="\n".join([title, *rows]),
        names=(f"{len(boxes)} boxes from {boxes[0].names}",),
        inside=lambda: fold(graph.part(block)),
    )


def _name(graph: BoxGraph, block: range, depth: int) -> str:
    """Name a block by its scope, or else by the ops of its first and last box."""
    first, last = graph.boxes[block.start], graph.boxes[block.stop - 1]
    if depth and first.scope:
        return sanitize(first.scope[:depth][-1], 40)
    return sanitize(" … ".join(dict.fromkeys([first.title, last.title])), 60)

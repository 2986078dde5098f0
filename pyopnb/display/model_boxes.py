"""Turn the nodes of a graph, body or function into boxes with texts, contents and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnx import NodeProto

from pyopnb.common import plural, sanitize
from pyopnb.display.model_info import (
    Scope,
    attrs_of,
    constant_text,
    module_path,
    title_of,
)
from pyopnb.display.svg.boxes import Box, BoxGraph, Line, plain_mark
from pyopnb.display.svg.colors import ColorScale
from pyopnb.engine import protos, registry

__all__ = ["GraphStyle", "graph_of", "text_lines"]

# A row of constants has about this many characters.
_ROW = 38
# How many rows of constants a box shows; its card has the others.
_MOST_ROWS = 2
# The card of a box is cut to this many lines of this many characters.
_LINES, _LONGEST = 24, 300


@dataclass(frozen=True)
class GraphStyle:
    """The options of a picture beyond the model itself.

    Attributes
    ----------
    values, marks : mapping
        By the ids of nodes.
    names : bool
        Whether boxes have the nodes' names.
    legend : str
        The name of the values.
    notes : mapping
        By the names of tensors. The first line is the tensor's value, which replaces its
        type; it may be empty.
    scale : ColorScale, optional
        The colors of the values.
    """

    values: Mapping[int, float]
    marks: Mapping[int, str]
    names: bool
    legend: str
    notes: Mapping[str, str]
    scale: ColorScale | None


def graph_of(scope: Scope, style: GraphStyle) -> BoxGraph:
    """Draw a graph, body or function as boxes.

    Parameters
    ----------
    scope : Scope
        Folded.
    """
    builder = _GraphBuilder(scope, style)
    for name in scope.inputs:
        builder.sources.setdefault(name, (builder.add(builder.end(name)), 0))
    targets = []
    for node in scope.nodes:
        number = builder.add(builder.node(node))
        targets.append(number)
        for port, name in enumerate(node.output):
            if name:
                builder.sources.setdefault(name, (number, port))
    # Lines come last, so that the boxes of nodes are numbered in their order.
    for number, names in zip(targets, builder.reads, strict=True):
        for name in names:
            if name in builder.sources or scope.constant(name) is None:
                builder.connect(name, number)
    for name in scope.outputs:
        builder.connect(name, builder.add(builder.end(name)))
    return BoxGraph(builder.boxes, builder.lines, style.scale, style.legend)


class _GraphBuilder:
    """The boxes and lines so far, and which box and port makes each name."""

    def __init__(self, scope: Scope, style: GraphStyle) -> None:
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.sources: dict[str, tuple[int, int]] = {}
        self._origins: dict[str, int] = {}
        self.reads = [scope.reads(node) for node in scope.nodes]
        self._scope, self._style = scope, style
        self._used = {name for names in self.reads for name in names}

    def add(self, box: Box) -> int:
        """Add a box and return its index."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def end(self, name: str) -> Box:
        """Draw an input or output."""
        notation = self._scope.type_of(name)
        rows = (notation,) if notation else ()
        about = text_lines([self._tensor(name, notation)])
        return Box(name, rows, "end", about=about, names=(name,))

    def node(self, node: NodeProto) -> Box:
        """Draw a node."""
        constants = _constants(self._scope, node)
        attrs = attrs_of(node, self._scope.info.operator(node)[1])
        folded = []
        for title, body in self._scope.info.bodies(node):
            folded.append(f"▸ {title}: {plural(len(body.node), 'node')}")
        look = "node"
        if folded:
            look = "folded"
        if registry.find(node.domain, node.op_type) or node.op_type == "PyOp":
            look = "own"
        # Exporters write long paths that differ at their ends.
        name = ""
        if self._style.names:
            name = (node.name or protos.first_output(node))[-40:]
        # The types of the outputs that are read.
        labels = [self._scope.type_of(name) if name in self._used else "" for name in node.output]
        about = [title_of(node), node.name, *constants, attrs, *self._about_outputs(node)]
        return Box(
            title_of(node),
            tuple(filter(None, [name, *constants[:_MOST_ROWS], attrs, *folded])),
            look,
            tuple(labels),
            self._style.values.get(id(node)),
            self._style.marks.get(id(node), ""),
            text_lines(filter(None, about)),
            tuple(filter(None, node.output)),
            module_path(node),
        )

    def _about_outputs(self, node: NodeProto) -> list[str]:
        """Tell the number that colors a node, unless a note does, and describe its outputs."""
        about = []
        value = self._style.values.get(id(node))
        if value is not None and not any(name in self._style.notes for name in node.output):
            about.append(f"{self._style.legend or 'number'}: {value:.6g}")
        for name in filter(None, node.output):
            about.append(self._tensor(name, self._scope.type_of(name)))
        return about

    def _tensor(self, name: str, kind: str) -> str:
        value, line, more = self._style.notes.get(name, "").partition("\n")
        text = value or kind
        return (f"{name}: {text}" if text else name) + line + more

    def connect(self, name: str, target: int) -> None:
        """Add a line to box ``target`` from the producer of a name."""
        source, port = self.sources.get(name, (target, 0))
        # A tensor that only a later node makes closes a cycle: the model is broken, and the
        # picture has no line up.
        if source >= target:
            if name not in self._origins:
                self._origins[name] = self.add(self._origin(name))
            source = self._origins[name]
            port = 0
        # The lines of a box that only one of two models has look like it.
        marks = [plain_mark(self.boxes[source].mark), plain_mark(self.boxes[target].mark)]
        sides = [mark for mark in marks if mark in ("added", "removed")]
        self.lines.append(Line(source, target, port, sides[0] if sides else ""))

    def _origin(self, name: str) -> Box:
        """Draw the origin of a name that no node of this graph makes."""
        value = self._scope.constant(name)
        if value is not None:
            return Box("constant", (constant_text(value),))
        outer = self._scope.graph.outer
        if outer is not None and outer.resolve(name) is not None:
            return Box(name, ("from outside",), "far")
        return Box(name, ("nothing makes it",), "wrong")


def _constants(scope: Scope, node: NodeProto) -> list[str]:
    """Write the constants of a node for its box, as many as fit into each row."""
    rows: list[str] = []
    for text in scope.constant_rows(node):
        if rows and len(rows[-1]) + len(text) <= _ROW:
            rows[-1] += f"  {text}"
        else:
            rows.append(text)
    return rows


def text_lines(texts: Iterable[str]) -> str:
    """Join untrusted texts line by line, each cut."""
    lines = "\n".join(texts).split("\n")[:_LINES]
    return "\n".join([sanitize(line, _LONGEST) for line in lines])

"""The nodes of a graph, body or function as boxes: the text of each box, what is inside it, and the lines between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from onnx import NodeProto

from pyopnb.display.model_info import (
    LEGACY_OP,
    Scope,
    attrs_of,
    constant_text,
    title_of,
)
from pyopnb.display.svg.boxes import Box, Graph, Line
from pyopnb.display.svg.marks import plain_mark
from pyopnb.models.nodes import first_output
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.registry import registry

__all__ = ["GraphStyle", "graph_of", "text_lines"]

# A row of constants has about this many characters.
_ROW = 38
# A box shows this many rows of constants; it tells the others when it is pointed at.
_MOST_ROWS = 2
# What a box tells is cut to this many lines of this many characters.
_LINES, _LONGEST = 24, 300


@dataclass(frozen=True)
class GraphStyle:
    """What a picture shows beyond the model itself.

    Attributes
    ----------
    values, marks : mapping
        By the ids of nodes.
    names, shapes : bool
        Whether boxes have the nodes' names, and lines the types.
    legend : str
        What the values are.
    notes : mapping
        By the names of tensors. The first line is the tensor's value, which replaces its type; it may be empty.
    """

    values: Mapping[int, float] = field(default_factory=dict)
    marks: Mapping[int, str] = field(default_factory=dict)
    names: bool = True
    shapes: bool = True
    legend: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


def graph_of(scope: Scope, style: GraphStyle, opened: Mapping[int, Graph]) -> Graph:
    """Draw a graph, body or function as boxes.

    Parameters
    ----------
    scope : Scope
        Folded.
    style : GraphStyle
    opened : mapping
        The pictures of bodies and functions to draw inside their nodes, by the ids of their protobufs.

    Returns
    -------
    Graph
    """
    builder = _GraphBuilder(scope, style)
    for name in scope.inputs:
        builder.sources.setdefault(name, (builder.add(builder.end(name)), 0))
    targets = []
    for node in scope.nodes:
        number = builder.add(builder.node(node, opened))
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
    return Graph(builder.boxes, builder.lines)


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
        kind = self._scope.type_of(name)
        rows = (kind,) if kind and self._style.shapes else ()
        about = text_lines([self._tensor(name, kind)])
        return Box(sanitize(name, 60), rows, "end", about=about, names=(name,))

    def node(self, node: NodeProto, opened: Mapping[int, Graph]) -> Box:
        """Draw a node, with the pictures of its bodies that are opened inside it."""
        scope, style = self._scope, self._style
        constants = _constants(scope, node)
        attrs = " ".join(attrs_of(node, scope.info.operator(node)[1]))
        label = node.name or first_output(node)
        rows = [sanitize(label[-40:], 40)] if style.names and label else []
        rows += constants[:_MOST_ROWS]
        about = [title_of(node), node.name, *constants, attrs]
        if attrs:
            rows.append(attrs)

        inside = []
        bodies = scope.info.bodies(node)
        for title, body in bodies:
            if id(body) in opened:
                graph = opened[id(body)]
                inside.append(Graph(graph.boxes, graph.lines, title))
            else:
                rows.append(f"▸ {title}: {plural(len(body.node), 'node')}")
        kind = "opened" if inside else "folded" if bodies else "node"
        if registry.find(node.domain, node.op_type) or node.op_type == LEGACY_OP:
            kind = "own"

        value = style.values.get(id(node))
        if value is not None and not any(name in style.notes for name in node.output):
            about.append(f"{style.legend or 'number'}: {value:.6g}")
        labels, names = [], []
        for name in node.output:
            tensor_type = scope.type_of(name) if name else ""
            labels.append(tensor_type if style.shapes and name in self._used else "")
            if name:
                names.append(name)
                about.append(self._tensor(name, tensor_type))
        return Box(
            title_of(node),
            tuple(rows),
            kind,
            tuple(labels),
            value,
            style.marks.get(id(node), ""),
            tuple(inside),
            text_lines(filter(None, about)),
            tuple(names),
        )

    def _tensor(self, name: str, kind: str) -> str:
        value, line, more = self._style.notes.get(name, "").partition("\n")
        text = value or kind
        return (f"{name}: {text}" if text else name) + line + more

    def connect(self, name: str, target: int) -> None:
        """Add a line to box ``target`` from the producer of a name."""
        source, port = self.sources.get(name, (target, 0))
        # What only a later node makes closes a cycle: the model is broken, and the picture has no line up.
        if source >= target:
            if name not in self._origins:
                self._origins[name] = self.add(self._origin(name))
            source, port = self._origins[name], 0
        mark = _side(self.boxes[source].mark) or _side(self.boxes[target].mark)
        self.lines.append(Line(source, target, port, mark))

    def _origin(self, name: str) -> Box:
        """Draw where a name comes from that no node of this graph makes."""
        value = self._scope.constant(name)
        if value is not None:
            return Box("constant", (constant_text(value),))
        outer = self._scope.graph.outer
        if outer is not None and outer.resolve(name) is not None:
            return Box(sanitize(name, 60), ("from outside",), "far")
        return Box(sanitize(name, 60), ("nothing makes it",), "wrong")


def _constants(scope: Scope, node: NodeProto) -> list[str]:
    """Write what a node's box says of its constants, as many as fit into each row."""
    rows: list[str] = []
    for text in scope.constant_rows(node):
        if rows and len(rows[-1]) + len(text) <= _ROW:
            rows[-1] += f"  {text}"
        else:
            rows.append(text)
    if node.op_type == LEGACY_OP:
        values = {a.name: a.s.decode(errors="replace") for a in node.attribute}
        path = f"{values.get('module', '?')}.{values.get('class_name', '?')}"
        rows.append(sanitize(path, 60))
    return rows


def text_lines(texts: Iterable[str]) -> str:
    """Join untrusted texts line by line, each cut."""
    lines = "\n".join(texts).split("\n")[:_LINES]
    return "\n".join([sanitize(line, _LONGEST) for line in lines])


def _side(mark: str) -> str:
    """Return the mark of the lines of a box that only one of two models has."""
    plain = plain_mark(mark)
    return plain if plain in ("added", "removed") else ""

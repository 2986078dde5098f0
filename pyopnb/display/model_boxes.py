"""The nodes of a graph, body or function as boxes: the text of each box, what is folded into it, and the lines between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    helper,
    numpy_helper,
)

from pyopnb.display.svg.boxes import Box, Graph, Line
from pyopnb.display.svg.marks import plain_mark
from pyopnb.errors import ModelError
from pyopnb.models.index import GraphIndex
from pyopnb.models.nodes import (
    constant_value,
    first_output,
    imported_versions,
    is_constant,
    named_bodies,
    type_of_proto,
)
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.models.support.ort_types import kind_of, to_notation
from pyopnb.models.types import Types
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.registry import registry
from pyopnb.ops.types import ANY

__all__ = [
    "Constant",
    "Container",
    "Facts",
    "Scope",
    "Wishes",
    "attrs_of",
    "constant_text",
    "graph_of",
    "text_lines",
    "title_of",
]

_MOST_INFERRED = 20_000  # nodes up to which a picture has inferred types
_SMALL = 4  # elements up to which a constant's values are displayed instead of its shape
_ROW = 38  # characters of a row
_LINES, _LONGEST = 24, 300  # of what a box says when it is pointed at
_MOST_INSIDE = 2_000  # boxes that are drawn inside one
_LEGACY = "PyOp"
_LEGACY_ATTRS = ("module", "class_name", "compute", "input_types", "output_types")

Container = GraphProto | FunctionProto
Constant = TensorProto | SparseTensorProto | tuple[int, ...]
"""A tensor, or the shape of one whose values are not looked at."""


# ---- a whole model


class Facts:
    """Types and operators of a model, as far as a picture needs them.

    Attributes
    ----------
    model : ModelProto
    remarks : list of str
        What is unknown, and why.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.remarks: list[str] = []
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self._versions = imported_versions(model)
        self._texts: dict[tuple[int, str], str] = {}
        self._operators: dict[tuple[str, str], tuple[list[str], dict[str, Any]]] = {}

    @cached_property
    def _types(self) -> Types:
        types = Types(self.model, limit=_MOST_INFERRED)
        if types.failure:
            self.remarks.append(f"types are those that the file declares: {types.failure}")
        return types

    def type_of(self, container: Container, name: str) -> str:
        """A value's type as text; nothing where it is unknown."""
        key = id(container), name
        if key not in self._texts:
            found = self._types.find(container, name)
            kind = ANY if found is None else type_of_proto(found)
            self._texts[key] = (
                str(kind) if kind != ANY else to_notation(kind_of(found) or "") if found else ""
            )
        return self._texts[key]

    def operator(self, node: NodeProto) -> tuple[list[str], dict[str, Any]]:
        """The names of the inputs of a node's operator, and the defaults of its attributes."""
        domain = canonical_domain(node.domain)
        key = (domain, node.op_type)
        if key not in self._operators:
            schema = find_schema(domain, node.op_type, self._versions.get(domain))
            names = [port.name for port in schema.inputs] if schema else []
            defaults = (
                {name: a.default_value for name, a in schema.attributes.items()} if schema else {}
            )
            values = {
                n: helper.get_attribute_value(d)
                for n, d in defaults.items()
                if d.type != AttributeProto.UNDEFINED
            }
            self._operators[key] = names, values
        return self._operators[key]

    def function(self, node: NodeProto) -> FunctionProto | None:
        """The local function that a node calls."""
        return self.functions.get((node.domain, node.op_type))

    def held(self, node: NodeProto) -> list[tuple[str, Container]]:
        """The bodies of a node or the function that it calls, each with a title."""
        function = self.function(node)
        if function is not None:
            return [(f"function {title_of(node)}", function)]
        return [(sanitize(name), body) for name, body in named_bodies(node)]


# ---- one graph, body or function


class Scope:
    """A graph, body or function as it is drawn.

    Attributes
    ----------
    graph : GraphIndex
    container : GraphProto or FunctionProto
        The protobuf of ``graph``.
    facts : Facts
    outer : Scope or None
        Of a body: the scope around it.
    nodes : list of NodeProto
        In an order in which they can run, if there is one; without those that `fold` removed.
    constants : dict
        Name to tensor, or to a shape.
    """

    def __init__(self, graph: GraphIndex, facts: Facts, outer: Scope | None = None) -> None:
        self.graph, self.container, self.facts, self.outer = graph, graph.scope, facts, outer
        self.constants: dict[str, Constant] = {**graph.initializers}
        self.inputs, self.outputs = graph.inputs, graph.outputs
        try:
            graph.refuse_duplicates()
            graph.refuse_cycles()
        except ModelError as error:  # a broken graph is drawn as well
            facts.remarks.append(str(error))
        self.nodes = [node for _, node in graph.in_order()]
        self._index = {id(node): index for index, node in enumerate(graph.nodes)}

    def fold(self, kept: set[int]) -> None:
        """Turn nodes whose output is constant into constants, except those whose ids are in ``kept``."""
        ends = set(self.outputs)
        left = []
        for node in self.nodes:
            value = None if id(node) in kept or ends & set(node.output) else self._constant(node)
            if value is None:
                left.append(node)
            else:
                self.constants[node.output[0]] = value
        self.nodes = left

    def _constant(self, node: NodeProto) -> Constant | None:
        if (
            len(node.output) != 1
            or not node.output[0]
            or canonical_domain(node.domain)
            or registry.find(node.domain, node.op_type)
        ):
            return None
        if is_constant(node):
            return constant_value(node)
        shape = (
            self.constants.get(node.input[0])
            if node.op_type == "ConstantOfShape" and len(node.input) == 1
            else None
        )
        values = _values(shape) if isinstance(shape, TensorProto) else None
        return None if values is None else tuple(int(size) for size in values.reshape(-1))

    def constant(self, name: str) -> Constant | None:
        """The constant of a name, in this scope or one around it; None for a name that is computed."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.constants:
                return scope.constants[name]
            if scope.graph.defines(name):
                return None
            scope = scope.outer
        return None

    def used(self, node: NodeProto) -> list[str]:
        """The names that a node or a body in it reads."""
        return list(dict.fromkeys(name for _, name in self.graph.reads(self._index[id(node)])))

    def seen_outside(self, name: str) -> bool:
        """Whether a graph around this one defines the name."""
        return self.graph.outer is not None and self.graph.outer.resolve(name) is not None

    def rows(self, node: NodeProto) -> list[str]:
        """What a node's box says of its constants, line by line."""
        names = self.facts.operator(node)[0]
        texts = []
        for place, name in enumerate(node.input):
            value = self.constant(name) if name else None
            if value is not None:
                port = names[min(place, len(names) - 1)] if names else f"input {place}"
                texts.append(f"{port} {constant_text(value)}")
        rows = list(_wrap(texts))
        if node.op_type == _LEGACY:
            values = {a.name: a.s.decode(errors="replace") for a in node.attribute}
            rows.append(
                sanitize(f"{values.get('module', '?')}.{values.get('class_name', '?')}", 60)
            )
        return rows


def _wrap(texts: Iterable[str]) -> Iterator[str]:
    row = ""
    for text in texts:
        if row and len(row) + len(text) > _ROW:
            yield row
            row = text
        else:
            row = f"{row}  {text}" if row else text
    if row:
        yield row


def _values(tensor: TensorProto) -> np.ndarray | None:
    """The values of a small constant; None where they are external, too many, or damaged."""
    count = math.prod(tensor.dims)
    if count > 16 or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):  # damaged: its shape is displayed instead
        return None


def constant_text(value: Constant) -> str:
    """A constant in a box: ``⟨64×3⟩``, or ``= 0.5`` if it is small."""
    dims = value if isinstance(value, tuple) else tuple(value.dims)
    values = _values(value) if isinstance(value, TensorProto) else None
    if values is not None and values.size <= _SMALL and values.ndim <= 1:
        text = ",".join(
            _short(one.decode(errors="replace") if isinstance(one, bytes) else one)
            for one in values.reshape(-1).tolist()
        )
        return f"= {text}" if values.ndim == 0 else f"= [{text}]"
    return f"⟨{'×'.join(map(str, dims))}⟩" if dims else "⟨⟩"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return sanitize(value.decode(errors="replace") if isinstance(value, bytes) else value, 20)


def attrs_of(node: NodeProto, defaults: Mapping[str, Any]) -> list[str]:
    """The attributes of a node that differ from their defaults, abbreviated."""
    texts = []
    for attribute in node.attribute:
        if node.op_type == _LEGACY and attribute.name in _LEGACY_ATTRS:
            continue
        text = _attribute(attribute, defaults)
        if text:
            texts.append(f"{sanitize(attribute.name, 30)}={text}")
    return texts


def _attribute(attribute: AttributeProto, defaults: Mapping[str, Any]) -> str:
    if attribute.ref_attr_name:
        return f"@{sanitize(attribute.ref_attr_name, 30)}"
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return constant_text(attribute.t).removeprefix("= ")
    if kind not in (
        AttributeProto.INT,
        AttributeProto.FLOAT,
        AttributeProto.STRING,
        AttributeProto.INTS,
        AttributeProto.FLOATS,
    ):
        return "" if kind in (AttributeProto.GRAPH, AttributeProto.GRAPHS) else "…"
    value = helper.get_attribute_value(attribute)
    if attribute.name in defaults and defaults[attribute.name] == value:
        return ""
    if kind in (AttributeProto.INTS, AttributeProto.FLOATS):
        return ",".join(map(_short, value[:6])) + (",…" if len(value) > 6 else "")
    return _short(value)


def title_of(node: NodeProto) -> str:
    """The op of a node, with its domain unless that is ONNX's own."""
    domain = canonical_domain(node.domain)
    return sanitize(f"{domain}::{node.op_type}" if domain else node.op_type or "(no op type)", 80)


# ---- boxes and lines


@dataclass(frozen=True)
class Wishes:
    """What a picture shows beyond the model itself; values and marks by the ids of nodes, notes by the names of tensors.

    The first line of a note is the tensor's value, which replaces its type; it may be empty.
    """

    values: Mapping[int, float] = field(default_factory=dict)
    marks: Mapping[int, str] = field(default_factory=dict)
    names: bool = True
    shapes: bool = True
    legend: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)


def graph_of(scope: Scope, wishes: Wishes, opened: Mapping[int, Graph], title: str = "") -> Graph:
    """A graph, body or function as boxes.

    Parameters
    ----------
    scope : Scope
        Folded.
    wishes : Wishes
    opened : mapping
        The pictures of bodies and functions to draw inside their nodes, by the ids of their protobufs.
    title : str
    """
    boxes = _Boxes(scope, wishes)
    for name in scope.inputs:
        boxes.producers.setdefault(name, (boxes.add(boxes.end(name)), 0))
    for place, node in enumerate(scope.nodes):
        number = boxes.add(boxes.node(node, opened))
        for port, name in enumerate(node.output):
            if name:
                boxes.producers.setdefault(name, (number, port))
        boxes.numbers[place] = number
    for place, names in enumerate(boxes.reads):
        for name in names:
            boxes.connect(name, boxes.numbers[place])
    for name in scope.outputs:
        boxes.connect(name, boxes.add(boxes.end(name)), constant=True)
    return Graph(boxes.boxes, boxes.lines, title)


class _Boxes:
    def __init__(self, scope: Scope, wishes: Wishes) -> None:
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.producers: dict[str, tuple[int, int]] = {}
        self.numbers: dict[int, int] = {}
        self._scope, self._wishes = scope, wishes
        self.reads = [scope.used(node) for node in scope.nodes]
        self._used = {name for names in self.reads for name in names}

    def add(self, box: Box) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1

    def end(self, name: str) -> Box:
        """An input or output."""
        kind = self._scope.facts.type_of(self._scope.container, name)
        rows = (kind,) if kind and self._wishes.shapes else ()
        return Box(
            sanitize(name, 60),
            rows,
            "end",
            about=text_lines([self._tensor(name, kind)]),
            names=(name,),
        )

    def node(self, node: NodeProto, opened: Mapping[int, Graph]) -> Box:
        scope, wishes = self._scope, self._wishes
        title, label = title_of(node), node.name or first_output(node)
        constants, attrs = scope.rows(node), " ".join(attrs_of(node, scope.facts.operator(node)[1]))
        rows = [sanitize(label[-40:], 40)] if wishes.names and label else []
        rows += [*constants[:2], *([attrs] if attrs else [])]
        held = scope.facts.held(node)
        inside = [opened[id(body)] for _, body in held if id(body) in opened]
        if len(inside) < len(held):
            rows += [
                f"▸ {what}: {plural(len(body.node), 'node')}"
                for what, body in held
                if id(body) not in opened
            ]
        kind = "opened" if inside else "folded" if held else "node"
        if registry.find(node.domain, node.op_type) or node.op_type == _LEGACY:
            kind = "own"
        types = {name: scope.facts.type_of(scope.container, name) for name in node.output if name}
        labels = tuple(
            types[name] if name in self._used and wishes.shapes else "" for name in node.output
        )
        value, mark, names = (
            wishes.values.get(id(node)),
            wishes.marks.get(id(node), ""),
            tuple(types),
        )
        about = [
            title,
            *([node.name] if node.name else []),
            *constants,
            *([attrs] if attrs else []),
        ]
        if value is not None and not any(name in wishes.notes for name in names):
            about.append(f"{wishes.legend or 'number'}: {value:.6g}")
        about += [self._tensor(name, kind) for name, kind in types.items()]
        return Box(
            title, tuple(rows), kind, labels, value, mark, tuple(inside), text_lines(about), names
        )

    def _tensor(self, name: str, kind: str) -> str:
        value, line, more = self._wishes.notes.get(name, "").partition("\n")
        return (f"{name}: {value or kind}" if value or kind else name) + line + more

    def connect(self, name: str, target: int, *, constant: bool = False) -> None:
        """Add a line to box ``target`` from the producer of a name."""
        value = self._scope.constant(name)
        if value is not None and name not in self.producers:
            if not constant:
                return
            self.producers[name] = self.add(Box("constant", (constant_text(value),))), 0
        if name not in self.producers:
            outside = self._scope.seen_outside(name)
            rows = ("from outside",) if outside else ("nothing makes it",)
            self.producers[name] = (
                self.add(Box(sanitize(name, 60), rows, "far" if outside else "wrong")),
                0,
            )
        source, port = self.producers[name]
        mark = _side(self.boxes[source].mark) or _side(self.boxes[target].mark)
        self.lines.append(Line(source, target, port, mark))


def text_lines(texts: Iterable[str]) -> str:
    """Untrusted texts, line by line, each cut."""
    return "\n".join(
        [sanitize(line, _LONGEST) for text in texts for line in text.split("\n")][:_LINES]
    )


def _side(mark: str) -> str:
    """The mark of the lines of a box that only one of two models has."""
    plain = plain_mark(mark)
    return plain if plain in ("added", "removed") else ""

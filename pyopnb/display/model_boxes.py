"""The nodes of a graph, body or function as boxes: what stands in a box, what is folded into it, and what leads to what."""

from __future__ import annotations

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

from pyopnb.display.svg.graph import Box, Graph, Line
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
from pyopnb.ops.errors import ModelError, plural, sanitize
from pyopnb.ops.registry import canonical_domain, registry
from pyopnb.ops.types import ANY

__all__ = ["Constant", "Container", "Facts", "Scope", "Wishes", "attrs_of", "constant_text", "graph_of", "title_of"]

_MOST_INFERRED = 20_000  # nodes of a model whose types are inferred for a picture
_SMALL = 4  # elements of a constant whose values are shown instead of its shape
_ROW = 38  # characters of a row
_MOST_INSIDE = 2_000  # boxes that are drawn inside one
_RETIRED = "PyOp"
_OF_RETIRED = ("module", "class_name", "compute", "input_types", "output_types")

Container = GraphProto | FunctionProto
Constant = TensorProto | SparseTensorProto | tuple[int, ...]
"""A tensor, or the shape of one whose values are not looked at."""


# ---- what is known of a whole model


class Facts:
    """Types and operators of a model, as far as a picture needs them.

    Attributes
    ----------
    model : ModelProto
    remarks : list of str
        What could not be found out, and why.
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
            self._texts[key] = str(kind) if kind != ANY else to_notation(kind_of(found) or "") if found else ""
        return self._texts[key]

    def operator(self, node: NodeProto) -> tuple[list[str], dict[str, Any]]:
        """The names of the inputs of a node's operator, and the values that its attributes have by themselves."""
        domain = canonical_domain(node.domain)
        key = (domain, node.op_type)
        if key not in self._operators:
            schema = find_schema(domain, node.op_type, self._versions.get(domain))
            names = [port.name for port in schema.inputs] if schema else []
            defaults = {name: a.default_value for name, a in schema.attributes.items()} if schema else {}
            values = {n: helper.get_attribute_value(d) for n, d in defaults.items() if d.type != AttributeProto.UNDEFINED}
            self._operators[key] = names, values
        return self._operators[key]

    def function(self, node: NodeProto) -> FunctionProto | None:
        """The local function that a node calls."""
        return self.functions.get((node.domain, node.op_type))

    def held(self, node: NodeProto) -> list[tuple[str, Container]]:
        """The graphs that a node holds or calls, and what each is to it."""
        function = self.function(node)
        if function is not None:
            return [(f"function {title_of(node)}", function)]
        return [(sanitize(name), body) for name, body in named_bodies(node)]


# ---- one graph, body or function


class Scope:
    """A graph, body or function with the names that it sees.

    Attributes
    ----------
    graph : GraphIndex
    container : GraphProto or FunctionProto
        What ``graph`` reads.
    facts : Facts
    outer : Scope or None
        Of a body, what it stands in.
    nodes : list of NodeProto
        In an order in which they can run, as far as there is one; without those that `fold` took out.
    constants : dict
        Name to its tensor, or to the shape alone.
    """

    def __init__(self, graph: GraphIndex, facts: Facts, outer: Scope | None = None) -> None:
        self.graph, self.container, self.facts, self.outer = graph, graph.scope, facts, outer
        self.constants: dict[str, Constant] = {**graph.initializers}
        self.inputs, self.outputs = graph.inputs, graph.outputs
        try:
            graph.refuse_duplicates()
            graph.refuse_cycles()
        except ModelError as error:  # it is drawn all the same
            facts.remarks.append(str(error))
        self.nodes = [node for _, node in graph.in_order()]
        self._index = {id(node): index for index, node in enumerate(graph.nodes)}

    def fold(self, kept: set[int]) -> None:
        """Take nodes that only give a constant for constants, those at ``kept`` aside: ids of nodes that shall be seen."""
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
        shape = self.constants.get(node.input[0]) if node.op_type == "ConstantOfShape" and len(node.input) == 1 else None
        values = _values(shape) if isinstance(shape, TensorProto) else None
        return None if values is None else tuple(int(size) for size in values.reshape(-1))

    def constant(self, name: str) -> Constant | None:
        """What a name always is; also the constants of what this stands in."""
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
        """What is folded into a node's box: its constants and its attributes."""
        names, defaults = self.facts.operator(node)
        told = []
        for place, name in enumerate(node.input):
            value = self.constant(name) if name else None
            if value is not None:
                port = names[min(place, len(names) - 1)] if names else f"input {place}"
                told.append(f"{port} {constant_text(value)}")
        rows = list(_in_rows(told))
        if node.op_type == _RETIRED:
            values = {a.name: a.s.decode(errors="replace") for a in node.attribute}
            rows.append(sanitize(f"{values.get('module', '?')}.{values.get('class_name', '?')}", 60))
        attrs = attrs_of(node, defaults)
        return rows[:2] + ([" ".join(attrs)] if attrs else [])


def _in_rows(texts: Iterable[str]) -> Iterator[str]:
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
    """The values of a small constant; None where they lie in a file, are many, or cannot be read."""
    count = int(np.prod([float(size) for size in tensor.dims])) if tensor.dims else 1
    if count > 16 or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):  # a broken file's tensor: its shape is shown instead
        return None


def constant_text(value: Constant) -> str:
    """A constant as a box shows it: ``⟨64×3⟩``, or ``= 0.5`` where it is small."""
    dims = value if isinstance(value, tuple) else tuple(value.dims)
    values = _values(value) if isinstance(value, TensorProto) else None
    if values is not None and values.size <= _SMALL and values.ndim <= 1:
        text = ",".join(
            _short(one.decode(errors="replace") if isinstance(one, bytes) else one) for one in values.reshape(-1).tolist()
        )
        return f"= {text}" if values.ndim == 0 else f"= [{text}]"
    return f"⟨{'×'.join(map(str, dims))}⟩" if dims else "⟨⟩"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return sanitize(value.decode(errors="replace") if isinstance(value, bytes) else value, 20)


def attrs_of(node: NodeProto, defaults: Mapping[str, Any]) -> list[str]:
    """The attributes of a node that are not what they are by themselves, shortly."""
    told = []
    for attribute in node.attribute:
        if node.op_type == _RETIRED and attribute.name in _OF_RETIRED:
            continue
        text = _attribute(attribute, defaults)
        if text:
            told.append(f"{sanitize(attribute.name, 30)}={text}")
    return told


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
    """The op of a node, with its domain where that is not ONNX's own."""
    domain = canonical_domain(node.domain)
    return sanitize(f"{domain}::{node.op_type}" if domain else node.op_type or "(no op type)", 80)


# ---- boxes and lines


@dataclass(frozen=True)
class Wishes:
    """What a picture shall show beyond the model itself; by the ids of nodes."""

    values: Mapping[int, float] = field(default_factory=dict)
    marks: Mapping[int, str] = field(default_factory=dict)
    names: bool = True
    shapes: bool = True


def graph_of(scope: Scope, wishes: Wishes, opened: Mapping[int, Graph], title: str = "") -> Graph:
    """A graph, body or function as boxes.

    Parameters
    ----------
    scope : Scope
        Folded.
    wishes : Wishes
    opened : mapping
        The pictures of bodies and functions that are to be drawn inside, by their ids.
    title : str
    """
    made = _Boxes(scope, wishes)
    for name in scope.inputs:
        made.makers.setdefault(name, (made.add(made.end(name)), 0))
    for place, node in enumerate(scope.nodes):
        number = made.add(made.node(node, opened))
        for port, name in enumerate(node.output):
            if name:
                made.makers.setdefault(name, (number, port))
        made.numbers[place] = number
    for place, node in enumerate(scope.nodes):
        for name in scope.used(node):
            made.lead(name, made.numbers[place])
    for name in scope.outputs:
        made.lead(name, made.add(made.end(name)), constant=True)
    return Graph(made.boxes, made.lines, title)


class _Boxes:
    def __init__(self, scope: Scope, wishes: Wishes) -> None:
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.makers: dict[str, tuple[int, int]] = {}
        self.numbers: dict[int, int] = {}
        self._scope, self._wishes = scope, wishes
        self._used = {name for node in scope.nodes for name in scope.used(node)}

    def add(self, box: Box) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1

    def end(self, name: str) -> Box:
        """An input or output."""
        kind = self._scope.facts.type_of(self._scope.container, name) if self._wishes.shapes else ""
        return Box(sanitize(name, 60), (kind,) if kind else (), "end")

    def node(self, node: NodeProto, opened: Mapping[int, Graph]) -> Box:
        scope, wishes = self._scope, self._wishes
        rows = scope.rows(node)
        if wishes.names and _says_more(node):
            rows.insert(0, sanitize(node.name[-40:], 40))
        held = scope.facts.held(node)
        inside = [opened[id(body)] for _, body in held if id(body) in opened]
        if len(inside) < len(held):
            rows += [f"▸ {what}: {plural(len(body.node), 'node')}" for what, body in held if id(body) not in opened]
        kind = "opened" if inside else "folded" if held else "node"
        if registry.find(node.domain, node.op_type) or node.op_type == _RETIRED:
            kind = "own"
        container = scope.container
        labels = tuple(
            scope.facts.type_of(container, name) if wishes.shapes and name in self._used else "" for name in node.output
        )
        title = title_of(node)
        return Box(title, tuple(rows), kind, labels, wishes.values.get(id(node)), wishes.marks.get(id(node), ""), tuple(inside))

    def lead(self, name: str, target: int, *, constant: bool = False) -> None:
        """A line from whoever makes a name."""
        value = self._scope.constant(name)
        if value is not None and name not in self.makers:
            if not constant:
                return
            self.makers[name] = self.add(Box("constant", (constant_text(value),))), 0
        if name not in self.makers:
            outside = self._scope.seen_outside(name)
            rows = ("from outside",) if outside else ("nothing makes it",)
            self.makers[name] = self.add(Box(sanitize(name, 60), rows, "far" if outside else "wrong")), 0
        source, port = self.makers[name]
        self.lines.append(Line(source, target, port))


def _says_more(node: NodeProto) -> bool:
    """Whether a node's name tells more than that it is the twelfth of its kind."""
    rest = node.name.removeprefix(node.op_type).strip("_0123456789")
    return bool(rest) and node.name != first_output(node)

"""The facts of a model for its picture: types, operators, constants, and words for each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

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

from pyopnb.common import sanitize
from pyopnb.engine import ANY, GraphIndex, onnx_schemas, op_names, ort_types, protos
from pyopnb.errors import ModelError
from pyopnb.models import Types

__all__ = [
    "Constant",
    "Container",
    "ModelInfo",
    "Scope",
    "attrs_of",
    "constant_text",
    "module_path",
    "title_of",
]

# Types of larger models are not inferred, as that would take longer than the picture.
_MOST_INFERRED = 20_000
# A constant with at most this many elements shows its values instead of its shape.
_FEW = 4
# A list in an attribute shows this many items.
_MOST_ITEMS = 6
# Bodies are drawn, so the attributes that hold them are not listed.
_HIDDEN = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
_SHOWN = (
    AttributeProto.INT,
    AttributeProto.FLOAT,
    AttributeProto.STRING,
    AttributeProto.INTS,
    AttributeProto.FLOATS,
)

Container = GraphProto | FunctionProto
Constant = TensorProto | SparseTensorProto


class ModelInfo:
    """Types and operators of a model, as far as a picture needs them.

    Attributes
    ----------
    remarks : list of str
        The unknown types, and why they are unknown.
    functions : dict
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.remarks: list[str] = []
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self._versions = protos.imported_versions(model)

    @cached_property
    def types(self) -> Types:
        """Infer the types of all values."""
        types = Types(self.model, limit=_MOST_INFERRED)
        if types.failure:
            self.remarks.append(f"types are those that the file declares: {types.failure}")
        return types

    def type_of(self, container: Container, name: str) -> str:
        """Write a value's type, or nothing if it is unknown."""
        proto = self.types.find(container, name)
        if proto is None:
            return ""
        tensor_type = protos.type_of_proto(proto)
        if tensor_type != ANY:
            return str(tensor_type)
        # Sequences, maps and optionals have no tensor type.
        return ort_types.to_notation(ort_types.kind_of(proto) or "")

    def operator(self, node: NodeProto) -> tuple[list[str], dict[str, Any]]:
        """Return the input names of a node's operator, and the defaults of its attributes."""
        domain = op_names.canonical_domain(node.domain)
        schema = onnx_schemas.find_schema(domain, node.op_type, self._versions.get(domain))
        if schema is None:
            return [], {}
        names = [port.name for port in schema.inputs]
        defaults = {}
        for name, attribute in schema.attributes.items():
            default = attribute.default_value
            if default.type != AttributeProto.UNDEFINED:
                defaults[name] = helper.get_attribute_value(default)
        return names, defaults

    def bodies(self, node: NodeProto) -> list[tuple[str, Container]]:
        """Return the bodies of a node or the function that it calls, each with a title."""
        function = self.functions.get((node.domain, node.op_type))
        if function is not None:
            return [(f"function {title_of(node)}", function)]
        return [(sanitize(name), body) for name, body in protos.named_bodies(node)]


class Scope:
    """A graph, body or function as it is drawn.

    Attributes
    ----------
    container : GraphProto or FunctionProto
        The protobuf of ``graph``.
    outer : Scope or None
        Of a body: the scope around it.
    nodes : list of NodeProto
        In topological order if there is one, without the nodes that `fold` removed.
    inputs, outputs : list of str
    """

    def __init__(self, graph: GraphIndex, info: ModelInfo, outer: Scope | None = None) -> None:
        self.graph, self.container, self.info, self.outer = graph, graph.scope, info, outer
        self.constants: dict[str, Constant] = dict(graph.initializers)
        self.inputs, self.outputs = graph.inputs, graph.outputs
        try:
            graph.refuse_duplicates()
            graph.refuse_cycles()
        except ModelError as error:  # a broken graph is also drawn
            info.remarks.append(str(error))
        self.nodes = [node for _, node in graph.in_order()]
        self._index = {id(node): index for index, node in enumerate(graph.nodes)}

    def fold(self, kept: set[int]) -> None:
        """Turn Constant nodes into constants, except outputs and nodes with ids in ``kept``."""
        nodes = []
        for node in self.nodes:
            value = None
            # A file may hold a node without outputs.
            is_foldable = protos.is_constant(node) and id(node) not in kept and bool(node.output)
            if is_foldable and node.output[0] not in self.outputs:
                value = protos.constant_value(node)
            if value is None:
                nodes.append(node)
            else:
                self.constants[node.output[0]] = value
        self.nodes = nodes

    def constant(self, name: str) -> Constant | None:
        """Return a constant by name, in this scope or one around it; None if it is computed."""
        if name in self.constants:
            return self.constants[name]
        # A name that is computed here hides a constant of the same name outside.
        if self.outer is None or self.graph.defines(name):
            return None
        return self.outer.constant(name)

    def reads(self, node: NodeProto) -> list[str]:
        """List the names that a node or a body in it reads."""
        return list(dict.fromkeys(name for _, name in self.graph.reads(self._index[id(node)])))

    def type_of(self, name: str) -> str:
        """Write the type of a name of this scope."""
        return self.info.type_of(self.container, name)

    def shape_of(self, name: str) -> Sequence[int | str | None] | None:
        """Return the shape of a tensor or constant; None if its rank is unknown."""
        value = self.constant(name)
        if value is not None:
            return tuple(value.dims)
        proto = self.info.types.find(self.container, name)
        return protos.type_of_proto(proto).shape if proto else None

    def constant_rows(self, node: NodeProto) -> list[str]:
        """Say which constants a node reads, by the names of its inputs."""
        names = self.info.operator(node)[0]
        texts = []
        for number, name in enumerate(node.input):
            value = None
            if name:
                value = self.constant(name)
            if value is not None:
                if names:
                    port = names[min(number, len(names) - 1)]
                else:
                    port = f"input {number}"
                texts.append(f"{port} {constant_text(value)}")
        return texts


# ---- a few words for each


def title_of(node: NodeProto) -> str:
    """Name the op of a node, with its domain unless that is ONNX's own."""
    domain = op_names.canonical_domain(node.domain)
    return sanitize(f"{domain}::{node.op_type}" if domain else node.op_type or "(no op type)", 80)


def module_path(node: NodeProto) -> tuple[str, ...]:
    """Return the modules to which a node belongs, outer ones first, as its exporter wrote them."""
    path = node.name.strip("/").split("/")
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            # Each name begins with the one before it.
            names = re.findall(r"'([^']*)'", entry.value)
            path = [name.removeprefix(f"{outer}.") for outer, name in pairwise(["", *names])]
        elif entry.key == "namespace":
            path = [part.partition(":")[0] for part in entry.value.split("/")]
    # The last is the node itself, and the outermost module may have no name.
    return tuple(filter(None, path[:-1]))


def constant_text(value: Constant) -> str:
    """Write a constant in a box: ``⟨64×3⟩``, or ``= 0.5`` if it is small."""
    is_small = isinstance(value, TensorProto) and len(value.dims) <= 1
    if is_small and math.prod(value.dims) <= _FEW and not value.external_data:
        try:
            numbers = numpy_helper.to_array(value)
        except (ValueError, TypeError, KeyError):  # damaged: its shape is displayed instead
            pass
        else:
            text = ",".join(map(_short, numbers.reshape(-1).tolist()))
            if numbers.ndim:
                return f"= [{text}]"
            return f"= {text}"
    return f"⟨{'×'.join(map(str, value.dims))}⟩"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return sanitize(value, 20)


def attrs_of(node: NodeProto, defaults: Mapping[str, Any]) -> str:
    """Abbreviate the attributes of a node that differ from their defaults."""
    texts = []
    for attribute in node.attribute:
        text = _attribute(attribute, defaults)
        if text:
            texts.append(f"{sanitize(attribute.name, 30)}={text}")
    return " ".join(texts)


def _attribute(attribute: AttributeProto, defaults: Mapping[str, Any]) -> str:
    if attribute.ref_attr_name:
        return f"@{sanitize(attribute.ref_attr_name, 30)}"
    if attribute.type in _HIDDEN:
        return ""
    if attribute.type == AttributeProto.TENSOR:
        return constant_text(attribute.t).removeprefix("= ")
    if attribute.type not in _SHOWN:
        return "…"
    value = helper.get_attribute_value(attribute)
    if attribute.name in defaults and defaults[attribute.name] == value:
        return ""
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        return _short(value)
    return ",".join([*map(_short, value[:_MOST_ITEMS]), *["…"] * (len(value) > _MOST_ITEMS)])

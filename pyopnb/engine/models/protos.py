"""Read the nodes of a model at any depth, their attributes, and the types that the model declares.

All readers share one walk, so that none forgets a part: the main graph, the bodies of If, Loop and
Scan (in single and in list attributes), and the model's local functions. It is iterative: a deep
nest costs no stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from pyopnb.common import plural, sanitize
from pyopnb.engine.ops.dtypes import dtype
from pyopnb.engine.ops.op_names import canonical_domain
from pyopnb.engine.ops.types import ANY, TensorType
from pyopnb.errors import ModelError

__all__ = [
    "Site",
    "add_imports",
    "attribute_of",
    "attribute_value",
    "attribute_values",
    "bodies",
    "constant_value",
    "declared_outputs",
    "declared_scalars",
    "first_output",
    "forget_inferred",
    "full_name",
    "graphs_of",
    "imported_versions",
    "input_types",
    "is_constant",
    "is_repeated",
    "linked_attributes",
    "mark_inferred",
    "named_bodies",
    "nodes_in",
    "nodes_of_functions",
    "path_of_body",
    "path_of_function",
    "set_attribute",
    "summary",
    "tensors",
    "text_of",
    "type_of_proto",
    "type_proto",
    "walk",
]


@dataclass(frozen=True)
class Site:
    """A node and its position in the model.

    Attributes
    ----------
    scope : GraphProto or FunctionProto
        The graph or function whose names the node uses.
    path : str
        ``""`` in the main graph, else ``"function local::Twice"`` or
        ``"If 'choose', then_branch"``.
    """

    node: NodeProto
    scope: GraphProto | FunctionProto
    path: str

    @property
    def where(self) -> str:
        """Return the node as messages name it."""
        name = f"the node of output '{sanitize(first_output(self.node))}'"
        if self.node.name:
            name = f"node '{sanitize(self.node.name)}'"
        elif not first_output(self.node):
            name = "a node without outputs"
        op = sanitize(full_name(self.node))
        if self.path:
            op = f"{op}, in {self.path}"
        return f"{name} ({op})"


def first_output(node: NodeProto) -> str:
    """Return the first output that is not left out."""
    return next((name for name in node.output if name), "")


def full_name(node: NodeProto) -> str:
    """Return ``domain::OpType``, with the ONNX domain empty."""
    return f"{canonical_domain(node.domain)}::{node.op_type}"


def imported_versions(*scopes: ModelProto | FunctionProto) -> dict[str, int]:
    """Map each domain to the version that models or functions import; the last import counts."""
    versions = {}
    for scope in scopes:
        for entry in scope.opset_import:
            # protobuf gives bytes where a name is not UTF-8
            if isinstance(entry.domain, str):
                versions[canonical_domain(entry.domain)] = entry.version
    return versions


def add_imports(scope: ModelProto | FunctionProto, versions: Mapping[str, int]) -> None:
    """Import domains in these versions, where a model or function does not import them yet."""
    imported = imported_versions(scope)
    for domain, version in sorted(versions.items()):
        if domain not in imported:
            scope.opset_import.append(helper.make_opsetid(domain, version))


def path_of_function(function: FunctionProto) -> str:
    """Return a local function as paths name it."""
    return f"function {sanitize(function.domain)}::{sanitize(function.name)}"


def path_of_body(node: NodeProto, attribute: str) -> str:
    """Return a graph among a node's attributes as paths name it."""
    return (
        f"{sanitize(node.op_type)} '{sanitize(node.name or first_output(node))}', "
        f"{sanitize(attribute)}"
    )


def walk(model: ModelProto) -> Iterator[Site]:
    """Yield every node of the model, outer ones before inner ones."""
    # A list that grows instead of recursion, as a file can nest deep.
    scopes: list[tuple[GraphProto | FunctionProto, str]] = [(model.graph, "")]
    scopes += [(function, path_of_function(function)) for function in model.functions]
    # The list grows while it is walked.
    for scope, path in scopes:
        for node in scope.node:
            yield Site(node, scope, path)
            # Most nodes have no attribute, and this quick answer halves the time of a walk.
            if not node.attribute:
                continue
            for attribute, body in named_bodies(node):
                inner_path = path_of_body(node, attribute)
                if path:
                    inner_path = f"{path}, {inner_path}"
                scopes.append((body, inner_path))


def nodes_in(scope: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Yield every node of a graph or function, and of the graphs inside its nodes."""
    waiting: list[FunctionProto | GraphProto] = [scope]
    while waiting:
        for node in waiting.pop().node:
            yield node
            if node.attribute:
                waiting += bodies(node)


def bodies(node: NodeProto) -> list[GraphProto]:
    """Return the graphs among a node's attributes."""
    # All nodes are asked and most have none, so the quick answer comes first.
    if not node.attribute:
        return []
    return [body for _, body in named_bodies(node)]


def named_bodies(node: NodeProto) -> list[tuple[str, GraphProto]]:
    """Return the graphs among a node's attributes, each with the name of its attribute.

    All graphs of a list have the name of the list.
    """
    return graphs_of(node.attribute)


def graphs_of(attributes: Iterable[AttributeProto]) -> list[tuple[str, GraphProto]]:
    """Return the graphs among attributes, as `named_bodies` has them."""
    # An attribute may have a graph and a list of graphs. Its reader decides which of them counts,
    # so both are returned and neither can hide beside the other.
    graphs: list[tuple[str, GraphProto]] = []
    for attribute in attributes:
        if attribute.HasField("g"):
            graphs.append((attribute.name, attribute.g))
        graphs += [(attribute.name, body) for body in attribute.graphs]
    return graphs


def nodes_of_functions(model: ModelProto) -> dict[tuple[str, str], list[NodeProto]]:
    """Return the nodes of each local function, including nodes in bodies."""
    return {(f.domain, f.name): list(nodes_in(f)) for f in model.functions}


def is_constant(node: NodeProto) -> bool:
    """Tell whether a node is the ONNX Constant."""
    return node.op_type == "Constant" and not canonical_domain(node.domain)


_CONSTANT_DTYPES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def constant_value(node: NodeProto) -> TensorProto | SparseTensorProto | None:
    """Return the tensor of a Constant node; None for other nodes and for malformed attributes."""
    if not is_constant(node) or len(node.attribute) != 1 or node.attribute[0].ref_attr_name:
        return None
    attribute: Any = node.attribute[0]
    tensor: TensorProto | SparseTensorProto | None = None
    if attribute.name == "value":
        tensor = attribute.t
    elif attribute.name == "sparse_value":
        tensor = attribute.sparse_tensor
    elif attribute.name in _CONSTANT_DTYPES:
        value = helper.get_attribute_value(attribute)
        tensor = numpy_helper.from_array(np.array(value, _CONSTANT_DTYPES[attribute.name]))
    return tensor


def linked_attributes(node: NodeProto) -> dict[str, AttributeProto]:
    """Return the attributes whose values come from the caller of a local function, by name."""
    return {a.name: a for a in node.attribute if a.ref_attr_name}


def attribute_values(node: NodeProto, model: ModelProto, where: str) -> dict[str, Any]:
    """Return a node's attributes as Python values.

    Attributes whose values come from the caller of a function are left out.

    Returns
    -------
    dict
        int, float (the float32 that the model stores, exactly), str (bytes where they are no
        UTF-8), lists of these, ndarray, and ModelProto for a graph, with the opset imports and
        functions of the model around it.

    Raises
    ------
    ModelError
        Two attributes have one name, or a tensor's data cannot be read.
    """
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            continue
        attr = f"{where}, attr {attribute.name}"
        if attribute.name in values:
            raise ModelError(attr, expected="one value", got="two attributes of that name")
        try:
            values[attribute.name] = attribute_value(attribute, model)
        except (ValueError, TypeError, KeyError) as error:
            got = sanitize(str(error))
            raise ModelError(attr, expected="a value that can be read", got=got) from error
    return values


def attribute_value(attribute: AttributeProto, model: ModelProto) -> Any:
    """Convert an attribute to a Python value.

    A graph becomes a model with the imports and functions of ``model``.
    """
    attribute_type = attribute.type
    if attribute_type == AttributeProto.UNDEFINED:
        raise ValueError("an attribute without a type")
    if attribute_type == AttributeProto.STRING:
        return text_of(attribute.s)
    if attribute_type == AttributeProto.STRINGS:
        return [text_of(item) for item in attribute.strings]
    if attribute_type == AttributeProto.TENSOR:
        return _array(attribute.t)
    if attribute_type == AttributeProto.TENSORS:
        return [_array(item) for item in attribute.tensors]
    if attribute_type == AttributeProto.GRAPH:
        return _as_model(attribute.g, model)
    if attribute_type == AttributeProto.GRAPHS:
        return [_as_model(item, model) for item in attribute.graphs]
    value = helper.get_attribute_value(attribute)
    if attribute_type in (AttributeProto.INTS, AttributeProto.FLOATS):
        return list(value)
    return value


def attribute_of(name: str, value: Any) -> AttributeProto:
    """Make an AttributeProto of an array, a ModelProto or a plain value.

    Plain values are those that `onnx.helper.make_attribute` takes.
    """
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, numpy_helper.from_array(value))
    if isinstance(value, ModelProto):
        return helper.make_attribute(name, value.graph)
    if isinstance(value, (list, tuple)):
        # An empty list says nothing about its items; the ONNX operators mostly mean ints.
        kind = None if value else AttributeProto.INTS
        return helper.make_attribute(name, list(map(_stored, value)), attr_type=kind)
    return helper.make_attribute(name, _stored(value))


def _stored(value: Any) -> Any:
    """Convert a value whose kind is stored as another one: a bool to an int."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    return value


def set_attribute(node: NodeProto, name: str, value: Any) -> None:
    """Set an attribute of a node to a value that `attribute_of` takes.

    It is added at the end if the node has none of that name.
    """
    replacement = attribute_of(name, value)
    for attribute in node.attribute:
        if attribute.name == name:
            attribute.CopyFrom(replacement)
            return
    node.attribute.append(replacement)


def text_of(raw: bytes) -> str | bytes:
    """Return a string attribute's bytes as text, or as they are if they are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _array(tensor: Any) -> Any:
    if tensor.data_location == tensor.EXTERNAL:
        raise ValueError("a tensor attribute whose data is in another file")
    return numpy_helper.to_array(tensor)


def _as_model(graph: GraphProto, model: ModelProto) -> ModelProto:
    return helper.make_model(
        graph,
        opset_imports=list(model.opset_import),
        functions=list(model.functions),
        ir_version=model.ir_version,
    )


def declared_outputs(scope: GraphProto | FunctionProto) -> dict[str, TensorType]:
    """Return the types that a graph or function declares for outputs of its nodes, by name."""
    infos: list[ValueInfoProto] = list(scope.value_info)
    if not isinstance(scope, FunctionProto):
        infos += scope.output
    return {info.name: type_of_proto(info.type) for info in infos}


_INFERRED = "pyopnb_inferred"


def mark_inferred(info: ValueInfoProto, kind: TensorType) -> None:
    """Give an output an inferred type, and record in its metadata that it was not declared."""
    info.type.CopyFrom(type_proto(kind))
    info.metadata_props.add(key=_INFERRED, value=str(kind))


def forget_inferred(model: ModelProto) -> None:
    """Remove the types that `mark_inferred` gave.

    A session gets these types from the ops themselves. As declarations they would conflict with an
    op that is redefined with other outputs. A type that was changed since then counts as declared.
    """
    for info in model.graph.output:
        for position, entry in reversed(list(enumerate(info.metadata_props))):
            if entry.key == _INFERRED:
                if str(type_of_proto(info.type)) == entry.value:
                    info.ClearField("type")
                del info.metadata_props[position]


def declared_scalars(model: ModelProto) -> frozenset[str]:
    """Return the inputs and outputs of a model that it declares with a shape of no dimensions."""
    names = set()
    for info in (*model.graph.input, *model.graph.output):
        tensor = info.type.tensor_type
        if tensor.HasField("shape") and not tensor.shape.dim:
            names.add(info.name)
    return frozenset(names)


def input_types(scope: GraphProto | FunctionProto) -> dict[str, TensorType]:
    """Map the inputs, value_info and initializers of a graph or function to their types."""
    types = {i.name: type_of_proto(i.type) for i in scope.value_info}
    if isinstance(scope, GraphProto):
        types |= {i.name: type_of_proto(i.type) for i in scope.input}
        types |= {t.name: TensorType(dtype(t.data_type), tuple(t.dims)) for t in scope.initializer}
    return types


def type_of_proto(proto: TypeProto) -> TensorType:
    """Convert a TypeProto to a TensorType.

    A type that is not a tensor's becomes ``any[...]``, and a size below 0 an unknown one.
    """
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return ANY
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(dtype(tensor.elem_type), None)
    dims: list[str | int | None] = []
    for dim in tensor.shape.dim:
        size = None
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            size = dim.dim_value
        dims.append(dim.dim_param or size)
    return TensorType(dtype(tensor.elem_type), tuple(dims))


def type_proto(kind: TensorType) -> TypeProto:
    """Return a type as a TypeProto."""
    return helper.make_tensor_type_proto(
        kind.dtype.onnx if kind.dtype else TensorProto.UNDEFINED, kind.shape
    )


def summary(model: ModelProto) -> str:
    """Return a model on one line: inputs, outputs and the number of nodes."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [_port(info) for info in model.graph.input if info.name not in initializers]
    outputs = ", ".join(map(_port, model.graph.output))
    return f"({', '.join(inputs)}) -> ({outputs}), {plural(len(model.graph.node), 'node')}"


def _port(info: ValueInfoProto) -> str:
    port_type = type_of_proto(info.type)
    if port_type == ANY:
        return sanitize(info.name)
    return f"{sanitize(info.name)}: {port_type}"


# ---- tensors -------------------------------------------------------------------------------------

# The fields to look into come from the format's own description. So a field that a later onnx adds
# is also searched, and so is one that should be empty, such as a list of graphs in an attribute
# that holds a graph.


def tensors(carrier: Message) -> Iterator[TensorProto]:
    """Yield every tensor in a model or a part of one.

    These are initializers, sparse ones included, and tensors in attributes, in functions and in
    training info.
    """
    # Iterative: a deep nest costs no stack.
    waiting: list[Any] = [carrier]
    while waiting:
        message = waiting.pop()
        if isinstance(message, TensorProto):
            yield message
            continue
        for name, repeated in reversed(_routes(message.DESCRIPTOR)):
            if repeated:
                waiting += reversed(getattr(message, name))
            elif message.HasField(name):
                waiting.append(getattr(message, name))


@cache
def _routes(kind: Descriptor) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a message that lead to tensors, each with whether it is repeated."""
    return tuple(
        (field.name, is_repeated(field))
        for field in kind.fields
        if field.message_type in _leading()
    )


@cache
def _leading() -> frozenset[Descriptor]:
    """Return the type of a tensor's message, and the types whose fields lead to one."""
    leading = {TensorProto.DESCRIPTOR}
    message_types = list(TensorProto.DESCRIPTOR.file.message_types_by_name.values())
    while (
        holders := {
            message_type
            for message_type in message_types
            if leading.intersection(f.message_type for f in message_type.fields)
        }
        - leading
    ):
        leading |= holders
    return frozenset(leading)


def is_repeated(field: Any) -> bool:
    """Tell whether a field holds several values; protobuf before 6.30 says so differently."""
    return bool(
        field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    )

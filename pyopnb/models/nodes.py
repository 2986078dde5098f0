"""Every node of a model, wherever it stands, the values of its attributes, and the types that the file declares.

One walk serves all readers, so that no place is forgotten: the main graph, the bodies of If, Loop and Scan (in single and in
list attributes), and the model's local functions. It is iterative: a deep nest costs no stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import ModelError, shown
from pyopnb.ops.types import ANY, TensorType

__all__ = [
    "Site",
    "attribute_values",
    "bodies",
    "declared_scalars",
    "declared_types",
    "first_output",
    "full_name",
    "input_types",
    "linked_attributes",
    "nodes_in",
    "tensor_type_of",
    "tensors",
    "text_of",
    "walk",
]


@dataclass(frozen=True)
class Site:
    """A node and where it stands.

    Attributes
    ----------
    node : NodeProto
    scope : GraphProto or FunctionProto
        What the node's names belong to.
    path : str
        ``""`` in the main graph, else ``"function local::Twice"`` or ``"If 'choose', then_branch"``.
    """

    node: NodeProto
    scope: GraphProto | FunctionProto
    path: str

    @property
    def where(self) -> str:
        """The node as messages name it."""
        name = f"node '{shown(self.node.name)}'" if self.node.name else f"the node of output '{shown(first_output(self.node))}'"
        inside = f", in {self.path}" if self.path else ""
        return f"{name} ({shown(full_name(self.node))}{inside})"


def first_output(node: NodeProto) -> str:
    """The first output that is not left out."""
    return next((name for name in node.output if name), "")


def full_name(node: NodeProto) -> str:
    """``domain::OpType``, with ONNX's own domain empty."""
    return f"{'' if node.domain == 'ai.onnx' else node.domain}::{node.op_type}"


def walk(model: ModelProto) -> Iterator[Site]:
    """Every node of the model, outer ones before those inside them."""
    scopes: list[tuple[GraphProto | FunctionProto, str]] = [(model.graph, "")]
    scopes += [(f, f"function {shown(f.domain)}::{shown(f.name)}") for f in model.functions]
    while scopes:
        scope, path = scopes.pop(0)
        for node in scope.node:
            yield Site(node, scope, path)
            for attribute in node.attribute:
                bodies = [attribute.g] if attribute.HasField("g") else attribute.graphs
                if not bodies:
                    continue
                inside = f"{shown(node.op_type)} '{shown(node.name or first_output(node))}', {shown(attribute.name)}"
                scopes += [(body, f"{path}, {inside}" if path else inside) for body in bodies]


def nodes_in(scope: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Every node of a graph or function, and of the graphs inside its nodes."""
    waiting: list[FunctionProto | GraphProto] = [scope]
    while waiting:
        for node in waiting.pop().node:
            yield node
            waiting += bodies(node)


def bodies(node: NodeProto) -> list[GraphProto]:
    """The graphs among a node's attributes."""
    return [body for a in node.attribute for body in ([a.g] if a.HasField("g") else a.graphs)]


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the model carries: initializers of all graphs, sparse ones, and tensor attributes."""
    graphs = [model.graph]
    for site in walk(model):
        for attribute in site.node.attribute:
            graphs += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            yield from [attribute.t] if attribute.HasField("t") else attribute.tensors
            sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else attribute.sparse_tensors
            yield from (part for item in sparse for part in (item.values, item.indices))
    for graph in graphs:
        yield from graph.initializer
        yield from (part for item in graph.sparse_initializer for part in (item.values, item.indices))


def linked_attributes(node: NodeProto) -> dict[str, AttributeProto]:
    """The attributes whose values the caller of a local function gives."""
    return {a.name: a for a in node.attribute if a.ref_attr_name}


def attribute_values(node: NodeProto, model: ModelProto, where: str) -> dict[str, Any]:
    """A node's attributes as Python values, those that a function's caller gives left out.

    Returns
    -------
    dict
        int, float (the float32 that the model stores, exactly), str (bytes where they are no UTF-8), lists of these, ndarray,
        and ModelProto for a graph, with the opset imports and functions of its model.

    Raises
    ------
    ModelError
        Two attributes have one name, or a tensor's data cannot be read.
    """
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            continue
        if attribute.name in values:
            raise ModelError(f"{where}, attr {shown(attribute.name)}", expected="one value", got="two attributes of that name")
        try:
            values[attribute.name] = _value(attribute, model)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(
                f"{where}, attr {shown(attribute.name)}", expected="a value that can be read", got=shown(str(error))
            ) from error
    return values


def _value(attribute: AttributeProto, model: ModelProto) -> Any:
    kind = attribute.type
    if kind == AttributeProto.UNDEFINED:
        raise ValueError("an attribute without a type")
    if kind == AttributeProto.STRING:
        return text_of(attribute.s)
    if kind == AttributeProto.STRINGS:
        return [text_of(item) for item in attribute.strings]
    if kind == AttributeProto.TENSOR:
        return _array(attribute.t)
    if kind == AttributeProto.TENSORS:
        return [_array(item) for item in attribute.tensors]
    if kind == AttributeProto.GRAPH:
        return _as_model(attribute.g, model)
    if kind == AttributeProto.GRAPHS:
        return [_as_model(item, model) for item in attribute.graphs]
    value = helper.get_attribute_value(attribute)
    return list(value) if kind in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def text_of(raw: bytes) -> str | bytes:
    """A string attribute's bytes as text; as bytes where they are not UTF-8."""
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
        graph, opset_imports=list(model.opset_import), functions=list(model.functions), ir_version=model.ir_version
    )


def declared_types(site: Site) -> tuple[TensorType, ...]:
    """The types that the file declares for a node's outputs; ``any[...]`` where it declares none."""
    infos: dict[str, ValueInfoProto] = {info.name: info for info in getattr(site.scope, "value_info", ())}
    if not isinstance(site.scope, FunctionProto):
        infos |= {info.name: info for info in site.scope.output}
    return tuple(tensor_type_of(infos[name]) if name in infos else ANY for name in site.node.output)


def declared_scalars(model: ModelProto) -> frozenset[str]:
    """The inputs and outputs of a model that it declares with a shape of no dimensions."""
    ends = [*model.graph.input, *model.graph.output]
    return frozenset(end.name for end in ends if end.type.tensor_type.HasField("shape") and not end.type.tensor_type.shape.dim)


def input_types(scope: GraphProto | FunctionProto) -> dict[str, TensorType]:
    """The types that a graph or function itself tells, by name: inputs, value_info and initializers."""
    types = {i.name: tensor_type_of(i) for i in getattr(scope, "value_info", ())}
    if isinstance(scope, GraphProto):
        types |= {i.name: tensor_type_of(i) for i in scope.input}
        types |= {t.name: TensorType(dtype(t.data_type), tuple(t.dims)) for t in scope.initializer}
    return types


def tensor_type_of(info: ValueInfoProto) -> TensorType:
    """The type that a declaration tells; ``any[...]`` where it tells none, or none of a tensor."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.elem_type:
        return ANY
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(dtype(tensor.elem_type), None)
    dims = tuple(d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in tensor.shape.dim)
    return TensorType(dtype(tensor.elem_type), dims)

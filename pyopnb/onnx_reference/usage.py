"""An operator as the nodes of one model use it: its ports with their types, and its attrs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, ModelProto, NodeProto

from pyopnb.engine import (
    ANY,
    DTYPES,
    TensorType,
    model_files,
    op_inference,
    op_names,
    ort_types,
    protos,
)
from pyopnb.errors import ModelError
from pyopnb.models import Types
from pyopnb.onnx_reference.attributes import default_of
from pyopnb.onnx_reference.literals import attr_hint, identifier, literal
from pyopnb.onnx_reference.operator import has_reference, schema_of_op

__all__ = ["OPTION", "RESERVED", "AttrUsage", "InputUsage", "OperatorUsage"]

RESERVED = frozenset({"self", "np", "onnx", "pyopnb", "attrs", "compute", "infer"})
"""Names in use in the cell, and names of methods."""

OPTION = onnx.defs.OpSchema.FormalParameterOption
"""Whether a port is one array, may be absent, or takes all that follow."""


@dataclass
class InputUsage:
    """An input as a parameter of ``compute``.

    Attributes
    ----------
    name : str
        An identifier.
    type : TensorType
        The common type of the port at all nodes.
    """

    name: str
    type: TensorType
    optional: bool
    variadic: bool


@dataclass
class AttrUsage:
    """An attr as a parameter of ``__init__``.

    Attributes
    ----------
    name : str
        As the nodes have it, so not always an identifier.
    annotation : str
        Empty where there must be none.
    default : str
        As Python source; empty if there is none.
    remark : str
        A comment.
    """

    name: str
    annotation: str
    default: str
    remark: str = ""


class OperatorUsage:
    """An operator as its nodes in one model use it.

    Parameters
    ----------
    sites : sequence of Site
        All nodes of the operator, the requested one first.
    """

    def __init__(self, proto: ModelProto, sites: Sequence[protos.Site]) -> None:
        self.site, self._sites = sites[0], sites
        self.node = self.site.node
        self._graph = proto.graph
        self._types = Types(proto)
        self._undeclared = _without_declared_shapes(proto)
        self._inferred = Types(self._undeclared)
        self.schema = _schema(proto, self.site)
        self._refuse_other_values()
        self.inputs = self._inputs()
        self.outputs = [self._type_of_output(n) for n in range(len(self.node.output))]
        self.attrs = self._attrs(proto)
        self.has_reference = False
        if self.schema is not None:
            self.has_reference = has_reference(self.node, self.schema.since_version)

    def _refuse_other_values(self) -> None:
        """Refuse a node that reads or makes a sequence, a map or an optional."""
        for end, names in (("input", self.node.input), ("output", self.node.output)):
            # An omitted input or output has the empty name.
            for name in filter(None, names):
                proto = self._types.find(self.site.scope, name)
                # A value without a known type is taken for a tensor.
                field = None
                if proto is not None:
                    field = proto.WhichOneof("value")
                if field not in (None, "tensor_type"):
                    raise ModelError(
                        f"skeleton of {self.site.where}, {end} {name}",
                        expected="a tensor, because an op can get nothing else",
                        got=f"a value of type {str(field).removesuffix('_type')}",
                        next='pyopnb.trace(model, feeds, on="reference"), '
                        "where nodes can have any type",
                    )

    # ---- ports -----------------------------------------------------------------------------------

    def _inputs(self) -> list[InputUsage]:
        """Describe the inputs by the operator's definition, or by the nodes."""
        names_in_use = set(RESERVED)
        ports = []
        if self.schema is not None:
            ports = list(self.schema.inputs)
        inputs = []
        for position, port in enumerate(ports):
            name = identifier(port.name, f"x{position}", names_in_use)
            type_ = self._type_of_input(position)
            is_variadic = port.option == OPTION.Variadic
            if is_variadic:
                # One hint holds for all inputs from here on.
                positions = range(position, self._most_inputs())
                type_ = _common_type(map(self._type_of_input, positions))
            inputs.append(InputUsage(name, type_, port.option == OPTION.Optional, is_variadic))
        if not ports:
            for position in range(self._most_inputs()):
                graph_name = _name_at(self.node.input, position)
                name = identifier(graph_name, f"x{position}", names_in_use)
                is_optional = any(not _name_at(site.node.input, position) for site in self._sites)
                inputs.append(InputUsage(name, self._type_of_input(position), is_optional, False))
        # A parameter after one with a default also needs one; ``*parameters`` has none.
        for port, former in zip(inputs[1:], inputs, strict=False):
            port.optional = (port.optional or former.optional) and not port.variadic
        return inputs

    def _most_inputs(self) -> int:
        return max(len(site.node.input) for site in self._sites)

    def _type_of_input(self, position: int) -> TensorType:
        return self._common_type([site.node.input for site in self._sites], position)

    def _common_type(self, ends: Sequence[Sequence[str]], position: int) -> TensorType:
        """Return the common type at one place of all nodes."""
        types = []
        for site, names in zip(self._sites, ends, strict=True):
            name = _name_at(names, position)
            if name:
                types.append(self._type_of_value(site, name))
        return _common_type(types)

    def _type_of_output(self, position: int) -> TensorType:
        found = self._common_type([site.node.output for site in self._sites], position)
        if found.dtype is None and not self._has_first_dtype(position):
            # In a function nothing is known, and the definition may leave no choice.
            port = _port(self.schema.outputs, position)
            allowed = [row for row in DTYPES if ort_types.tensor_kind(row.onnx) in port.types]
            if len(allowed) == len(port.types) == 1:
                return TensorType(allowed[0], None)
        return found

    @property
    def has_default_dtypes(self) -> bool:
        """Tell whether each output has its dtype in the cell, or has the first input's."""
        for position, type_ in enumerate(self.outputs):
            if type_.dtype is None and not self._has_first_dtype(position):
                return False
        return True

    def _has_first_dtype(self, position: int) -> bool:
        """Tell whether an output has the first input's dtype, as where nothing is declared."""
        if self.schema is None:
            return True
        port = _port(self.schema.outputs, position)
        inputs = self.schema.inputs
        return bool(inputs) and port.type_str == inputs[0].type_str

    def _type_of_value(self, site: protos.Site, name: str) -> TensorType:
        """Return the type that a file declares, unless its shape contradicts the computed one."""
        declared = self._types.of(site, name)
        if site.scope is not self._graph:
            return declared
        inferred = self._inferred.find(self._undeclared.graph, name)
        if inferred is None or declared.accepts(op_inference.inferred_type(inferred)):
            return declared
        return op_inference.inferred_type(inferred)

    # ---- attrs -----------------------------------------------------------------------------------

    def _attrs(self, proto: ModelProto) -> list[AttrUsage]:
        """Describe the attrs that a node has or that the operator's definition lists."""
        values = [protos.attribute_values(site.node, proto, site.where) for site in self._sites]
        attributes: dict[str, list[AttributeProto]] = {}
        for site in self._sites:
            for attribute in site.node.attribute:
                attributes.setdefault(attribute.name, []).append(attribute)
        names = [*attributes]
        if self.schema is not None:
            names += [name for name in self.schema.attributes if name not in attributes]
        return [self._attr(name, attributes.get(name, []), values) for name in names]

    def _attr(
        self, name: str, attributes: Sequence[AttributeProto], values: Sequence[Mapping[str, Any]]
    ) -> AttrUsage:
        """Describe an attr, with a default that holds for every node.

        This is the value of the first node, or the operator's default if another node omits the
        attr.
        """
        definition = None
        if self.schema is not None:
            definition = self.schema.attributes.get(name)
        if definition:
            number = int(definition.type.value)
        else:
            number = attributes[0].type
        hint = attr_hint(number, [attrs[name] for attrs in values if name in attrs])
        # A default must hold for each node, because one class serves them all.
        is_everywhere = all(name in attrs for attrs in values)
        if name in values[0] and (is_everywhere or definition is None):
            return AttrUsage(name, hint, *literal(values[0][name]))
        if definition is not None and definition.default_value.type:
            node = NodeProto(attribute=[default_of(definition)])
            default = protos.attribute_values(node, ModelProto(), "default")
            return AttrUsage(name, hint, *literal(default[definition.name]))
        if any(attribute.ref_attr_name for attribute in attributes):
            return AttrUsage(name, hint, "", "from the caller of the function")
        if definition is not None and definition.required:
            return AttrUsage(name, hint, "")
        # None means that a node omits the attr.
        if hint:
            hint = f"{hint} | None"
        return AttrUsage(name, hint, "None")


def _name_at(names: Sequence[str], position: int) -> str:
    # Trailing inputs can be omitted, and the empty name says the same.
    if position < len(names):
        return names[position]
    return ""


def _port(ports: Sequence[Any], position: int) -> Any:
    """Return the port that a position belongs to; the last one may be variadic."""
    return ports[min(position, len(ports) - 1)]


def _without_declared_shapes(proto: ModelProto) -> ModelProto:
    """Copy a model, and keep the declared shapes of its inputs only.

    ONNX Runtime only warns of another shape that is wrong, and computes the right one.
    """
    copy = model_files.without_weights(proto).proto
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        info.ClearField("type")
    return copy


def _schema(proto: ModelProto, site: protos.Site) -> Any:
    """Return the ONNX definition of a node's operator; return None where it has none."""
    scopes: list[Any] = [proto]
    for function in proto.functions:
        # A node in a body inside the function is in its path.
        if site.scope is function or site.path.startswith(f"{protos.path_of_function(function)},"):
            scopes.append(function)
    domain = op_names.canonical_domain(site.node.domain)
    try:
        return schema_of_op(
            domain, site.node.op_type, protos.imported_versions(*scopes).get(domain)
        )
    except (ModelError, OverflowError, TypeError):
        # The numbers of a file can be of any size.
        return None


def _common_type(types: Iterable[TensorType]) -> TensorType:
    """Return the common type; different shapes have nothing in common."""
    first, *others = [*types] or [ANY]
    if all(type_ == first for type_ in others):
        return first
    if all(type_.dtype == first.dtype for type_ in others):
        return TensorType(first.dtype, None)
    return ANY

"""The attributes of nodes, compared with regard to the defaults: writing a default out changes nothing."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping

import numpy as np
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.models.onnx_schemas import default_attribute, find_schema
from pyopnb.ops.messages import sanitize
from pyopnb.ops.names import canonical_domain
from pyopnb.ops.registry import registry

__all__ = ["AttributeKey", "Defaults", "attribute_key", "differing_attributes", "format_attribute"]

AttributeKey = tuple[int, Hashable]
"""An attribute's type and value, comparable exactly: floats by their bits, tensors by the number of their content."""

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def attribute_key(attribute: AttributeProto, content: Callable[[TensorProto], int]) -> AttributeKey:
    """Make a key that is equal for equal attributes; bodies do not count, as they are compared node by node.

    Parameters
    ----------
    attribute : AttributeProto
    content : callable
        The number of a tensor's content.

    Returns
    -------
    AttributeKey
    """
    kind = attribute.type
    if attribute.ref_attr_name:
        return -1, attribute.ref_attr_name
    if kind == AttributeProto.INT:
        return kind, attribute.i
    if kind == AttributeProto.INTS:
        return kind, tuple(attribute.ints)
    if kind == AttributeProto.STRING:
        return kind, attribute.s
    if kind == AttributeProto.FLOAT:
        return kind, struct.pack("<f", attribute.f)
    if kind == AttributeProto.FLOATS:
        return kind, struct.pack(f"<{len(attribute.floats)}f", *attribute.floats)
    if kind == AttributeProto.STRINGS:
        return kind, tuple(attribute.strings)
    if kind == AttributeProto.TENSOR:
        return kind, content(attribute.t)
    if kind == AttributeProto.TENSORS:
        return kind, tuple(map(content, attribute.tensors))
    if kind in _GRAPHS:
        return kind, 1 if kind == AttributeProto.GRAPH else len(attribute.graphs)
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.name = bare.doc_string = ""
    return kind, hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()


class Defaults:
    """The default attributes of ops, in the versions that a model or function imports.

    Parameters
    ----------
    imports : mapping
        Domain to version.
    functions : mapping
        Domain and name to the model's local function.
    """

    def __init__(
        self, imports: Mapping[str, int], functions: Mapping[tuple[str, str], FunctionProto]
    ) -> None:
        self.imports = {canonical_domain(domain): version for domain, version in imports.items()}
        self._functions = functions
        self._known: dict[tuple[str, str], dict[str, AttributeProto]] = {}

    def of(self, node: NodeProto) -> dict[str, AttributeProto]:
        """Return the defaults of a node's op, by name; empty for an unknown op."""
        key = canonical_domain(node.domain), node.op_type
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, domain: str, op_type: str) -> dict[str, AttributeProto]:
        function = self._functions.get((domain, op_type))
        if function is not None:
            return {a.name: a for a in function.attribute_proto}
        op = registry.find(domain, op_type)
        if op is not None:
            defaults = {attr.name: default_attribute(attr) for attr in op.current.schema.attrs}
            return {name: default for name, default in defaults.items() if default is not None}
        schema = find_schema(domain, op_type, self.imports.get(domain, 1))
        if schema is None:  # its defaults are its kernel's own
            return {}
        return {
            name: a.default_value for name, a in schema.attributes.items() if a.default_value.type
        }

    @classmethod
    def of_model(cls, model: ModelProto) -> Defaults:
        """Return the defaults in a model's main graph."""
        return cls(
            {o.domain: o.version for o in model.opset_import},
            {(f.domain, f.name): f for f in model.functions},
        )


_Values = tuple[str, AttributeProto | None, AttributeProto | None]


def differing_attributes(
    nodes: tuple[NodeProto, NodeProto],
    defaults: tuple[Defaults, Defaults],
    content: tuple[Callable[[TensorProto], int], Callable[[TensorProto], int]],
) -> Iterator[_Values]:
    """Yield the attributes in which two nodes of one op differ, by name.

    Parameters
    ----------
    nodes : tuple of NodeProto
    defaults : tuple of Defaults
        In the models of the two.
    content : tuple of callable
        The numbers of tensors' contents in the two models.

    Yields
    ------
    tuple of (str, AttributeProto or None, AttributeProto or None)
        Name and both values. An attribute that only one version of the op has does not count while it is at its default.
    """
    written = [{attribute.name: attribute for attribute in node.attribute} for node in nodes]
    known = [of_model.of(node) for of_model, node in zip(defaults, nodes, strict=True)]
    for name in sorted({*written[0], *written[1], *known[0], *known[1]}):
        values = [
            own.get(name, default.get(name)) for own, default in zip(written, known, strict=True)
        ]
        keys = [
            None if value is None else attribute_key(value, of)
            for value, of in zip(values, content, strict=True)
        ]
        if keys[0] == keys[1]:
            continue
        if None in keys:
            side = keys.index(None) ^ 1
            if (default := known[side].get(name)) is not None and attribute_key(
                default, content[side]
            ) == keys[side]:
                continue
        yield name, values[0], values[1]


# ---- text


_MAX_TEXT = 80


def format_attribute(attribute: AttributeProto) -> str:
    """Write an attribute's value as short text."""
    kind = attribute.type
    if attribute.ref_attr_name:
        return f"the caller's {sanitize(attribute.ref_attr_name, _MAX_TEXT)}"
    if kind == AttributeProto.TENSOR:
        return _format_tensor(attribute.t)
    if kind == AttributeProto.STRING:
        return sanitize(
            repr(attribute.s[: 2 * _MAX_TEXT].decode(errors="backslashreplace")), _MAX_TEXT
        )
    if kind == AttributeProto.STRINGS:
        strings = attribute.strings[:_MAX_TEXT]
        return sanitize(
            [s[:_MAX_TEXT].decode(errors="backslashreplace") for s in strings], _MAX_TEXT
        )
    if kind == AttributeProto.FLOAT:
        return str(np.float32(attribute.f))  # with as many digits as tell it from its neighbours
    if kind == AttributeProto.FLOATS:
        return sanitize(
            [float(str(np.float32(x))) for x in attribute.floats[:_MAX_TEXT]], _MAX_TEXT
        )
    if kind == AttributeProto.INT:
        return str(attribute.i)
    if kind == AttributeProto.INTS:
        return sanitize(list(attribute.ints[:_MAX_TEXT]), _MAX_TEXT)
    if kind == AttributeProto.GRAPHS:
        return f"{len(attribute.graphs)} graphs"
    names = AttributeProto.AttributeType
    return f"a {names.Name(kind).lower()}" if kind in names.values() else f"a type {kind}"


def _format_tensor(tensor: TensorProto) -> str:
    types = TensorProto.DataType
    dtype = (
        types.Name(tensor.data_type).lower()
        if tensor.data_type in types.values()
        else f"type {tensor.data_type}"
    )
    text = sanitize(f"tensor of {dtype}[{','.join(map(str, tensor.dims[:20]))}]", _MAX_TEXT)
    if math.prod(tensor.dims) > 8 or tensor.data_location == TensorProto.EXTERNAL:
        return text
    try:
        return sanitize(f"{text} {numpy_helper.to_array(tensor).tolist()}", _MAX_TEXT)
    except (ValueError, TypeError, KeyError):
        return f"{text} that cannot be read"

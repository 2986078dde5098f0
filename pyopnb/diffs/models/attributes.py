"""What a node's attributes come to, the schema's defaults taken into account: writing a default changes nothing."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Hashable, Mapping

from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from pyopnb.models.onnx_schemas import default_attribute, find_schema
from pyopnb.ops.registry import canonical_domain, registry

__all__ = ["AttributeKey", "Defaults", "attribute_key"]

AttributeKey = tuple[int, Hashable]
"""An attribute's type and its value, to be compared exactly: floats as their bits, tensors as numbers of their content."""

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def attribute_key(attribute: AttributeProto, content: Callable[[TensorProto], int]) -> AttributeKey:
    """One attribute; bodies are left out, as they are compared node by node."""
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
    """The defaults of ops' attributes, in the versions that a model or function imports.

    Parameters
    ----------
    imports : mapping
        Domain to version.
    functions : mapping
        Domain and name to the model's local function.
    """

    def __init__(self, imports: Mapping[str, int], functions: Mapping[tuple[str, str], FunctionProto]) -> None:
        self.imports = {canonical_domain(domain): version for domain, version in imports.items()}
        self._functions = functions
        self._known: dict[tuple[str, str], dict[str, AttributeProto]] = {}

    def of(self, node: NodeProto) -> dict[str, AttributeProto]:
        """The defaults of a node's op, by name; empty where nobody knows the op."""
        key = canonical_domain(node.domain), node.op_type
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._asked(*key)
        return found

    def _asked(self, domain: str, op_type: str) -> dict[str, AttributeProto]:
        function = self._functions.get((domain, op_type))
        if function is not None:
            return {a.name: a for a in function.attribute_proto}
        op = registry.find(domain, op_type)
        if op is not None:
            made = {attr.name: default_attribute(attr) for attr in op.current.schema.attrs}
            return {name: default for name, default in made.items() if default is not None}
        schema = find_schema(domain, op_type, self.imports.get(domain, 1))
        if schema is None:  # its defaults are its kernel's own
            return {}
        return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}

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
    attribute_type = attribute.type
    if attribute.ref_attr_name:
        return -1, attribute.ref_attr_name
    if attribute_type == AttributeProto.INT:
        return attribute_type, attribute.i
    if attribute_type == AttributeProto.INTS:
        return attribute_type, tuple(attribute.ints)
    if attribute_type == AttributeProto.STRING:
        return attribute_type, attribute.s
    if attribute_type == AttributeProto.FLOAT:
        # Floats are compared by their bits: NaN is the same NaN, and -0.0 is another value than
        # 0.0.
        return attribute_type, struct.pack("<f", attribute.f)
    if attribute_type == AttributeProto.FLOATS:
        return attribute_type, struct.pack(f"<{len(attribute.floats)}f", *attribute.floats)
    if attribute_type == AttributeProto.STRINGS:
        return attribute_type, tuple(attribute.strings)
    if attribute_type == AttributeProto.TENSOR:
        return attribute_type, content(attribute.t)
    if attribute_type == AttributeProto.TENSORS:
        return attribute_type, tuple(map(content, attribute.tensors))
    if attribute_type in _GRAPHS:
        return attribute_type, 1 if attribute_type == AttributeProto.GRAPH else len(
            attribute.graphs
        )
    # The rare types, as sparse tensors and type protos, are compared by all their bytes.
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.name = bare.doc_string = ""
    return attribute_type, hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()


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
        # A model's own function comes before an op of the same name, as in ONNX Runtime.
        function = self._functions.get((domain, op_type))
        if function is not None:
            return {a.name: a for a in function.attribute_proto}
        op = registry.find(domain, op_type)
        if op is not None:
            defaults = {attr.name: default_attribute(attr) for attr in op.current.schema.attrs}
            return {name: default for name, default in defaults.items() if default is not None}
        schema = find_schema(domain, op_type, self.imports.get(domain, 1))
        # An op that onnx does not know: its defaults are in its kernel.
        if schema is None:
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
    written_a, written_b = ({a.name: a for a in node.attribute} for node in nodes)
    defaults_a = defaults[0].of(nodes[0])
    defaults_b = defaults[1].of(nodes[1])
    for name in sorted({*written_a, *written_b, *defaults_a, *defaults_b}):
        default_a = defaults_a.get(name)
        default_b = defaults_b.get(name)
        a = written_a.get(name, default_a)
        b = written_b.get(name, default_b)
        key_a = _key(a, content[0])
        key_b = _key(b, content[1])
        if key_a == key_b:
            continue
        # An attribute that only one version of the op has does not count at its default.
        if key_b is None and key_a == _key(default_a, content[0]):
            continue
        if key_a is None and key_b == _key(default_b, content[1]):
            continue
        yield name, a, b


def _key(
    attribute: AttributeProto | None, content: Callable[[TensorProto], int]
) -> AttributeKey | None:
    if attribute is None:
        return None
    return attribute_key(attribute, content)


# ---- text


_MAX_TEXT = 80


def format_attribute(attribute: AttributeProto) -> str:
    """Write an attribute's value as short text."""
    names = AttributeProto.AttributeType
    if attribute.ref_attr_name:
        return f"the caller's {sanitize(attribute.ref_attr_name, _MAX_TEXT)}"
    match attribute.type:
        case AttributeProto.TENSOR:
            return _format_tensor(attribute.t)
        case AttributeProto.STRING:
            return sanitize(repr(_decode(attribute.s[: 2 * _MAX_TEXT])), _MAX_TEXT)
        case AttributeProto.STRINGS:
            return sanitize([_decode(text) for text in attribute.strings[:_MAX_TEXT]], _MAX_TEXT)
        case AttributeProto.FLOAT:
            # With as many digits as tell it from its neighbours.
            return str(np.float32(attribute.f))
        case AttributeProto.FLOATS:
            numbers = map(np.float32, attribute.floats[:_MAX_TEXT])
            return sanitize([float(str(number)) for number in numbers], _MAX_TEXT)
        case AttributeProto.INT:
            return str(attribute.i)
        case AttributeProto.INTS:
            return sanitize(list(attribute.ints[:_MAX_TEXT]), _MAX_TEXT)
        case AttributeProto.GRAPHS:
            return f"{len(attribute.graphs)} graphs"
    if attribute.type in names.values():
        return f"a {names.Name(attribute.type).lower()}"
    return f"a type {attribute.type}"


def _decode(text: bytes) -> str:
    return text[: 2 * _MAX_TEXT].decode(errors="backslashreplace")


def _format_tensor(tensor: TensorProto) -> str:
    types = TensorProto.DataType
    dtype = f"type {tensor.data_type}"
    if tensor.data_type in types.values():
        dtype = types.Name(tensor.data_type).lower()
    text = sanitize(f"tensor of {dtype}[{','.join(map(str, tensor.dims[:20]))}]", _MAX_TEXT)
    if math.prod(tensor.dims) > 8 or tensor.data_location == TensorProto.EXTERNAL:
        return text
    try:
        return sanitize(f"{text} {numpy_helper.to_array(tensor).tolist()}", _MAX_TEXT)
    except (ValueError, TypeError, KeyError):
        return f"{text} that cannot be read"

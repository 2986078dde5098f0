"""Compare the attributes of nodes, where writing out a default is no difference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from pyopnb.common import sanitize
from pyopnb.engine import onnx_schemas, op_names, registry

__all__ = ["Defaults", "attribute_key", "differing_attributes", "format_attribute"]

_MAX_TEXT = 80


def attribute_key(attribute: AttributeProto, content: Callable[[TensorProto], int]) -> Hashable:
    """Make a key that is equal for equal attributes.

    Bodies do not count, as they are compared node by node.

    Parameters
    ----------
    content : callable
        The number of a tensor's content.
    """
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return attribute.type
    # A tensor is the same tensor, no matter which field has its numbers.
    if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
        return content(attribute.t)
    bare = AttributeProto()
    bare.CopyFrom(attribute)
    bare.name = bare.doc_string = ""
    key: bytes = bare.SerializeToString(deterministic=True)
    return key


class Defaults:
    """The default attributes of ops, in the versions that a model or function imports."""

    def __init__(self, imports: Mapping[str, int]) -> None:
        self.imports = {
            op_names.canonical_domain(domain): version for domain, version in imports.items()
        }
        self._known: dict[tuple[str, str], dict[str, AttributeProto]] = {}

    @classmethod
    def of_model(cls, model: ModelProto) -> Defaults:
        """Return the defaults in a model's main graph."""
        return cls({entry.domain: entry.version for entry in model.opset_import})

    def of(self, node: NodeProto) -> dict[str, AttributeProto]:
        """Return the defaults of a node's op, by name; empty for an unknown op."""
        key = op_names.canonical_domain(node.domain), node.op_type
        if key not in self._known:
            self._known[key] = dict(self._find(*key))
        return self._known[key]

    def _find(self, domain: str, op_type: str) -> Iterator[tuple[str, AttributeProto]]:
        op = registry.find(domain, op_type)
        if op is not None:
            for attr in op.current.schema.attrs:
                default = onnx_schemas.default_attribute(attr)
                if default is not None:
                    yield attr.name, default
            return
        schema = onnx_schemas.find_schema(domain, op_type, self.imports.get(domain, 1))
        # The defaults of an op that onnx does not know are in its kernel.
        if schema is not None:
            for name, declared in schema.attributes.items():
                if declared.default_value.type:
                    yield name, declared.default_value


def differing_attributes(
    nodes: tuple[NodeProto, NodeProto],
    defaults: tuple[Defaults, Defaults],
    contents: tuple[Callable[[TensorProto], int], Callable[[TensorProto], int]],
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the names of attributes in which two nodes of one op differ, and both values as text.

    Parameters
    ----------
    defaults : tuple of Defaults
        In the models of the two.
    contents : tuple of callable
        The numbers of tensors' contents in the two models.
    """
    written_a, written_b = ({a.name: a for a in node.attribute} for node in nodes)
    defaults_a = defaults[0].of(nodes[0])
    defaults_b = defaults[1].of(nodes[1])
    for name in sorted({*written_a, *written_b, *defaults_a, *defaults_b}):
        a = written_a.get(name, defaults_a.get(name))
        b = written_b.get(name, defaults_b.get(name))
        key_a = a and attribute_key(a, contents[0])
        key_b = b and attribute_key(b, contents[1])
        # An attribute that only one version of the op has does not count at its default.
        is_new = a is None and name not in written_b
        is_gone = b is None and name not in written_a
        if key_a != key_b and not is_new and not is_gone:
            yield name, format_attribute(a), format_attribute(b)


def format_attribute(attribute: AttributeProto | None) -> str | None:
    """Write an attribute's value as short text; None for one that is not there."""
    if attribute is None:
        return None
    if attribute.ref_attr_name:
        return f"the caller's {sanitize(attribute.ref_attr_name, _MAX_TEXT)}"
    if attribute.type == AttributeProto.TENSOR:
        return f"a tensor of shape {list(attribute.t.dims)}"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, (bytes, str, int, float)):
        return sanitize(_plain(value), _MAX_TEXT)
    if isinstance(value, Sequence):
        return sanitize(f"[{', '.join(map(_plain, value[:_MAX_TEXT]))}]", _MAX_TEXT)
    # Bodies are compared node by node.
    return f"a {type(value).__name__}"


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value[: 2 * _MAX_TEXT].decode(errors="backslashreplace"))
    if isinstance(value, float):
        # With as many digits as tell it from its neighbors.
        return str(np.float32(value))
    return str(value)

"""Attributes of a node that ONNX's reference implementation runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, helper, numpy_helper

from pyopnb.errors import ModelError
from pyopnb.models.onnx_schemas import find_schema
from pyopnb.ops.messages import sanitize, suggest

__all__ = ["attribute_for", "attributes_to_pass", "default_of", "has_default"]

_NUMBERS: dict[int, Any] = {AttributeProto.FLOAT: float, AttributeProto.INT: int}
_LISTS: dict[int, Any] = {
    AttributeProto.FLOATS: float,
    AttributeProto.INTS: int,
    AttributeProto.STRINGS: lambda item: item,
}


def attribute_for(schema: Any, name: str, value: Any, where: str) -> AttributeProto:
    """Return the value as an attribute of the type that the operator defines; an AttributeProto unchanged."""
    if isinstance(value, AttributeProto):
        return value
    known = schema.attributes.get(name)
    if known is None:
        raise ModelError(
            f"{where}, attr {sanitize(name)}",
            expected=f"one of {', '.join(schema.attributes) or 'no attrs'}",
            got=f"{sanitize(name)} = {sanitize(repr(value))}",
            next=f"write {suggest(name, schema.attributes)}"
            if schema.attributes
            else "leave it out",
        )
    kind = AttributeProto.AttributeType.Value(known.type.name)
    try:
        return _make_attribute(name, value, kind)
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"{where}, attr {name}",
            expected=f"a value of kind {known.type.name}",
            got=f"{type(value).__name__} {sanitize(repr(value))}",
        ) from error


def _make_attribute(name: str, value: Any, kind: int) -> AttributeProto:
    if kind in _NUMBERS:
        exact = _NUMBERS[kind](value)
        if exact != value and exact == exact:
            raise ValueError("not that number")
        return helper.make_attribute(name, exact, attr_type=kind)
    if kind in _LISTS:
        return helper.make_attribute(name, [_LISTS[kind](item) for item in value], attr_type=kind)
    if isinstance(value, ModelProto):
        value = value.graph
    elif isinstance(value, (np.ndarray, np.generic)):
        value = numpy_helper.from_array(np.asarray(value))
    elif isinstance(value, (list, tuple)):
        value = [item.graph if isinstance(item, ModelProto) else item for item in value]
    made = helper.make_attribute(name, value)
    if made.type != kind:
        raise TypeError("another kind")
    return made


def attributes_to_pass(schema: Any, given: Mapping[str, AttributeProto]) -> list[AttributeProto]:
    """Return the attrs that the reference needs.

    It applies the defaults of the newest version. Defaults that are the same there are left out, as not every class of the
    reference takes every attr; those that differ in this version are passed.
    """
    newest = find_schema(schema.domain, schema.name).attributes
    mine = {name: default_of(attr) for name, attr in schema.attributes.items() if has_default(attr)}
    theirs = {name: default_of(attr) for name, attr in newest.items() if has_default(attr)}
    values = {name: default for name, default in mine.items() if name in newest} | dict(given)
    return [
        value for name, value in values.items() if not (value == mine.get(name) == theirs.get(name))
    ]


def has_default(attr: Any) -> bool:
    """Tell whether an attribute of an ``OpSchema`` has a default; an empty tensor is how onnx writes none."""
    return bool(attr.default_value.type) and not (
        attr.default_value.type == AttributeProto.TENSOR and not attr.default_value.t.data_type
    )


def default_of(attr: Any) -> AttributeProto:
    """Return the default of an attribute of an ``OpSchema``, as a node would have it."""
    default = AttributeProto()
    default.CopyFrom(attr.default_value)
    default.name = attr.name
    return default

"""Attributes of a node that the ONNX reference implementation runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, helper

from pyopnb.common import messages, sanitize
from pyopnb.engine import onnx_schemas, protos
from pyopnb.errors import ModelError

__all__ = ["attribute_for", "attributes_to_pass", "default_of", "has_default"]


def attribute_for(schema: Any, name: str, value: Any, where: str) -> AttributeProto:
    """Convert a value to an attribute of the type that the operator defines.

    An AttributeProto is returned unchanged.
    """
    if isinstance(value, AttributeProto):
        return value
    definition, attr = schema.attributes.get(name), f"{where}, attr {sanitize(name)}"
    if definition is None:
        expected = f"one of {', '.join(schema.attributes) or 'no attrs'}"
        got = f"{name} = {sanitize(repr(value))}"
        raise ModelError(
            attr, expected=expected, got=got, next=messages.closest(name, schema.attributes)
        )
    try:
        return _make_attribute(name, value, int(definition.type.value))
    except (TypeError, ValueError, AttributeError):
        expected = f"a value of kind {definition.type.name}"
        got = f"{type(value).__name__} {sanitize(repr(value))}"
        raise ModelError(attr, expected=expected, got=got) from None


def _make_attribute(name: str, value: Any, number: int) -> AttributeProto:
    """Make an attribute of one of the ONNX types; raise where the value is of another."""
    if number in (AttributeProto.FLOAT, AttributeProto.INT):
        exact = float(value) if number == AttributeProto.FLOAT else int(value)
        if exact != value and exact == exact:
            raise ValueError("not that number")
        return helper.make_attribute(name, exact, attr_type=number)
    if number in (AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS):
        # An array of numbers is taken as a list; an empty list does not show its type.
        items = value.tolist() if isinstance(value, np.ndarray) else list(value)
        return helper.make_attribute(name, items, attr_type=number)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    attribute = protos.attribute_of(name, value)
    if attribute.type != number:
        raise TypeError("another kind")
    return attribute


def attributes_to_pass(
    schema: Any, attributes: Mapping[str, AttributeProto]
) -> list[AttributeProto]:
    """Return the attrs that the reference needs.

    The reference applies the defaults of the newest version. Only defaults that differ in this
    version are passed, as not every class of the reference takes every attr.
    """
    newest = onnx_schemas.find_schema(schema.domain, schema.name).attributes
    passed = dict(attributes)
    # It only lets a runtime write over its inputs. BatchNormalization alone has to have it.
    # A node may still have it in a version that does not.
    consumed = schema.attributes.get("consumed_inputs")
    if consumed is None or not consumed.required:
        passed.pop("consumed_inputs", None)
    for name, attr in schema.attributes.items():
        if not has_default(attr) or name not in newest:
            continue
        default = default_of(attr)
        value = passed.setdefault(name, default)
        is_newest = has_default(newest[name]) and default_of(newest[name]) == default
        if value == default and is_newest:
            del passed[name]
    return list(passed.values())


def has_default(attr: Any) -> bool:
    """Tell whether an attribute of an ``OpSchema`` has a default.

    onnx writes an empty tensor where a tensor attribute has none.
    """
    default = attr.default_value
    if default.type == AttributeProto.TENSOR:
        return bool(default.t.data_type)
    return bool(default.type)


def default_of(attr: Any) -> AttributeProto:
    """Return the default of an attribute of an ``OpSchema``, as a node would have it."""
    default = AttributeProto()
    default.CopyFrom(attr.default_value)
    default.name = attr.name
    return default

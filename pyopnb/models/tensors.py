"""Every tensor that a model carries, wherever ONNX's format has room for one.

The places come from the format's own description, so that a field which a later onnx adds is
looked into as well, and one that a node should not have, such as graphs beside a graph in one
attribute, hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import TensorProto

__all__ = ["is_repeated", "tensors"]


def tensors(carrier: Message) -> Iterator[TensorProto]:
    """Every tensor in a model or a part of one: initializers, sparse ones, attributes, those of functions and of training."""
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
    """Return the messages that a tensor is, or that lead to one."""
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

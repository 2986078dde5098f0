"""Every tensor in a model, wherever the ONNX format allows one.

The fields to look into come from the format's own description. So a field that a later onnx adds is
also searched, and so is one that should be empty, such as a list of graphs in an attribute that
holds a graph.
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

"""Refuse models with names that are not UTF-8.

Protobuf returns bytes for such a name, which no reader of models expects.
"""

from __future__ import annotations

from functools import cache

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import ModelProto, NodeProto, ValueInfoProto

from pyopnb.common import sanitize
from pyopnb.engine.models.protos import is_repeated
from pyopnb.errors import ModelError

__all__ = ["LARGEST_VERSION", "check_names", "check_versions"]

LARGEST_VERSION = 2**31 - 1
"""The largest version of a domain that onnx and ONNX Runtime take; a file can say more."""

# Protobuf reads this many messages inside one another.
_DEEPEST = 100


def check_names(model: Message, where: str) -> None:
    """Refuse a model, or a part of one, with a name that is not UTF-8.

    Also refuse a nest that is deeper than a file can hold.

    Parameters
    ----------
    where : str
        The model, as messages name it.

    Raises
    ------
    ModelError
        It names the field.
    """
    # A list of the messages still to visit, because a model in memory can nest deeper than Python
    # recurses.
    waiting: list[tuple[Message, int]] = [(model, 0)]
    types: set[bytes] = set()
    while waiting:
        message, depth = waiting.pop()
        if depth > _DEEPEST:
            expected = f"graphs, types and others nested at most {_DEEPEST} deep"
            raise ModelError(
                where, expected=f"{expected}, because protobuf reads no more", got="more"
            )
        texts, messages = _fields(message.DESCRIPTOR)
        for name, repeated in texts:
            value = getattr(message, name)
            for text in value if repeated else [value]:
                if type(text) is not str:
                    field, got = f"{message.DESCRIPTOR.name}.{name}", sanitize(repr(text), 80)
                    raise ModelError(f"{where}, {field}", expected="names in UTF-8", got=got)
        for name, repeated in messages:
            if not repeated and not message.HasField(name):
                continue
            value = getattr(message, name)
            for inner in value if repeated else [value]:
                # Even a plain node at the largest depth is too deep.
                if depth == _DEEPEST or not _is_plain(inner, types):
                    waiting.append((inner, depth + 1))


def _is_plain(message: Message, types: set[bytes]) -> bool:
    """Tell quickly whether a message needs no closer look.

    That is a node with only ASCII in it and no attributes, or a value of a type that was looked at
    before. Large models have very many of both, and few types.
    """
    # Attributes can be as large as weights, which are not copied.
    if isinstance(message, NodeProto):
        return not message.attribute and message.SerializeToString().isascii()
    if not isinstance(message, ValueInfoProto) or message.metadata_props:
        return False
    type_bytes = message.type.SerializeToString()
    if type_bytes in types and type(message.name) is str:
        return True
    types.add(type_bytes)
    return False


@cache
def _fields(descriptor: Descriptor) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return the texts of a message and the messages in it, each with whether it is repeated."""
    texts, messages = [], []
    for field in descriptor.fields:
        # ONNX Runtime ignores texts that are written for people.
        if field.type == field.TYPE_STRING and field.name != "doc_string":
            texts.append((field.name, is_repeated(field)))
        elif field.message_type:
            messages.append((field.name, is_repeated(field)))
    return texts, messages


def check_versions(model: ModelProto, where: str) -> None:
    """Refuse a model that imports a version which neither onnx nor ONNX Runtime can take.

    Raises
    ------
    ModelError
        It names the import.
    """
    for scope in (model, *model.functions):
        for entry in scope.opset_import:
            if not 0 <= entry.version <= LARGEST_VERSION:
                function = "" if scope is model else f", function {scope.name}"
                name = f"{where}{function}, import of {sanitize(entry.domain) or 'ai.onnx'}"
                expected = f"a version up to {LARGEST_VERSION}"
                raise ModelError(name, expected=expected, got=str(entry.version))

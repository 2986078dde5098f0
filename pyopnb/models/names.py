"""Whether the texts of a model are texts: protobuf gives bytes for a name that is not UTF-8, and no reader expects them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from onnx import ModelProto, NodeProto

from pyopnb.errors import ModelError
from pyopnb.models.tensors import is_repeated
from pyopnb.ops.messages import sanitize

__all__ = ["LARGEST_VERSION", "check_names", "check_versions"]

LARGEST_VERSION = 2**31 - 1
"""The largest version of a domain that onnx and ONNX Runtime take; a file can say more."""

# Protobuf reads this many messages inside one another.
_DEEPEST = 100
# Messages looked at together; all of a large graph at once would start the garbage collector over and over.
_BLOCK = 1024
# ONNX Runtime does not look at words for people.
_FREE = {"doc_string"}


def check_names(model: Message, where: str) -> None:
    """Refuse a model, or a part of one, with a name that is not UTF-8, or nested deeper than a file can be.

    Parameters
    ----------
    model : ModelProto or GraphProto
    where : str
        The model, as messages name it.

    Raises
    ------
    ModelError
        It names the field.
    """
    # Each level iterates over what is inside the messages of the level before.
    levels: list[Iterator[Message]] = [iter([model])]
    while levels:
        block = list(islice(levels[-1], _BLOCK))
        if not block:
            levels.pop()
            continue
        block = [message for message in block if not _is_plain(message)]
        if len(levels) > _DEEPEST + 1:
            expected = f"graphs, types and others nested at most {_DEEPEST} deep, as protobuf reads no more"
            raise ModelError(where, expected=expected, got="more")
        if any(text_type is not str for text_type in _kinds_of_texts(block)):
            raise _refused(model, where)
        levels.append(_inside(block))


def _is_plain(message: Message) -> bool:
    """Tell whether a node, as most are, has only ASCII in it, which takes less time to find out than the type of each name."""
    # Attributes can be as large as weights, which are not copied.
    return (
        isinstance(message, NodeProto)
        and not message.attribute
        and message.SerializeToString().isascii()
    )


def _kinds_of_texts(messages: list[Message]) -> Iterator[type]:
    """The Python types of the messages' texts, each once for messages of one kind; no loop of Python's asks for each text."""
    for alike, (single, repeated, _, _) in _alike(messages):
        for name in single:
            yield from set(map(type, map(attrgetter(name), alike)))
        for name in repeated:
            yield from set(map(type, chain.from_iterable(map(attrgetter(name), alike))))


def _inside(messages: list[Message]) -> Iterator[Message]:
    """Yield the messages in these, whose names are looked at."""
    for alike, (_, _, single, many) in _alike(messages):
        for name in single:
            yield from (getattr(message, name) for message in alike if message.HasField(name))
        for name in many:
            yield from chain.from_iterable(map(attrgetter(name), alike))


def _alike(messages: list[Message]) -> Iterator[tuple[list[Message], tuple[tuple[str, ...], ...]]]:
    """Yield the messages of each kind, with the fields of that kind."""
    kinds: dict[type, list[Message]] = {}
    for message in messages:
        kinds.setdefault(type(message), []).append(message)
    for alike in kinds.values():
        yield alike, _fields(alike[0].DESCRIPTOR)


def check_versions(model: ModelProto, where: str) -> None:
    """Refuse a model that imports a version which neither onnx nor ONNX Runtime can take.

    Raises
    ------
    ModelError
        It names the import.
    """
    for number, scope in enumerate((model, *model.functions)):
        for entry in scope.opset_import:
            if not 0 <= entry.version <= LARGEST_VERSION:
                if number:
                    of_function = f", function {sanitize(model.functions[number - 1].name)}"
                else:
                    of_function = ""
                name = f"{where}{of_function}, import of {sanitize(entry.domain) or 'ai.onnx'}"
                raise ModelError(
                    name, expected=f"a version up to {LARGEST_VERSION}", got=str(entry.version)
                )


@cache
def _fields(kind: Descriptor) -> tuple[tuple[str, ...], ...]:
    """Return the names of a message's texts, single and repeated, and of the messages in it, single and repeated."""
    texts = [f for f in kind.fields if f.type == f.TYPE_STRING and f.name not in _FREE]
    inner = [f for f in kind.fields if f.message_type]
    groups = (
        [f for f in fields if is_repeated(f) is many]
        for fields in (texts, inner)
        for many in (False, True)
    )
    return tuple(tuple(f.name for f in group) for group in groups)


def _refused(model: Message, where: str) -> ModelError:
    path, text = next((path, text) for path, text in _texts(model) if type(text) is not str)
    return ModelError(f"{where}, {path}", expected="names in UTF-8", got=sanitize(repr(text), 80))


def _texts(model: Message) -> Iterator[tuple[str, Any]]:
    """Yield every text of a model with the way to it, ``graph.node[3].input[0]``."""
    waiting: list[tuple[str, Any]] = [("", model)]
    while waiting:
        path, message = waiting.pop()
        single, repeated, single_messages, many = _fields(message.DESCRIPTOR)
        yield from ((f"{path}{name}", getattr(message, name)) for name in single)
        yield from (
            (f"{path}{name}[{n}]", text)
            for name in repeated
            for n, text in enumerate(getattr(message, name))
        )
        waiting += (
            (f"{path}{name}[{n}].", inner)
            for name in many
            for n, inner in enumerate(getattr(message, name))
        )
        waiting += (
            (f"{path}{name}.", getattr(message, name))
            for name in single_messages
            if message.HasField(name)
        )

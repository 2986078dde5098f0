r"""Annotations: what ONNX's text form has no place for, in comments that begin with ``#@``.

An annotation stands above what it is of: above the head, of the model; above the head of a function, of that function; above a
node, of that node. It is a set of fields in protobuf's own text format, on one line, which is merged into the proto::

    #@ doc_string: "why" metadata_props { key: "k" value: "v" }
    y = Abs (x)

A path before it leads to a message inside, by name or by place, and a word does what a merge cannot:

``#@ attribute["value"].t doc_string: "pi"``
    Merges the fields into the tensor of that attribute.
``#@ attribute[1] insert name: "b" s: "\377" type: STRING``
    Puts a new entry of those fields at that place of the list.
``#@ clear domain``
    Takes fields away.
``#@ raw``
    Of the model or a tensor: values are in the field ``raw_data``.
``#@ graph.initializer["w"] typed``
    The values of a tensor are in the field of their type, although the model is ``raw``.
``#@ attribute["alpha"] bits f 7fc00001``
    Gives a float field values of these bits, in hexadecimal: a NaN that is not the one of ``nan``.
``#@ set domain name``
    Of the model: the domain of a node, the name of an attribute's tensor, or both are fields that are there even where empty.
``#@ verbatim``
    Of the model: nothing is added to what stands in the text or checked in it. So a model comes back that is not as it should
    be, or not sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto

from pyopnb.models.nodes import bodies
from pyopnb.models.tensors import is_repeated, tensors
from pyopnb.models.text.float_bits import set_bits
from pyopnb.models.text.tensor_fields import store_raw, store_typed
from pyopnb.models.text.tokens import QUOTED, Layout
from pyopnb.ops.errors import ModelError, closest, sanitize

__all__ = ["CAN_BE_EMPTY", "Annotations", "Message", "clear_empty", "nodes_of_text", "places"]

_WORDS = ("bits", "clear", "insert", "raw", "set", "typed", "verbatim")
_NAME = r'"(?:[^"\\\n])*"'
_STEP = rf"[a-z]\w*(?:\[(?:\d+|{_NAME})\])?"
_LINE = re.compile(
    rf"#@\s*+(?:(?P<path>(?!(?:{'|'.join(_WORDS)})\b){_STEP}(?:\.{_STEP})*)\s+(?=[a-z]))?(?P<rest>.*)", re.ASCII | re.DOTALL
)
_STEPS = re.compile(rf"([a-z]\w*)(?:\[(?:(\d+)|({_NAME}))\])?", re.ASCII)
_WORD = re.compile(rf"({'|'.join(_WORDS)})\b(?!\s*[:{{])(.*)", re.DOTALL)
_MARKS = re.compile(rf"{QUOTED}|(?P<note>\#@[^\n]*+)|\#[^\n]*+|(?P<arrow>=>)|(?P<mark>[(\[{{<>}}\])=])", re.ASCII | re.DOTALL)
_CLOSING = {")": "(", "}": "{", ">": "<", "]": "["}
_DEEPEST = 60
"""Depth of brackets in an annotation; protobuf's limit is 100 nested messages."""

Message = Any
"""A proto of any kind."""

CAN_BE_EMPTY = ("domain", "name")
"""Fields that `set` keeps where they are empty."""


def places(model: ModelProto) -> list[Message]:
    """What can have an annotation above it, in the order of the text: the model, its nodes, each function and its nodes."""
    found: list[Message] = [model]
    ahead: list[Message] = [model.graph, *model.functions][::-1]
    while ahead:
        item = ahead.pop()
        found += [item] if isinstance(item, (NodeProto, FunctionProto)) else []
        inner = bodies(item) if isinstance(item, NodeProto) else item.node
        ahead.extend(reversed(list(inner)))
    return found


def nodes_of_text(model: ModelProto) -> list[NodeProto]:
    """Every node, in the order of the text."""
    return [item for item in places(model) if isinstance(item, NodeProto)]


# ---- reading -----------------------------------------------------------------------------------------------------------------


@dataclass
class Annotations:
    """The annotations of a text.

    Attributes
    ----------
    layout : Layout
        Of the text.
    verbatim : bool
    nodes : list of NodeProto
        Those that stand in the text, in its order; from `merge` on.
    places : list of Message
        What can have an annotation above it, as it stands in the text; from `merge` on.
    """

    layout: Layout
    _lines: list[tuple[int, int, str]] = field(default_factory=list)
    verbatim: bool = False
    nodes: list[NodeProto] = field(default_factory=list)
    places: list[Message] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Annotations:
        """Find the annotations of a text, each with the number of what it is of among `places`.

        Raises
        ------
        ModelError
            One stands where nothing is that it could be of.
        """
        found = cls(Layout(text))
        if "#@" in text:
            found._find()
        return found

    def __bool__(self) -> bool:
        return bool(self._lines)

    def _find(self) -> None:
        open_: list[str] = []
        waiting: list[tuple[int, str]] = []
        number = 0  # of the next place
        for match in _MARKS.finditer(self.layout.text):
            mark = match["mark"]
            inside = open_[-1] if open_ else ""
            if match["note"]:
                if inside not in ("", "{"):
                    raise self._misplaced(match.start())
                waiting.append((match.start(), match["note"]))
            elif (match["arrow"] and not open_) or (mark == "=" and inside == "{"):
                self._lines += [(number, at, note) for at, note in waiting]
                waiting, number = [], number + 1
            elif mark in _CLOSING:
                if inside == _CLOSING[mark]:
                    open_.pop()
                if mark == "}" and waiting:
                    raise self._misplaced(waiting[0][0])
            elif mark and mark != "=":
                open_.append(mark)
        if waiting:
            raise self._misplaced(waiting[0][0])

    def _misplaced(self, at: int) -> ModelError:
        expected = "an annotation on a line of its own above the model, a function or a node"
        return ModelError(self.layout.where(at), expected=expected, got="nothing below it that it could be of")

    def merge(self, model: ModelProto) -> ModelProto:
        """Merge the annotations into what was read without them.

        Returns
        -------
        ModelProto
            The model that was given, which is changed.

        Raises
        ------
        ModelError
            An annotation cannot be read, or leads to nothing.
        """
        there = self.places = places(model)
        self.nodes = nodes_of_text(model)
        clear_empty(there, self._cleared())
        for number, at, note in self._lines:
            try:
                self._merge_line(there[number], note)
            except _Unreadable as error:
                raise ModelError(self.layout.where(at), expected=error.expected, got=error.got, next=error.next) from None
        if self._lines:
            _refuse_deep(model)
        return model

    def _cleared(self) -> set[str]:
        """The fields that are not there where they are empty."""
        found = (re.fullmatch(r"#@\s*set\b\s*([a-z\s]*)", note) for number, _, note in self._lines if number == 0)
        return {*CAN_BE_EMPTY} - {name for match in found if match for name in match[1].split()}

    def _merge_line(self, message: Message, note: str) -> None:
        path, rest = _LINE.findall(note)[0]  # it takes all that begins so
        rest = rest.strip()
        word = _WORD.fullmatch(rest)
        if word is None:
            if not rest:
                raise _Unreadable("fields in protobuf's text format", "nothing")
            _merge_fields(_follow(message, path), rest)
        elif word[1] == "insert":
            _insert(message, path, word[2].strip())
        elif word[1] == "bits":
            _set_bits(_follow(message, path), word[2].split())
        elif word[1] == "clear":
            _clear(_follow(message, path), word[2].split())
        elif word[1] == "set":
            _refuse_elsewhere(word[1], _follow(message, path))
            if not word[2].split() or not {*word[2].split()} <= {*CAN_BE_EMPTY}:
                raise _Unreadable(f"set {' '.join(CAN_BE_EMPTY)}, or one of them", sanitize(word[2].strip(), 60) or "nothing")
        elif word[2].strip():
            raise _Unreadable(f"nothing after {word[1]}", sanitize(word[2].strip(), 60))
        elif word[1] == "verbatim":
            _refuse_elsewhere(word[1], _follow(message, path))
            self.verbatim = True
        else:
            _store(_follow(message, path), raw=word[1] == "raw")


class _Unreadable(Exception):
    """An annotation that cannot be merged; where it stands is known further up."""

    def __init__(self, expected: str, got: str, next: str | None = None) -> None:
        super().__init__(expected, got)
        self.expected, self.got, self.next = expected, got, next


def _refuse_elsewhere(word: str, message: Message) -> None:
    if not isinstance(message, ModelProto):
        raise _Unreadable(f"{word} above the model", f"{word} of a {type(message).__name__}")


def _follow(message: Message, path: str) -> Message:
    """The message to which a path leads."""
    for name, place, quoted in _STEPS.findall(path):
        descriptor = _field(message, name)
        if descriptor.message_type is None:
            raise _Unreadable("a path to a message", f"{name}, which is none")
        selector = place or quoted
        if is_repeated(descriptor) != bool(selector):
            raise _Unreadable(f'{name}[…] or {name}["…"]' if not selector else f"{name} without brackets", name + selector)
        value = getattr(message, name)
        message = _entry(value, name, place, quoted[1:-1]) if selector else value
    return message


def _field(message: Message, name: str) -> Any:
    fields = message.DESCRIPTOR.fields_by_name
    if name not in fields:
        raise _Unreadable(f"a field of a {type(message).__name__}", sanitize(name, 60), closest(name, fields))
    return fields[name]


def _entry(entries: Any, name: str, place: str, wanted: str) -> Message:
    if place:
        if int(place) < len(entries):
            return entries[int(place)]
        raise _Unreadable(f"a place below {len(entries)}", f"{name}[{sanitize(place, 20)}]")
    found = [entry for entry in entries if getattr(entry, "name", None) == wanted]
    if len(found) == 1:
        return found[0]
    names = [str(entry.name) for entry in entries if hasattr(entry, "name")]
    got = f'{"no" if not found else "two"} {name}["{sanitize(wanted, 60)}"]'
    raise _Unreadable("the name of one entry", got, closest(wanted, names) if not found else None)


def _merge_fields(message: Message, fields: str) -> None:
    if _depth(fields) > _DEEPEST:
        raise _Unreadable(f"fields nested at most {_DEEPEST} deep", "more")
    try:
        text_format.Merge(fields, message)
    except (text_format.ParseError, ValueError, TypeError, OverflowError) as error:
        said = sanitize(" ".join(str(error).split()), 120).rstrip(".")
        raise _Unreadable("fields in protobuf's text format", f"what protobuf refuses: {said}") from None


def _depth(fields: str) -> int:
    deepest = depth = 0
    for mark in re.findall(rf"{QUOTED}|'(?:[^'\\]|\\.)*+'?|([{{}}<>\[\]])", fields, re.DOTALL):
        depth += (mark in ("{", "<", "[")) - (mark in ("}", ">", "]"))
        deepest = max(depth, deepest)
    return deepest


def _insert(message: Message, path: str, fields: str) -> None:
    last = re.fullmatch(r"(?:(.*)\.)?([a-z]\w*)\[(\d+)\]", path, re.DOTALL)
    if last is None:
        raise _Unreadable("the place of the new entry, as attribute[1] insert …", sanitize(path, 60) or "nothing")
    owner = _follow(message, last[1] or "")
    descriptor = _field(owner, last[2])
    if descriptor.message_type is None or not is_repeated(descriptor):
        raise _Unreadable("a list of messages", last[2])
    entries = getattr(owner, last[2])
    if int(last[3]) > len(entries):
        raise _Unreadable(f"a place up to {len(entries)}", f"{last[2]}[{sanitize(last[3], 20)}]")
    entry = entries.add()
    _merge_fields(entry, fields)
    entries.insert(int(last[3]), entries.pop())


def _clear(message: Message, names: list[str]) -> None:
    if not names:
        raise _Unreadable("the fields to clear", "nothing")
    for name in names:
        _field(message, name)
        message.ClearField(name)


def _set_bits(message: Message, words: list[str]) -> None:
    if not words:
        raise _Unreadable("a float field and its bits", "nothing")
    name, *values = words
    _field(message, name)
    for value in values:
        if not re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{16}", value):
            raise _Unreadable("8 or 16 hexadecimal digits for each value", sanitize(value, 60))
    try:
        set_bits(message, name, [int(value, 16) for value in values])
    except ValueError as error:
        raise _Unreadable(str(error), sanitize(" ".join(words), 60)) from None


def clear_empty(there: Iterable[Message], names: set[str]) -> None:
    """Clear the empty strings that onnx's parser sets and what onnx.helper makes does not have."""
    for item in there:
        if not isinstance(item, NodeProto):
            continue
        if "domain" in names and not item.domain:
            item.ClearField("domain")
        for attribute in item.attribute if "name" in names else ():
            if attribute.HasField("t") and not attribute.t.name:
                attribute.t.ClearField("name")


def _refuse_deep(model: ModelProto) -> None:
    try:
        ModelProto.FromString(model.SerializeToString())
    except (DecodeError, ValueError) as error:
        expected = "a model that can be written to a file"
        raise ModelError("annotations", expected=expected, got=sanitize(str(error), 120).rstrip(".")) from None


def _store(message: Message, *, raw: bool) -> None:
    if isinstance(message, ModelProto) and raw:
        for tensor in tensors(message):
            store_raw(tensor)
    elif isinstance(message, TensorProto):
        (store_raw if raw else store_typed)(message)
    else:
        raise _Unreadable("a tensor", f"a {type(message).__name__}")

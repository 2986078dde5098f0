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
``#@ set domain name``
    Of the model: the domain of a node, the name of an attribute's tensor, or both are fields that are there even where empty.
``#@ verbatim``
    Of the model: nothing is added to what stands in the text or checked in it. So a model comes back that is not as it should
    be, or not sorted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.models.external_data import is_external
from pyopnb.models.nodes import bodies
from pyopnb.models.tensors import is_repeated, tensors
from pyopnb.models.text.tokens import QUOTED, Layout
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, closest, sanitize

__all__ = ["Annotations", "annotate", "nodes_of_text", "places", "store_raw", "store_typed"]

_WORDS = ("clear", "insert", "raw", "set", "typed", "verbatim")
_EMPTY = ("domain", "name")
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

_Message = Any


def places(model: ModelProto) -> list[_Message]:
    """What can have an annotation above it, in the order of the text: the model, its nodes, each function and its nodes."""
    found: list[_Message] = [model]
    ahead: list[_Message] = [model.graph, *model.functions][::-1]
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
    """

    layout: Layout
    _lines: list[tuple[int, int, str]] = field(default_factory=list)
    verbatim: bool = False
    nodes: list[NodeProto] = field(default_factory=list)

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
        there = places(model)
        self.nodes = nodes_of_text(model)
        _clear_empty(there, self._cleared())
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
        return {*_EMPTY} - {name for match in found if match for name in match[1].split()}

    def _merge_line(self, message: _Message, note: str) -> None:
        path, rest = _LINE.findall(note)[0]  # it takes all that begins so
        rest = rest.strip()
        word = _WORD.fullmatch(rest)
        if word is None:
            if not rest:
                raise _Unreadable("fields in protobuf's text format", "nothing")
            _merge_fields(_follow(message, path), rest)
        elif word[1] == "insert":
            _insert(message, path, word[2].strip())
        elif word[1] == "clear":
            _clear(_follow(message, path), word[2].split())
        elif word[1] == "set":
            _refuse_elsewhere(word[1], _follow(message, path))
            if not word[2].split() or not {*word[2].split()} <= {*_EMPTY}:
                raise _Unreadable(f"set {' '.join(_EMPTY)}, or one of them", sanitize(word[2].strip(), 60) or "nothing")
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


def _refuse_elsewhere(word: str, message: _Message) -> None:
    if not isinstance(message, ModelProto):
        raise _Unreadable(f"{word} above the model", f"{word} of a {type(message).__name__}")


def _follow(message: _Message, path: str) -> _Message:
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


def _field(message: _Message, name: str) -> Any:
    fields = message.DESCRIPTOR.fields_by_name
    if name not in fields:
        raise _Unreadable(f"a field of a {type(message).__name__}", sanitize(name, 60), closest(name, fields))
    return fields[name]


def _entry(entries: Any, name: str, place: str, wanted: str) -> _Message:
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


def _merge_fields(message: _Message, fields: str) -> None:
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


def _insert(message: _Message, path: str, fields: str) -> None:
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


def _clear(message: _Message, names: list[str]) -> None:
    if not names:
        raise _Unreadable("the fields to clear", "nothing")
    for name in names:
        _field(message, name)
        message.ClearField(name)


def _clear_empty(there: Iterable[_Message], names: set[str]) -> None:
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


# ---- where tensors have their values -----------------------------------------------------------------------------------------

_DATA = ("int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")
_TYPED = {"float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
          "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data"}  # fmt: skip


def _store(message: _Message, *, raw: bool) -> None:
    if isinstance(message, ModelProto) and raw:
        for tensor in tensors(message):
            store_raw(tensor)
    elif isinstance(message, TensorProto):
        (store_raw if raw else store_typed)(message)
    else:
        raise _Unreadable("a tensor", f"a {type(message).__name__}")


def _has_numbers(tensor: TensorProto) -> bool:
    return not is_external(tensor) and any(row.onnx == tensor.data_type and row.bits for row in DTYPES)


def store_raw(tensor: TensorProto) -> None:
    """Put the values of a tensor of numbers into ``raw_data``. It is changed."""
    if _has_numbers(tensor) and not tensor.HasField("raw_data"):
        try:
            data = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        except ValueError:  # too many or too few, which is told where everything is checked
            return
        for name in _DATA:
            tensor.ClearField(name)
        tensor.raw_data = data


def store_typed(tensor: TensorProto) -> None:
    """Put the values of a tensor of numbers into the field of their type. It is changed."""
    if not _has_numbers(tensor) or not tensor.HasField("raw_data"):
        return
    row = next(row for row in DTYPES if row.onnx == tensor.data_type)
    if row.numpy.isbuiltin == 1 and row.name != "float16":
        values = np.frombuffer(tensor.raw_data, row.numpy)
        parts = {"b": np.uint8, "c": np.float32 if row.name == "complex64" else np.float64}
        values = values.view(parts.get(row.numpy.kind, row.numpy))
    else:  # as the integers that their bits are
        values = np.frombuffer(tensor.raw_data, np.uint16 if row.bits == 16 else np.uint8)
    tensor.ClearField("raw_data")
    getattr(tensor, _TYPED.get(row.name, "int32_data")).extend(values.tolist())


# ---- writing -----------------------------------------------------------------------------------------------------------------


def annotate(want: ModelProto, have: ModelProto) -> list[list[str]]:
    """The annotations that make of a model what it should be.

    Parameters
    ----------
    want : ModelProto
    have : ModelProto
        What was read of the text without annotations. It is changed.

    Returns
    -------
    list of list of str
        Lines for each of the `places` of ``have``.
    """
    there = places(have)
    lines: list[list[str]] = [[] for _ in there]
    kept = _kept_empty(want)
    if kept:
        lines[0].append(f"set {' '.join(sorted(kept))}")
    _clear_empty(there, {*_EMPTY} - kept)
    raw = [tensor.HasField("raw_data") for tensor in tensors(want) if _has_numbers(tensor)]
    if sum(raw) * 2 > len(raw):
        lines[0].append("raw")
        for tensor in tensors(have):
            store_raw(tensor)
    numbers = {id(item): number for number, item in enumerate(there)}
    for number, path, words in _Changes(numbers).of(want, have, 0, ""):
        lines[number].append(f"{path} {words}" if path else words)
    return [[f"#@ {line}" for line in those] for those in lines]


def _kept_empty(want: ModelProto) -> set[str]:
    """The fields that are there though they are empty, in most of the model."""
    nodes = nodes_of_text(want)
    empty = {"domain": [node for node in nodes if not node.domain]}
    empty["name"] = [a.t for node in nodes for a in node.attribute if a.HasField("t") and not a.t.name]
    return {name for name, those in empty.items() if sum(one.HasField(name) for one in those) * 2 > len(those)}


@dataclass(frozen=True)
class _Changes:
    """What makes one message of another, as annotations of the nearest place above it."""

    numbers: dict[int, int]

    def of(self, want: _Message, have: _Message, number: int, path: str) -> Iterator[tuple[int, str, str]]:
        if want.SerializeToString(deterministic=True) == have.SerializeToString(deterministic=True):
            return
        if id(have) in self.numbers:
            number, path = self.numbers[id(have)], ""
        if isinstance(want, TensorProto) and want.HasField("raw_data") != have.HasField("raw_data"):
            before = have.ByteSize()
            (store_raw if want.HasField("raw_data") else store_typed)(have)
            if have.ByteSize() != before or want.HasField("raw_data") == have.HasField("raw_data"):
                yield number, path, "raw" if want.HasField("raw_data") else "typed"
        fields = {descriptor.name: (descriptor, value) for descriptor, value in want.ListFields()}
        cleared = [descriptor.name for descriptor, _ in have.ListFields() if descriptor.name not in fields]
        rest = type(want)()
        deeper: list[tuple[int, str, str]] = []
        for name, (descriptor, value) in fields.items():
            step = f"{path}.{name}" if path else name
            if is_repeated(descriptor):
                cleared += [name] if self._list(descriptor, value, have, rest, (number, step), deeper) else []
            elif not have.HasField(name):
                _set(rest, descriptor, value)
            elif descriptor.message_type is not None:
                deeper += self.of(value, getattr(have, name), number, step)
            elif not _same(value, getattr(have, name)):
                _set(rest, descriptor, value)
        if cleared:
            yield number, path, f"clear {' '.join(cleared)}"
        if rest.ListFields():
            yield number, path, _one_line(rest)
        yield from deeper

    def _list(
        self,
        descriptor: Any,
        want: Any,
        have: _Message,
        rest: _Message,
        at: tuple[int, str],
        deeper: list[tuple[int, str, str]],
    ) -> bool:
        """Change a list; whether it must be cleared first."""
        number, path = at
        there, added = getattr(have, descriptor.name), getattr(rest, descriptor.name)
        if descriptor.message_type is None:
            kept = len(there) <= len(want) and all(_same(a, b) for a, b in zip(want, there, strict=False))
            added.extend(want[len(there) :] if kept else want)
            return not kept
        pairs = _pairs(want, there)
        if pairs is None:
            added.extend(want)
            return True
        last = max((place for place, other in enumerate(pairs) if other is not None), default=-1)
        for place, other in enumerate(pairs):
            if other is None and place > last:
                added.add().CopyFrom(want[place])
            elif other is None:
                deeper.append((number, f"{path}[{place}]", f"insert {_one_line(want[place])}"))
        names = Counter(getattr(entry, "name", "") for entry in want), Counter(getattr(entry, "name", "") for entry in there)
        for place, other in enumerate(pairs):
            if other is not None:
                name = getattr(want[place], "name", "")
                by_name = _is_plain(name) and all(counts[name] == 1 for counts in names)
                by_name = by_name and there[other].name == name
                selector = f'"{name}"' if by_name else place
                deeper += self.of(want[place], there[other], number, f"{path}[{selector}]")
        return False


def _pairs(want: Any, have: Any) -> list[int | None] | None:
    """For each entry, that which was read of it; None if there is no such order."""
    if len(want) == len(have):
        return list(range(len(want)))
    pairs: list[int | None] = []
    here = 0
    for entry in want:
        found = here < len(have) and hasattr(entry, "name") and entry.name == have[here].name
        pairs.append(here if found else None)
        here += found
    return pairs if here == len(have) else None


def _is_plain(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & {'"', "\\"}


def _same(a: Any, b: Any) -> bool:
    """Whether two scalars are the same; NaN is itself, and 0.0 is not -0.0."""
    return type(a) is type(b) and (a == b or a != a) and repr(a) == repr(b)


def _set(message: _Message, descriptor: Any, value: Any) -> None:
    if descriptor.message_type is None:
        setattr(message, descriptor.name, value)
    else:
        getattr(message, descriptor.name).SetInParent()
        getattr(message, descriptor.name).CopyFrom(value)


def _one_line(message: _Message) -> str:
    return str(text_format.MessageToString(message, as_one_line=True, as_utf8=True)).strip()

r"""Write and read the doc strings and metadata for which the ONNX text form has no syntax.

They describe nodes, graphs, functions and values. Each is written as a separate comment, above the
node, graph or function that it belongs to. The part after the colon is JSON, so that it always fits
on one line::

    #@ doc_string: "the first line\nthe second"
    #@ metadata_props: {"source": "net.py:12"}
    #@ value "x" doc_string: "the picture, scaled to ±1"
    y = Abs (x)

A node's domain and operator are also there if they are no identifiers
(``#@ domain: "pkg.torch.2.3"``), and ``#@ output: []`` if it has no outputs. A note at the top,
``#@ as_written: true``, says that the text leaves nothing out. The onnx parser takes all of these
lines for comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from pyopnb.common import sanitize
from pyopnb.engine import protos
from pyopnb.errors import ModelError
from pyopnb.models.text_form.lines import QUOTED, where

__all__ = ["AS_WRITTEN", "apply_notes", "note_lines"]

AS_WRITTEN = "#@ as_written: true"
"""The note that tells `parse` to add and to convert nothing."""

_IDENTITY_KEYS = ("domain", "op_type")
_VALUE_LISTS = ("input", "output", "value_info", "initializer")

_DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_NOTE = re.compile(
    rf"#@\s*(?:value\s+(?P<value>{QUOTED})\s+)?(?P<key>\w+)\s*:\s*(?P<json>.*)",
    re.ASCII | re.DOTALL,
)
_MARKS = re.compile(
    rf"{QUOTED}|(?P<note>\#@[^\n]*+)|\#[^\n]*+|(?P<arrow>=>)|(?P<mark>[(\[{{<>}}\])=])",
    re.ASCII | re.DOTALL,
)
_CLOSING = {")": "(", "}": "{", ">": "<", "]": "["}
_EXAMPLE = '#@ doc_string: "why", on a line above a node, a graph or a function'

_Described = GraphProto | FunctionProto | NodeProto


def _described_items(model: ModelProto) -> list[_Described]:
    """List the graphs, functions and nodes that notes can describe, in the order of the text."""
    items: list[_Described] = []
    for scope in (model.graph, *model.functions):
        items.append(scope)
        # The list is used from its end, so everything is put on it in reverse.
        waiting = list(reversed(scope.node))
        while waiting:
            node = waiting.pop()
            items.append(node)
            # A graph inside a node begins in the middle of that node's lines: there
            # is no line above it.
            for body in reversed(protos.bodies(node)):
                waiting += reversed(body.node)
    return items


# ---- writing -------------------------------------------------------------------------------------


def note_lines(item: _Described) -> Iterator[str]:
    """Write the notes of a node, a graph or a function, one line each."""
    yield from _notes_of(item, "#@ ")
    if isinstance(item, NodeProto):
        for key in _IDENTITY_KEYS:
            name = getattr(item, key)
            if name and not _DOTTED_NAME.fullmatch(name):
                yield f"#@ {key}: {_json(name)}"
        if not item.output:
            yield "#@ output: []"
    for value in _values_by_name(item).values():
        yield from _notes_of(value, f"#@ value {_json(value.name)} ")


def _notes_of(item: Any, start: str) -> Iterator[str]:
    # The header of a function has a place for its doc string.
    if item.doc_string and not isinstance(item, FunctionProto):
        yield f"{start}doc_string: {_json(_unicode(item.doc_string))}"
    metadata = {_unicode(entry.key): _unicode(entry.value) for entry in item.metadata_props}
    if metadata:
        yield f"{start}metadata_props: {_json(metadata)}"


def _unicode(text: str | bytes) -> str:
    """Replace characters that are not UTF-8, in a text that protobuf gives as bytes for them."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values_by_name(scope: _Described) -> dict[str, Any]:
    """Return the values that a graph or a function declares, the first of each name."""
    values: dict[str, Any] = {}
    for field in _VALUE_LISTS:
        for item in getattr(scope, field, ()):
            # The inputs and outputs of a function are names without a description, and a value
            # between nodes is in the text only with its type.
            if isinstance(item, str) or (field == "value_info" and not item.type.ListFields()):
                continue
            values.setdefault(item.name, item)
    return values


# ---- reading -------------------------------------------------------------------------------------


def apply_notes(model: ModelProto, text: str) -> bool:
    """Add to a model, in place, the doc strings and metadata in the notes of its text.

    Returns
    -------
    bool
        Whether the text says that it leaves nothing out.

    Raises
    ------
    ModelError
        A note cannot be read, or there is nothing below it.
    """
    as_written = False
    if "#@" not in text:
        return as_written
    items = _described_items(model)
    for number, position, note in _find_notes(text):
        if number == 0 and note.strip() == AS_WRITTEN:
            as_written = True
        elif not _apply(items[number], note):
            got = sanitize(note, 60)
            raise ModelError(where(text, position), expected=_EXAMPLE, got=got)
    return as_written


def _find_notes(text: str) -> Iterator[tuple[int, int, str]]:
    """Find the notes, each with the number of the item that is defined next below it."""
    brackets: list[str] = []
    pending: list[tuple[int, str]] = []
    number = 0
    for match in _MARKS.finditer(text):
        mark = match["mark"]
        if brackets:
            innermost = brackets[-1]
        else:
            innermost = ""
        if match["note"]:
            pending.append((match.start(), match["note"]))
        elif (match["arrow"] and not brackets) or (mark == "=" and innermost == "{"):
            # The arrow of a graph or a function, or the equals sign of a node.
            for position, note in pending:
                yield number, position, note
            pending = []
            number += 1
        elif mark in _CLOSING:
            if innermost == _CLOSING[mark]:
                brackets.pop()
            if mark == "}" and pending:
                break
        elif mark and mark != "=":
            brackets.append(mark)
    for position, _ in pending:
        raise ModelError(where(text, position), expected=_EXAMPLE, got="nothing below it")


def _apply(item: _Described, note: str) -> bool:
    """Apply one note; tell whether it can be read."""
    match = _NOTE.fullmatch(note)
    if match is None:
        return False
    key, value = match["key"], _value_of(match["json"])
    target: Any = item
    if match["value"]:
        # A list or a dict is neither a key nor a name.
        target = _values_by_name(item).get(str(_value_of(match["value"])))
    is_identity = key in _IDENTITY_KEYS and isinstance(target, NodeProto)
    if target is None:
        return False
    if key == "metadata_props" and isinstance(value, dict):
        if not all(isinstance(text, str) for text in value.values()):
            return False
        for name, text in value.items():
            target.metadata_props.add(key=name, value=text)
        return True
    if key == "output" and value == [] and isinstance(target, NodeProto):
        del target.output[:]
        return True
    if not isinstance(value, str) or not (key == "doc_string" or is_identity):
        return False
    setattr(target, key, value)
    return True


def _value_of(written: str) -> Any:
    """Read JSON; None for text that is not JSON or not Unicode."""
    try:
        value = json.loads(written)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        # A lone surrogate also raises a ValueError.
        return None
    return value

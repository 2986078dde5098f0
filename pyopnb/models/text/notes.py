r"""Doc strings and metadata of nodes, graphs, functions and values, for which ONNX's text form has no syntax.

Such a fact stands in a comment of its own, above the node, graph or function that it describes. The part after the colon is
JSON, so that it always fits on one line::

    #@ doc_string: "the first line\nthe second"
    #@ metadata_props: {"source": "net.py:12"}
    #@ value "x" doc_string: "the picture, scaled to ±1"
    y = Abs (x)

A node's domain and operator stand there as well if they are no identifiers (``#@ domain: "pkg.torch.2.3"``). onnx's own parser
takes all of these lines for comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from pyopnb.errors import ModelError
from pyopnb.models.nodes import bodies
from pyopnb.models.text.tokens import QUOTED, TextLayout
from pyopnb.ops.messages import closest, sanitize

__all__ = ["apply_notes", "is_dotted_name", "nodes_of_text", "note_lines"]

_TEXT_KEYS: dict[type, tuple[str, ...]] = {
    GraphProto: ("doc_string",),
    # The header of a function has a place for its doc string.
    FunctionProto: (),
    NodeProto: ("doc_string",),
}
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


def is_dotted_name(text: str) -> bool:
    """Tell whether the text form can hold a domain or an operator as it is."""
    return bool(_DOTTED_NAME.fullmatch(text))


def nodes_of_text(model: ModelProto) -> list[NodeProto]:
    """List every node in the order of the text."""
    return [item for item in _described_items(model) if isinstance(item, NodeProto)]


def _described_items(model: ModelProto) -> list[_Described]:
    """List what can have a note above it, in the order of the text."""
    items: list[_Described] = []
    # The list is used from its end, so everything is put on it in reverse.
    waiting: list[Any] = [model.graph, *model.functions]
    waiting.reverse()
    while waiting:
        item = waiting.pop()
        # A graph inside a node begins in the middle of that node's lines: there is no line above it.
        if isinstance(item, NodeProto):
            items.append(item)
            waiting.extend(reversed(list(bodies(item))))
            continue
        if item is model.graph or isinstance(item, FunctionProto):
            items.append(item)
        waiting.extend(reversed(item.node))
    return items


# ---- writing -----------------------------------------------------------------------------------------------------------------


def note_lines(item: _Described) -> Iterator[str]:
    """Write the notes of a node, a graph or a function.

    Parameters
    ----------
    item : NodeProto, GraphProto or FunctionProto

    Yields
    ------
    str
        One line each.
    """
    yield from _notes_of(item, "#@ ", _TEXT_KEYS[type(item)])
    if isinstance(item, NodeProto):
        for key in _IDENTITY_KEYS:
            name = getattr(item, key)
            if name and not is_dotted_name(name):
                yield f"#@ {key}: {_json(name)}"
        return
    for value in _values_by_name(item).values():
        yield from _notes_of(value, f"#@ value {_json(value.name)} ", ("doc_string",))


def _notes_of(item: Any, start: str, keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        if getattr(item, key):
            yield f"{start}{key}: {_json(_unicode(getattr(item, key)))}"
    metadata = {_unicode(entry.key): _unicode(entry.value) for entry in item.metadata_props}
    if metadata:
        yield f"{start}metadata_props: {_json(metadata)}"


def _unicode(text: str | bytes) -> str:
    """Replace what is no UTF-8: protobuf gives such a field of a damaged file as bytes."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values_by_name(scope: GraphProto | FunctionProto) -> dict[str, Any]:
    """Return the values that a graph or a function declares, the first of each name."""
    values: dict[str, Any] = {}
    for field in _VALUE_LISTS:
        for item in getattr(scope, field, ()):
            # The inputs and outputs of a function are names without a description, and a value between nodes stands in the text
            # only with its type.
            if isinstance(item, str) or (field == "value_info" and not item.type.ListFields()):
                continue
            values.setdefault(item.name, item)
    return values


# ---- reading -----------------------------------------------------------------------------------------------------------------


def apply_notes(model: ModelProto, layout: TextLayout) -> None:
    """Give a model the doc strings and metadata that stand in the notes of its text.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    layout : TextLayout
        The text that it was read from.

    Raises
    ------
    ModelError
        A note cannot be read, or there is nothing below it.
    """
    if "#@" not in layout.text:
        return
    items = _described_items(model)
    for number, position, note in _find_notes(layout):
        fault = _apply(items[number], note)
        if fault is not None:
            expected, got, remedy = fault
            raise ModelError(layout.where(position), expected=expected, got=got, next=remedy)


def _find_notes(layout: TextLayout) -> Iterator[tuple[int, int, str]]:
    """Find the notes, each with the number of the item that is defined next below it."""
    brackets: list[str] = []
    pending: list[tuple[int, str]] = []
    number = 0
    for match in _MARKS.finditer(layout.text):
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
        raise ModelError(layout.where(position), expected=_EXAMPLE, got="nothing below it")


def _apply(item: _Described, note: str) -> tuple[str, str, str | None] | None:
    """Apply one note; return what was expected, what came and what to type if that fails."""
    match = _NOTE.fullmatch(note)
    if match is None:
        return _EXAMPLE, sanitize(note, 60), None
    target: Any = item
    keys = (*_TEXT_KEYS[type(item)], "metadata_props")
    if match["value"]:
        if isinstance(item, NodeProto):
            values = {}
        else:
            values = _values_by_name(item)
        name = _value_of(match["value"])
        if name not in values:
            return "a value that is declared below", match["value"], closest(str(name), values)
        target = values[name]
        keys = ("doc_string", "metadata_props")
    elif isinstance(item, NodeProto):
        keys = (*keys, *_IDENTITY_KEYS)
    key = match["key"]
    if key not in keys:
        return f"one of {', '.join(keys)}", key, closest(key, keys)
    value = _value_of(match["json"])
    if key != "metadata_props":
        if not isinstance(value, str):
            return (
                "a text in double quotes, as in JSON",
                sanitize(match["json"], 60) or "nothing",
                None,
            )
        setattr(target, key, value)
        return None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return 'texts by name, as {"key": "value"}', sanitize(match["json"], 60) or "nothing", None
    for name, text in value.items():
        target.metadata_props.add(key=name, value=text)
    return None


def _value_of(written: str) -> Any:
    """Read JSON; None for what is not JSON, or no Unicode."""
    try:
        value = json.loads(written)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        # A lone surrogate raises a ValueError as well.
        return None
    return value

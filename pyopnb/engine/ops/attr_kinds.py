"""The kinds of attrs, one row each, with their Python classes and the ONNX names.

Schemas, the definitions that `onnx.defs` gets, messages and the cells that `skeleton` writes read
this table, so that a new kind is a row here and its conversion in `pyopnb.engine.models.protos`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

__all__ = [
    "ATTR_KINDS",
    "AttrKind",
    "annotation_of",
    "kind_of_class",
    "kind_of_value",
    "noun_of",
    "onnx_type",
]


@dataclass(frozen=True, eq=False)
class AttrKind:
    """One kind of attr.

    Attributes
    ----------
    name : str
        As schemas and messages have it; a list of them is ``list[name]``.
    classes : tuple of type
        The classes that annotations name and that values have.
    annotation : str
        As `skeleton` writes it.
    noun : str
        With its article, for messages.
    onnx, onnx_list : int
        Numbers of ``onnx.AttributeProto.AttributeType``.
    """

    name: str
    classes: tuple[type, ...]
    annotation: str
    noun: str
    onnx: int
    onnx_list: int


ATTR_KINDS = (
    AttrKind("int", (int,), "int", "an int", AttributeProto.INT, AttributeProto.INTS),
    AttrKind("float", (float,), "float", "a float", AttributeProto.FLOAT, AttributeProto.FLOATS),
    AttrKind("str", (str,), "str", "a text", AttributeProto.STRING, AttributeProto.STRINGS),
    AttrKind("bytes", (bytes,), "bytes", "a text", AttributeProto.STRING, AttributeProto.STRINGS),
    AttrKind("bool", (bool,), "bool", "a bool", AttributeProto.INT, AttributeProto.INTS),
    AttrKind(
        "tensor",
        (np.ndarray, TensorProto),
        "np.ndarray",
        "an array",
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
    ),
    AttrKind(
        "graph",
        (ModelProto, GraphProto),
        "onnx.ModelProto",
        "a graph",
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
    ),
)

_BY_CLASS = {cls: row.name for row in ATTR_KINDS for cls in row.classes}

# Of two kinds with one number, the first is meant: ints are not bools, and texts are not bytes.
_BY_ONNX = {row.onnx: row for row in reversed(ATTR_KINDS)}
_BY_ONNX_LIST = {row.onnx_list: row for row in reversed(ATTR_KINDS)}

# By the kind's name, for attributes that are written.
_ONNX_TYPES = {row.name: row.onnx for row in ATTR_KINDS}
_ONNX_TYPES |= {f"list[{row.name}]": row.onnx_list for row in ATTR_KINDS}


def kind_of_class(cls: object) -> str | None:
    """Find the kind of attr that an annotation names; return None where no attr has that class."""
    return _BY_CLASS.get(cls) if isinstance(cls, type) else None


def kind_of_value(value: Any) -> str:
    """Find the kind of attr that a value is.

    Returns
    -------
    str
        The name of its type where no attr can have it.

    Examples
    --------
    >>> kind_of_value(2.5), kind_of_value([1, 2.5]), kind_of_value([1, "a"]), kind_of_value({})
    ('float', 'list[float]', 'list', 'dict')
    """
    if isinstance(value, np.ndarray):
        return "tensor"
    if not isinstance(value, (list, tuple)):
        return _BY_CLASS.get(type(value), type(value).__name__)
    kinds = {kind_of_value(item) for item in value}
    # [1, 2.5] means two floats.
    if kinds == {"int", "float"}:
        return "list[float]"
    return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"


def onnx_type(kind: str) -> int | None:
    """Return the ONNX number of a kind; return None for ``any`` and for lists of mixed items."""
    return _ONNX_TYPES.get(kind)


def annotation_of(number: int) -> str:
    """Write the annotation for attributes of one of the ONNX types, or nothing if there is none.

    Examples
    --------
    >>> annotation_of(AttributeProto.TENSOR), annotation_of(AttributeProto.INTS)
    ('np.ndarray', 'list[int]')
    """
    if number in _BY_ONNX:
        return _BY_ONNX[number].annotation
    return f"list[{_BY_ONNX_LIST[number].annotation}]" if number in _BY_ONNX_LIST else ""


def noun_of(number: int) -> str:
    """Name a value of one of the ONNX attribute types for a message.

    Examples
    --------
    >>> noun_of(AttributeProto.FLOATS), noun_of(AttributeProto.TYPE_PROTO)
    ('a list of floats', 'a type proto')
    """
    if number in _BY_ONNX:
        return _BY_ONNX[number].noun
    if number in _BY_ONNX_LIST:
        return f"a list of {_BY_ONNX_LIST[number].noun.split()[-1]}s"
    return f"a {AttributeProto.AttributeType.Name(number).lower().replace('_', ' ')}"

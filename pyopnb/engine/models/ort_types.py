"""Convert types between the ONNX TypeProto and the form in which ONNX Runtime writes them.

The runtime lists of kernels and operators name types as ``tensor(float)`` or
``seq(tensor(int64))``, so nodes are looked up by this form. Only messages use the notation
``float32``.
"""

from __future__ import annotations

import re
from functools import cache

from onnx import TensorProto, TypeProto

from pyopnb.engine.ops.dtypes import DTYPES

__all__ = ["kind_of", "proto_of", "tensor_kind", "to_notation"]

_NAMES = {number: name.lower() for name, number in TensorProto.DataType.items()}
_NUMBERS = {name: number for number, name in _NAMES.items()}
_NOTATION = {_NAMES[row.onnx]: row.name for row in DTYPES}
_WRAPPED = re.compile(r"(seq|optional|map)\((?:(\w+),)?(.*)\)")
_ELEMENT = re.compile(r"(sparse_)?tensor\((\w+)\)")


@cache
def tensor_kind(number: int) -> str | None:
    """Return the tensor type of a ``TensorProto.DataType``; None for an undefined number."""
    if _NAMES.get(number, "undefined") != "undefined":
        return f"tensor({_NAMES[number]})"
    return None


def kind_of(proto: TypeProto) -> str | None:
    """Return the type as the runtime writes it; None where the proto has none."""
    # The text is built from outside to inside, one wrapper a step.
    before, after = "", ""
    while True:
        which = proto.WhichOneof("value")
        if which in ("tensor_type", "sparse_tensor_type"):
            type_text = tensor_kind(getattr(proto, which).elem_type)
            return type_text and f"{before}{'sparse_' if which[0] == 's' else ''}{type_text}{after}"
        if which == "sequence_type":
            before, after, proto = f"{before}seq(", f"){after}", proto.sequence_type.elem_type
        elif which == "optional_type":
            before, after, proto = f"{before}optional(", f"){after}", proto.optional_type.elem_type
        elif which == "map_type":
            key = _NAMES.get(proto.map_type.key_type, "undefined")
            before, after, proto = f"{before}map({key},", f"){after}", proto.map_type.value_type
        else:
            return None


def proto_of(kind: str) -> TypeProto:
    """Return the TypeProto of a type as the runtime writes it; an empty one for any other text."""
    proto = TypeProto()
    inner = proto
    while wrapped := _WRAPPED.fullmatch(kind):
        which, key, kind = wrapped.groups()
        if which == "map":
            inner.map_type.key_type = _NUMBERS.get(key or "", 0)
            inner = inner.map_type.value_type
        else:
            if which == "seq":
                inner = inner.sequence_type.elem_type
            else:
                inner = inner.optional_type.elem_type
    if element := _ELEMENT.fullmatch(kind):
        sparse, name = element.groups()
        (inner.sparse_tensor_type if sparse else inner.tensor_type).elem_type = _NUMBERS.get(
            name, 0
        )
    return proto


def to_notation(kind: str) -> str:
    """Write ``tensor(float)`` as ``float32``, and ``seq(tensor(double))`` as ``seq(float64)``."""
    return re.sub(r"(?<!_)tensor\((\w+)\)", lambda found: _NOTATION.get(found[1], found[1]), kind)

"""The copy of a model that Netron shows: without large weights, and with a unique name for every node, for clicks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnx import AttributeProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto

from pyopnb.models.io import without_weights
from pyopnb.models.nodes import bodies, first_output, walk
from pyopnb.models.tensors import tensors
from pyopnb.ops.dtypes import DTYPES

__all__ = ["Trimmed", "trim"]

_MOST_BYTES = 1024  # of a tensor that keeps its values
_TOTAL_BYTES = 64 * 1024  # of all such tensors
_MOST_ITEMS = 1000  # of an attribute
_MOST_CHARACTERS = 16 * 1024
_TYPED = (
    ("float_data", 4),
    ("int32_data", 4),
    ("int64_data", 8),
    ("double_data", 8),
    ("uint64_data", 8),
)


@dataclass(frozen=True)
class Trimmed:
    """A model to show.

    Attributes
    ----------
    proto : ModelProto
        A copy.
    nodes : dict
        The nodes of the original by their names in the copy.
    left_out : int
        How many tensors and attributes lost their values.
    size : int
        Bytes of these values, as far as their dims tell.
    """

    proto: ModelProto
    nodes: dict[str, NodeProto]
    left_out: int
    size: int

    @property
    def note(self) -> str:
        """What was left out, as a sentence; empty if nothing was."""
        if not self.left_out:
            return ""
        size = self.size / 1e6
        held = (
            f"{self.size} bytes"
            if self.size < 1e5
            else f"{size:.1f} MB"
            if size < 1e3
            else f"{size / 1e3:.1f} GB"
        )
        return f"{self.left_out} large or external {'value' if self.left_out == 1 else 'values'} left out of this view ({held})"


def trim(model: ModelProto) -> Trimmed:
    """A copy to show; the model is not changed, and its external data is not read."""
    proto = without_weights(model).proto
    proto.ClearField("training_info")
    left_out, size = _clear_data(proto)
    for node in (site.node for site in walk(proto)):
        for index, taken in _long_attributes(node):
            left_out, size = left_out + 1, size + taken
            _clear_attribute(node.attribute[index])
    _cut_texts(proto)
    return Trimmed(proto, _name_nodes(model, proto), left_out, size)


def _clear_data(proto: ModelProto) -> tuple[int, int]:
    """Clear the data of all but the smallest tensors; returns how many these were, and their bytes."""
    gone, size, kept = 0, 0, 0
    for tensor in sorted(tensors(proto), key=_stored_bytes):
        here = _stored_bytes(tensor)
        outside = tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)
        if not outside and here <= _MOST_BYTES and kept + here <= _TOTAL_BYTES:
            kept += here
            continue
        gone, size = gone + 1, size + max(here, _declared_bytes(tensor))
        for name in (
            "raw_data",
            "string_data",
            "external_data",
            "data_location",
            *(name for name, _ in _TYPED),
        ):
            tensor.ClearField(name)
    return gone, size


def _stored_bytes(tensor: TensorProto) -> int:
    typed = sum(len(getattr(tensor, name)) * width for name, width in _TYPED)
    return len(tensor.raw_data) + typed + sum(map(len, tensor.string_data))


def _declared_bytes(tensor: TensorProto) -> int:
    row = next((row for row in DTYPES if row.onnx == tensor.data_type), None)
    return (
        math.prod(tensor.dims) * row.bits // 8
        if row and row.bits and min(tensor.dims, default=0) >= 0
        else 0
    )


def _long_attributes(node: NodeProto) -> Iterator[tuple[int, int]]:
    """The indices and bytes of attributes that are too long to show, such as the trees of a forest or an engine as text."""
    for index, a in enumerate(node.attribute):
        if (
            max(len(a.floats), len(a.ints), len(a.strings)) > _MOST_ITEMS
            or len(a.s) + sum(map(len, a.strings)) > _MOST_CHARACTERS
        ):
            yield index, 4 * len(a.floats) + 8 * len(a.ints) + sum(map(len, a.strings)) + len(a.s)


def _clear_attribute(a: AttributeProto) -> None:
    text = f"{len(a.s) or max(len(a.floats), len(a.ints), len(a.strings))} values, left out of this view"
    name = a.name
    a.Clear()
    a.name, a.type, a.s = name, a.STRING, text.encode()


def _cut_texts(proto: ModelProto) -> None:
    """Cut documentation and metadata, which can be of any length."""
    _cut_doc(proto)
    entries: list[StringStringEntryProto] = list(proto.metadata_props)
    for graph in (
        proto.graph,
        *proto.functions,
        *(body for site in walk(proto) for body in bodies(site.node)),
    ):
        _cut_doc(graph)
        entries += graph.metadata_props
        for node in graph.node:
            _cut_doc(node)
            entries += node.metadata_props
    for entry in entries:
        if len(entry.value) > _MOST_CHARACTERS:
            entry.value = entry.value[:_MOST_CHARACTERS] + "…"


def _cut_doc(owner: object) -> None:
    words = owner.doc_string  # type: ignore[attr-defined]  # protos have no types
    if isinstance(words, bytes):  # not UTF-8
        words = owner.doc_string = words.decode(errors="replace")  # type: ignore[attr-defined]
    if len(words) > _MOST_CHARACTERS:
        owner.doc_string = words[:_MOST_CHARACTERS] + "…"  # type: ignore[attr-defined]


def _name_nodes(model: ModelProto, proto: ModelProto) -> dict[str, NodeProto]:
    """Give each node of the copy a unique name; returns the nodes of the original by these names."""
    named: dict[str, NodeProto] = {}
    for index, (original, copy) in enumerate(zip(walk(model), walk(proto), strict=True)):
        name = base = (
            original.node.name
            or f"({original.node.op_type} of {first_output(original.node) or index})"
        )
        while (
            name in named
        ):  # two bodies may use the same name, and a hostile model may use it everywhere
            name = f"{base} ({index})" if name == base else f"{name}'"
        copy.node.name = name
        named[name] = original.node
    return named

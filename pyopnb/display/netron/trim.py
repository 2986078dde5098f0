"""The copy of a model that is shown: its weights left out, and a name for every node, by which a click finds it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnx import ModelProto, NodeProto, StringStringEntryProto, TensorProto

from pyopnb.models.io import without_weights
from pyopnb.models.nodes import bodies, first_output, tensors, walk
from pyopnb.ops.dtypes import DTYPES

__all__ = ["Trimmed", "trimmed"]

_LARGEST = 1024  # bytes of one tensor that is shown with its values
_ALTOGETHER = 64 * 1024
_LONGEST = 1000  # numbers or texts of one attribute
_TEXT = 16 * 1024
_TYPED = (("float_data", 4), ("int32_data", 4), ("int64_data", 8), ("double_data", 8), ("uint64_data", 8))


@dataclass(frozen=True)
class Trimmed:
    """A model to show.

    Attributes
    ----------
    proto : ModelProto
        A copy.
    nodes : dict
        The original's nodes by the names that they have in the copy.
    left_out : int
        Tensors and attributes without their values.
    size : int
        Bytes that these would take, as far as their dims say it.
    """

    proto: ModelProto
    nodes: dict[str, NodeProto]
    left_out: int
    size: int

    @property
    def note(self) -> str:
        """What is missing, for a person; empty where nothing is."""
        if not self.left_out:
            return ""
        size = self.size / 1e6
        held = f"{self.size} bytes" if self.size < 1e5 else f"{size:.1f} MB" if size < 1e3 else f"{size / 1e3:.1f} GB"
        return f"{self.left_out} large or external {'value' if self.left_out == 1 else 'values'} left out of this view ({held})"


def trimmed(model: ModelProto) -> Trimmed:
    """The copy to show; the model itself is only looked at, and no file beside it is opened."""
    proto = without_weights(model).proto
    proto.ClearField("training_info")
    left_out, size = _without_data(proto)
    for node in (site.node for site in walk(proto)):
        for place, taken in _long_attributes(node):
            left_out, size = left_out + 1, size + taken
            _empty(node, place)
    _cut_texts(proto)
    return Trimmed(proto, _named(model, proto), left_out, size)


def _without_data(proto: ModelProto) -> tuple[int, int]:
    """Take the data of all but the smallest tensors; how many they were, and their size by their dims."""
    gone, size, kept = 0, 0, 0
    for tensor in sorted(tensors(proto), key=_data):
        here = _data(tensor)
        outside = tensor.data_location == TensorProto.EXTERNAL or bool(tensor.external_data)
        if not outside and here <= _LARGEST and kept + here <= _ALTOGETHER:
            kept += here
            continue
        gone, size = gone + 1, size + max(here, _declared(tensor))
        for name in ("raw_data", "string_data", "external_data", "data_location", *(name for name, _ in _TYPED)):
            tensor.ClearField(name)
    return gone, size


def _data(tensor: TensorProto) -> int:
    typed = sum(len(getattr(tensor, name)) * width for name, width in _TYPED)
    return len(tensor.raw_data) + typed + sum(map(len, tensor.string_data))


def _declared(tensor: TensorProto) -> int:
    row = next((row for row in DTYPES if row.onnx == tensor.data_type), None)
    return math.prod(tensor.dims) * row.bits // 8 if row and row.bits and min(tensor.dims, default=0) >= 0 else 0


def _long_attributes(node: NodeProto) -> Iterator[tuple[int, int]]:
    """Attributes that are too long to show, by their places, and their bytes: trees as numbers, engines as text."""
    for place, a in enumerate(node.attribute):
        if max(len(a.floats), len(a.ints), len(a.strings)) > _LONGEST or len(a.s) + sum(map(len, a.strings)) > _TEXT:
            yield place, 4 * len(a.floats) + 8 * len(a.ints) + sum(map(len, a.strings)) + len(a.s)


def _empty(node: NodeProto, place: int) -> None:
    a = node.attribute[place]
    said = f"{len(a.s) or max(len(a.floats), len(a.ints), len(a.strings))} values, left out of this view"
    name = a.name
    a.Clear()
    a.name, a.type, a.s = name, a.STRING, said.encode()


def _cut_texts(proto: ModelProto) -> None:
    """Cut documentation and metadata that could be of any length."""
    _cut_doc(proto)
    entries: list[StringStringEntryProto] = list(proto.metadata_props)
    for graph in (proto.graph, *proto.functions, *(body for site in walk(proto) for body in bodies(site.node))):
        _cut_doc(graph)
        entries += graph.metadata_props
        for node in graph.node:
            _cut_doc(node)
            entries += node.metadata_props
    for entry in entries:
        if len(entry.value) > _TEXT:
            entry.value = entry.value[:_TEXT] + "…"


def _cut_doc(owner: object) -> None:
    if len(owner.doc_string) > _TEXT:  # type: ignore[attr-defined]  # protos have no types
        owner.doc_string = owner.doc_string[:_TEXT] + "…"  # type: ignore[attr-defined]


def _named(model: ModelProto, proto: ModelProto) -> dict[str, NodeProto]:
    """Give each node of the copy a name of its own; the original's nodes by these names."""
    found: dict[str, NodeProto] = {}
    for place, (original, copy) in enumerate(zip(walk(model), walk(proto), strict=True)):
        name = base = original.node.name or f"({original.node.op_type} of {first_output(original.node) or place})"
        while name in found:  # two bodies may use one name, and a hostile model may use it everywhere
            name = f"{base} ({place})" if name == base else f"{name}'"
        copy.node.name = name
        found[name] = original.node
    return found

"""Give the rules of onnx-ad the names of free sizes, which it forgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto, TypeProto

from pyopnb.engine import protos

__all__ = ["NamedSizes", "SizedContext"]

_Sizes = tuple[int | str | None, ...]


class NamedSizes:
    """The sizes of tensors, and the known sizes of their gradients.

    Parameters
    ----------
    types : mapping of str to TypeProto
        The declared types.
    hinted : sequence of str
        The results of ops, whose hints have names of their own: two nodes may have two sizes of one
        name.
    """

    def __init__(self, types: Mapping[str, TypeProto], hinted: Sequence[str]) -> None:
        self.declared: dict[str, _Sizes] = {}
        self.ranks: dict[str, int] = {}
        for name, proto in types.items():
            shape = protos.type_of_proto(proto).shape
            self.ranks[name] = len(shape or ())
            if shape is not None and None not in shape:
                self.declared[name] = shape
        names: set[int | str | None] = set()
        for name in hinted:
            names.update(size for size in self.declared.get(name, ()) if isinstance(size, str))
        for name, sizes in list(self.declared.items()):
            if not names.isdisjoint(sizes):
                del self.declared[name]
        # By the names of gradients: their sizes, and their names before they got an axis.
        self.exact: dict[str, _Sizes] = {}
        self.unsqueezed: dict[str, tuple[str, list[int]]] = {}
        self.targets: dict[_Sizes, str] = {}

    def is_exact(self, gradient: str, primal: str) -> bool:
        """Tell whether a gradient is known to have the sizes of what it is derived in."""
        sizes = self.declared.get(primal)
        return sizes is not None and self.exact.get(gradient) == sizes


class SizedContext:
    """What onnx-ad gives to the rule of a node, with fewer nodes where free sizes have names.

    onnx-ad would compare such sizes when the model runs.
    """

    def __init__(self, context: Any, node: NodeProto, sizes: NamedSizes) -> None:
        self._context, self._node, self._sizes = context, node, sizes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    @property
    def wanted(self) -> set[str]:
        """The inputs that need a gradient."""
        wanted: set[str] = self._context.wanted
        return wanted

    @wanted.setter
    def wanted(self, names: set[str]) -> None:
        self._context.wanted = names

    def declare_exact(self, value: str, primal: str) -> None:
        """Note that a gradient has the sizes of the tensor that it is derived in."""
        if primal in self._sizes.declared:
            self._sizes.exact[value] = self._sizes.declared[primal]

    def full(self, value: str, primal: str) -> str:
        """Expand a gradient to the sizes of the tensor that it is derived in."""
        sizes = self._sizes.declared.get(primal)
        if self._sizes.is_exact(value, primal):
            return value
        builder = self._context.b
        expanded: str
        # Results in a body are known in the body only.
        if sizes is None or self._context.parent is not None:
            expanded = self._context.full(value, primal)
        elif sizes in self._sizes.targets:
            expanded = builder.op("Expand", [value, self._sizes.targets[sizes]], stem="full")
        else:
            expanded = self._context.full(value, primal)
            self._sizes.targets[sizes] = builder.nodes[-1].input[1]
        self.declare_exact(expanded, primal)
        return expanded

    def unsqueeze(self, value: str, axes: Sequence[int]) -> str:
        """Add axes of size 1."""
        result: str = self._context.unsqueeze(value, axes)
        self._sizes.unsqueezed[result] = value, list(axes)
        return result

    def squeeze(self, value: str, axes: Sequence[int]) -> str:
        """Drop axes of size 1."""
        plain, added = self._sizes.unsqueezed.get(value, ("", None))
        squeezed: str = plain if added == list(axes) else self._context.squeeze(value, axes)
        return squeezed

    def unbroadcast(self, value: str, source_rank: int, target: str) -> str:
        """Sum a gradient over the axes along which an operand was broadcast."""
        sizes = self._sizes.declared.get(target)
        result = self._sizes.declared.get(self._node.output[0])
        if sizes and result and len(sizes) == len(result) and self._node.op_type != "Einsum":
            # Two matrices are multiplied, and only the axes before theirs are broadcast.
            count = len(sizes) - 2 * (self._node.op_type == "MatMul")
            if 1 not in sizes[:count] and sizes[:count] == result[:count]:
                return value
        lead = source_rank - len(sizes or ())
        # Only the first axes were broadcast, as in the addition of a bias.
        if sizes and result and self._sizes.exact.get(value) == result and result[lead:] == sizes:
            plain = self.squeeze(value, [source_rank])
            total = self._context.reduce_sum(plain, range(lead), keepdims=0)
            value = self.unsqueeze(total, [len(sizes)])
            self.declare_exact(value, target)
            return value
        reduced: str = self._context.unbroadcast(value, source_rank, target)
        if reduced != value and self._context.b.nodes[-1].op_type == "Reshape":
            self.declare_exact(reduced, target)
        return reduced

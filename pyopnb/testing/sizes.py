"""Sizes of an example, and the same example at other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pyopnb.ops.types import TensorType
from pyopnb.testing.subject import Example, Subject

__all__ = ["ExampleSizes"]

_MAX_ELEMENTS = 1_000_000  # of a resized input


@dataclass(frozen=True)
class ExampleSizes:
    """The dimensions of an example, in groups that change together: those of one symbol, or without a hint and of one size.

    Attributes
    ----------
    example : Example
    groups : list
        The dimensions of each input: the name of a group, or the size that a hint fixes.
    sizes : dict
        The example's sizes, by group.
    """

    example: Example
    groups: list[list[int | str]]
    sizes: dict[str, int]

    @classmethod
    def of(cls, subject: Subject, example: Example) -> ExampleSizes:
        """The sizes of an example of an op."""
        groups: list[list[int | str]] = []
        sizes: dict[str, int] = {}
        for index, array in enumerate(example.inputs):
            hint = subject.schema.port(index).type.shape if subject.schema.inputs else None
            dims: list[int | str] = []
            for axis, size in enumerate(() if array is None else array.shape):
                dim = hint[axis] if hint is not None else None
                dims.append(size if isinstance(dim, int) else dim or f"size {size}")
                if isinstance(dims[-1], str):
                    sizes[dims[-1]] = size
            groups.append(dims)
        return cls(example, groups, sizes)

    def symbolic_types(self) -> list[TensorType | None]:
        """The types of the inputs with a symbol for each group."""
        symbols = {name: f"N{index}" for index, name in enumerate(self.sizes)}
        shapes = [
            tuple(symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in dims)
            for dims in self.groups
        ]
        return [
            kind and TensorType(kind.dtype, shape)
            for kind, shape in zip(self.example.types, shapes, strict=True)
        ]

    def others(self) -> list[dict[str, int]]:
        """Other sizes to try: each group by itself, then all."""
        tried = [
            {**self.sizes, name: n} for name, size in self.sizes.items() for n in (size + 1, 1)
        ]
        tried += [{name: size + step for name, size in self.sizes.items()} for step in (1, 3)]
        return [
            sizes
            for index, sizes in enumerate(tried)
            if sizes != self.sizes and sizes not in tried[:index]
        ]

    def resize(self, sizes: Mapping[str, int]) -> Example | None:
        """The example at other sizes, its values repeated; None if an input would be too large."""
        inputs: list[np.ndarray | None] = []
        for array, dims in zip(self.example.inputs, self.groups, strict=True):
            shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
            if array is None:
                inputs.append(None)
            elif np.prod(shape, dtype=np.float64) > max(_MAX_ELEMENTS, array.size):
                return None
            else:
                inputs.append(
                    np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
                )
        return Example(tuple(inputs), self.example.attrs)

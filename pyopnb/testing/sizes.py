"""Give an example other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyopnb.ops.types import TensorType
from pyopnb.testing.subject import Example, Subject
from pyopnb.testing.verify.trials import free_sizes_of, resize

__all__ = ["ExampleSizes"]


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
        """Put the dimensions of an example of an op into groups."""
        groups: list[list[int | str]] = []
        for index, array in enumerate(example.inputs):
            if array is None:
                groups.append([])
                continue
            # Without a hint, dimensions of one size may have to stay equal.
            dims: list[int | str] = [f"size {size}" for size in array.shape]
            if subject.schema.inputs:
                for axis, dim in enumerate(subject.schema.port(index).type.shape or ()):
                    if dim is not None:
                        dims[axis] = dim
            groups.append(dims)
        return cls(example, groups, free_sizes_of(example.inputs, groups))

    def symbolic_types(self) -> list[TensorType | None]:
        """Return the types of the inputs with a symbol for each group."""
        symbols: dict[int | str, int | str] = {}
        for index, name in enumerate(self.sizes):
            symbols[name] = f"N{index}"
        types: list[TensorType | None] = []
        for tensor_type, dims in zip(self.example.types, self.groups, strict=True):
            if tensor_type is not None:
                shape = tuple(symbols.get(dim, dim) for dim in dims)
                tensor_type = TensorType(tensor_type.dtype, shape)
            types.append(tensor_type)
        return types

    def resize(self, sizes: Mapping[str, int]) -> Example | None:
        """Repeat the example's values to other sizes; return None if an input would be too large."""
        inputs = resize(self.example.inputs, self.groups, sizes)
        return None if inputs is None else Example(inputs, self.example.attrs)

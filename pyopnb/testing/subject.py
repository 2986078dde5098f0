"""Hold an op under test: its examples, and the ways to call it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.common import sanitize
from pyopnb.diffs import array_diffs
from pyopnb.engine import (
    Op,
    Output,
    Session,
    TensorType,
    dtype,
    instantiate,
    model,
    node,
    output_types,
    protos,
    type_of,
)
from pyopnb.errors import InputError, ResultError
from pyopnb.testing.verification.trials import free_sizes_of, resize
from pyopnb.testing.verification.values import Arrays, each

__all__ = [
    "Draws",
    "OpExample",
    "Subject",
    "format_types",
    "read_examples",
]


@dataclass(frozen=True)
class OpExample:
    """The inputs of one call, None for each that is left out, and the attrs of its node."""

    inputs: Arrays
    attrs: dict[str, Any]

    @property
    def types(self) -> tuple[TensorType | None, ...]:
        """Return the types of the inputs."""
        return tuple(None if array is None else type_of(array) for array in self.inputs)

    def copies(self) -> Arrays:
        """Make writable copies of the inputs."""
        return each(lambda array: array.copy(), self.inputs)

    def cast(self, to: Any, factor: float = 1.0) -> OpExample:
        """Return the example with its floats in another dtype, and multiplied."""

        def change(array: np.ndarray) -> np.ndarray:
            if array_diffs.is_float(array):
                return np.asarray(array.astype(to) * factor, to)
            return array

        return OpExample(each(change, self.inputs), self.attrs)

    def feeds(self) -> dict[str, np.ndarray]:
        """Return the inputs as a session of `Subject` takes them."""
        return {f"x{index}": array for index, array in enumerate(self.inputs) if array is not None}

    def __str__(self) -> str:
        parts = []
        if self.types:
            parts.append(format_types(self.types))
        for key, value in self.attrs.items():
            parts.append(f"{sanitize(key)}={sanitize(repr(value), 40)}")
        return f"({', '.join(parts)})"


def read_examples(
    op: Op, inputs: Sequence[Any], examples: Sequence[Any], attrs: Mapping[str, Any]
) -> list[OpExample]:
    """Read the examples of `check` or `check_grad`; without any, generate one from the hints.

    Raises
    ------
    InputError
        A part of one is not an array of a dtype that ONNX has, or there are too few or too many.
    """
    items = list(examples)
    if inputs:
        items.insert(0, tuple(inputs))
    if not items:
        return [_generate_example(op, attrs)]
    return [_read_example(op, item, attrs, number) for number, item in enumerate(items)]


def _read_example(op: Op, item: Any, attrs: Mapping[str, Any], number: int) -> OpExample:
    """Read an array, or a tuple of arrays and perhaps a dict of attrs."""
    parts = [item]
    if isinstance(item, tuple):
        parts = list(item)
    # An example's attrs override attrs for all examples.
    attrs = dict(attrs)
    if parts and isinstance(parts[-1], dict):
        attrs.update(parts.pop())
    ports = op.current.schema.inputs
    least, most = 0, float(len(ports))
    for port in ports:
        if port.variadic:
            most = math.inf
        elif not port.optional:
            least += 1
    if not least <= len(parts) <= most:
        raise InputError(
            f"check of {op.name}, example {number}",
            expected=f"inputs ({', '.join(map(str, ports))})",
            got=str(len(parts)),
            next="examples=[…] for several examples",
        )
    arrays: list[np.ndarray | None] = []
    for position, part in enumerate(parts):
        array = None
        if part is not None:
            array = _read_array(part, f"example {number}, input {position}")
        arrays.append(array)
    return OpExample(tuple(arrays), attrs)


def _read_array(part: Any, where: str) -> np.ndarray:
    try:
        array = np.asarray(part)
        is_text = str(type_of(array)).startswith("string")
        # The NumPy dtype for texts of any length is the dtype of all Python objects.
        if array.dtype == object and not all(isinstance(item, str) for item in array.flat):
            raise ValueError(f"{type(part).__name__} of Python objects")
    except ValueError as error:
        got = sanitize(str(error))
        raise InputError(where, expected="an array of a dtype of ONNX", got=got) from None
    # ONNX Runtime takes texts as Python's own, and NumPy's have a fixed length.
    if is_text:
        return array.astype(object)
    return array


def _generate_example(op: Op, attrs: Mapping[str, Any]) -> OpExample:
    """Make an example from the hints of ``compute``; a port without a hint gets float32[2,3]."""
    draws = Draws(count(2))
    inputs = []
    for port in op.current.schema.inputs:
        if not port.optional:
            inputs.append(draws.array(port.type))
        # A variadic input is tried with two arrays: with one it would be like any other.
        if port.variadic:
            inputs.append(draws.array(port.type))
    return OpExample(tuple(inputs), dict(attrs))


class Draws:
    """Random arrays of types; dimensions of the same name get the same size.

    Parameters
    ----------
    sizes : iterator of int
        The sizes of dimensions that are not fixed, one after the other.
    """

    def __init__(self, sizes: Iterator[int]) -> None:
        self._random = np.random.default_rng(0)
        self._unused = sizes
        self._sizes: dict[str, int] = {}

    def array(self, tensor_type: TensorType) -> np.ndarray:
        """Draw an array of a type; without a shape it is [2,3]."""
        dims = (2, 3) if tensor_type.shape is None else tensor_type.shape
        shape = [dim if isinstance(dim, int) else self._size(dim) for dim in dims]
        element = tensor_type.dtype or dtype("float32")
        if element.name == "string":
            texts = [f"text {number}" for number in range(math.prod(shape))]
            return np.array(texts, object).reshape(shape)
        # Look at the name, as four-bit integers of ml_dtypes have the same kind as its floats.
        # Most inputs that are indices may be 0 and 1.
        if element.name.startswith(("int", "uint", "bool")):
            return self._random.integers(0, 2, shape).astype(element.numpy)
        return self._random.normal(size=shape).astype(element.numpy)

    def _size(self, dim: str | None) -> int:
        # Dimensions without a name get different sizes, so that confused axes show.
        if dim is None:
            return next(self._unused)
        if dim not in self._sizes:
            self._sizes[dim] = next(self._unused)
        return self._sizes[dim]


class Subject:
    """An op and its examples, and the ways to call it.

    Attributes
    ----------
    runs : bool
        Whether the op has run on an example, without which most trials say nothing.
    """

    def __init__(self, op: Op, examples: list[OpExample]) -> None:
        self.op = op
        self.version = op.current
        self.schema = op.current.schema
        self.examples = examples
        self.runs = False

    def dims(self, example: OpExample) -> list[list[int | str]]:
        """Return the dimensions of each input.

        A dimension is a size that a hint fixes, or a name; equal names change together.
        """
        dims_by_input: list[list[int | str]] = []
        for index, array in enumerate(example.inputs):
            # Without a hint, dimensions of one size may have to stay equal.
            dims: list[int | str] = []
            if array is not None:
                dims += [f"size {size}" for size in array.shape]
            if dims and self.schema.inputs:
                for axis, dim in enumerate(self.schema.port(index).type.shape or ()):
                    if dim is not None:
                        dims[axis] = dim
            dims_by_input.append(dims)
        return dims_by_input

    def free_sizes(self, example: OpExample) -> dict[str, int]:
        """Return the example's size of each free dimension."""
        return free_sizes_of(example.inputs, self.dims(example))

    def resized(self, example: OpExample, sizes: Mapping[str, int]) -> OpExample | None:
        """Repeat an example's values to other sizes; return None if an input would be too large."""
        inputs = resize(example.inputs, self.dims(example), sizes)
        return None if inputs is None else OpExample(inputs, example.attrs)

    def node(self, example: OpExample, name: str = "") -> NodeProto:
        """Make a node for the example, without outputs."""
        inputs = []
        for index, array in enumerate(example.inputs):
            inputs.append("" if array is None else f"x{index}")
        proto = node(name or self.op.name, inputs, [])
        for key, value in example.attrs.items():
            # As an argument of `node`, an attr could be taken for one of its parameters.
            protos.set_attribute(proto, key, value)
        return proto

    def instance(self, example: OpExample) -> Any:
        """Make a new instance of the op's class with the example's attrs."""
        values = protos.attribute_values(self.node(example), ModelProto(), self.op.name)
        return instantiate(self.version, self.schema, values, self.op.name)

    def call(self, example: OpExample, instance: Any = None) -> tuple[np.ndarray, ...]:
        """Call the class itself on writable copies, and check the results as a session would.

        Raises
        ------
        ResultError
            The number, dtype or shape of the results differs from the op's declaration. Exceptions
            of the op pass through.
        """
        if instance is None:
            instance = self.instance(example)
        values = instance.compute(*example.copies())
        if not isinstance(values, tuple):
            values = (values,)
        types, count = example.types, len(values)
        promises = output_types.promised_types(self.schema, instance, types, count, self.op.name)
        results = []
        for index, (value, promise) in enumerate(zip(values, promises, strict=True)):
            # Without a promise, an output has the dtype of the first input.
            element = None
            for tensor_type in (promise, *types):
                if element is None and tensor_type is not None:
                    element = tensor_type.dtype
            if element is None:
                got = "an op without inputs or hints"
                raise ResultError(f"output {index}", expected="a declared dtype", got=got)
            expected = promise or TensorType(element, None)
            output = Output("", self.version.cls.compute, self.schema, index, count, expected)  # type: ignore[attr-defined]
            # A copy, as the op may write into the same array in its next call.
            result = output.array(value, element).copy()
            if promise is not None and not promise.accepts_shape(result.shape):
                raise output.wrong_shape(result, f" for inputs {format_types(types)}")
            results.append(result)
        return tuple(results)

    def session(
        self, example: OpExample, outputs: int, types: Sequence[TensorType | None] | None = None
    ) -> Session:
        """Make a session of one node, with inputs of the example's types or of others."""
        proto = self.node(example)
        proto.output[:] = [f"y{index}" for index in range(outputs)]
        inputs = {}
        for index, tensor_type in enumerate(types or example.types):
            if tensor_type is not None:
                inputs[f"x{index}"] = tensor_type
        return Session(model([proto], inputs, list(proto.output)))


def format_types(types: Sequence[TensorType | None]) -> str:
    """Write types on one line."""
    return ", ".join(map(str, types)) or "none"

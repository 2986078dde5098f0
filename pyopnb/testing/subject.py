"""An op under test: its examples, and the ways to call it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.models.build import model, node
from pyopnb.models.nodes import attribute_values
from pyopnb.ops.coerce import result_array
from pyopnb.ops.dtypes import dtype
from pyopnb.ops.errors import FeedError, ResultError, sanitize
from pyopnb.ops.instantiate import instantiate
from pyopnb.ops.registry import Op
from pyopnb.ops.schema import Port
from pyopnb.ops.types import TensorType, type_of
from pyopnb.runtime.kernel import promised_outputs
from pyopnb.runtime.session import Session

__all__ = ["Arrays", "Example", "Subject", "example_of", "listed", "made_example"]

Arrays = tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class Example:
    """Inputs of one call, None for each that is left out, and the attrs of its node."""

    inputs: Arrays
    attrs: dict[str, Any]

    @property
    def types(self) -> tuple[TensorType | None, ...]:
        return tuple(None if array is None else type_of(array) for array in self.inputs)

    def copies(self) -> Arrays:
        return tuple(None if array is None else array.copy() for array in self.inputs)

    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{place}": array for place, array in enumerate(self.inputs) if array is not None}

    def __str__(self) -> str:
        attrs = "".join(f", {sanitize(key)}={sanitize(repr(value), 40)}" for key, value in self.attrs.items())
        return f"({f'{listed(self.types)}{attrs}' if self.types else attrs.removeprefix(', ')})"


def example_of(item: Any, attrs: Mapping[str, Any], number: int) -> Example:
    """An example as `check` takes it: an array, or a tuple of arrays and perhaps a dict of attrs.

    Raises
    ------
    FeedError
        A part of it is no array of a dtype that ONNX has.
    """
    parts = list(item) if isinstance(item, tuple) else [item]
    own = parts.pop() if parts and isinstance(parts[-1], dict) else {}
    arrays = []
    for place, part in enumerate(parts):
        arrays.append(None if part is None else _array(part, f"example {number}, input {place}"))
    return Example(tuple(arrays), {**attrs, **own})


def _array(part: Any, where: str) -> np.ndarray:
    try:
        array = np.asarray(part)
        kind = str(type_of(array))
    except ValueError as error:
        raise FeedError(where, expected="an array of a dtype of ONNX", got=sanitize(str(error))) from None
    if array.dtype == object and not all(isinstance(item, str) for item in array.ravel()):
        raise FeedError(where, expected="an array of a dtype of ONNX", got=f"{type(part).__name__}, which holds Python objects")
    return array.astype(object) if kind.startswith("string") else array


def made_example(op: Op, attrs: Mapping[str, Any]) -> Example:
    """An example by the hints; a port without one gets float32[2,3]."""
    random = np.random.default_rng(0)
    sizes: dict[str, int] = {}
    new = count(2)
    ports = [port for port in op.current.schema.inputs if not port.optional]
    ports += [port for port in ports if port.variadic]
    return Example(tuple(_of(port, sizes, new, random) for port in ports), dict(attrs))


def _of(port: Port, sizes: dict[str, int], new: Iterator[int], random: np.random.Generator) -> np.ndarray:
    def size(dim: Any) -> int:
        if dim is None:
            return next(new)
        if isinstance(dim, str):
            if dim not in sizes:
                sizes[dim] = next(new)
            return sizes[dim]
        return int(dim)

    dims = (2, 3) if port.type.shape is None else tuple(map(size, port.type.shape))
    kind = port.type.dtype or dtype("float32")
    if kind.name == "string":
        return np.array([f"text {n}" for n in range(int(np.prod(dims)))], object).reshape(dims)
    if kind.name == "bool":
        return random.integers(0, 2, dims).astype(bool)
    if kind.numpy.kind in "iu" or kind.name.startswith(("int", "uint")):
        return random.integers(0, 2, dims).astype(kind.numpy)
    return random.normal(size=dims).astype(kind.numpy)


class Subject:
    """An op and its examples, and the ways to call it."""

    def __init__(self, op: Op, examples: list[Example]) -> None:
        self.op, self.version, self.schema, self.examples = op, op.current, op.current.schema, examples
        self.ran = False

    def node(self, example: Example, name: str = "") -> NodeProto:
        """A node for the example; its outputs are for the caller to write."""
        inputs = ["" if array is None else f"x{place}" for place, array in enumerate(example.inputs)]
        made = node(name or self.op.name, inputs, [])
        for key, value in example.attrs.items():
            for attribute in node("check::Attr", [], [], value=value).attribute:
                attribute.name = key  # an attr may be called as a parameter of node is
                made.attribute.append(attribute)
        return made

    def instance(self, example: Example) -> object:
        values = attribute_values(self.node(example), ModelProto(), self.op.name)
        return instantiate(self.version, self.schema, values, self.op.name)

    def call(self, example: Example, instance: object = None) -> tuple[np.ndarray, ...]:
        """The results of a plain call of the class, on writable copies, each of exactly the dtype that a session would take."""
        return self.results(example, example.copies(), self.instance(example) if instance is None else instance)

    def results(self, example: Example, inputs: Arrays, instance: object) -> tuple[np.ndarray, ...]:
        value = instance.compute(*inputs)  # type: ignore[attr-defined]  # every op has it
        several = value if isinstance(value, tuple) else (value,)
        promised = self.promised(example, len(several), instance)
        first = next((kind.dtype for kind in example.types if kind), None)
        results = []
        for place, (one, said) in enumerate(zip(several, promised, strict=True)):
            want = (said and said.dtype) or first
            if want is None:
                raise ResultError(f"output {place}", expected="a dtype that somebody declares", got="an op without inputs")
            told = str(said or TensorType(want, None))
            if said is None or said.dtype is None:
                told += ", the first input's dtype, as neither hints nor infer say another"
            results.append(result_array(one, want, f"output {place}", told, arrays_only=False).copy())
        for place, (result, said) in enumerate(zip(results, promised, strict=True)):
            if said is not None and not said.accepts_shape(result.shape):
                raise ResultError(
                    f"output {place}",
                    expected=f"{said}, as {'infer' if self.schema.infers else 'the hint of compute'} says",
                    got=f"{type_of(result)} for inputs {listed(example.types)}",
                    next="return that shape, or promise another",
                )
        return tuple(results)

    def promised(self, example: Example, outputs: int, instance: object) -> tuple[TensorType | None, ...]:
        return promised_outputs(self.schema, instance, example.types, outputs, self.op.name, None)

    def session(self, example: Example, outputs: int, types: Sequence[TensorType | None] | None = None) -> Session:
        made = self.node(example)
        names = [f"y{place}" for place in range(outputs)]
        made.output[:] = names
        kinds = example.types if types is None else types
        return Session(model([made], {f"x{place}": kind for place, kind in enumerate(kinds) if kind}, names))


def listed(types: Sequence[TensorType | None]) -> str:
    """Types on one line."""
    return ", ".join("None" if kind is None else str(kind) for kind in types) or "none"

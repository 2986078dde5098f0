"""One call of an operator, and what the generators of such calls share."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

__all__ = [
    "ABSENT",
    "GENERATORS",
    "SPECIAL",
    "Case",
    "combined",
    "dtypes_of",
    "each",
    "floats",
    "generates",
    "integers",
    "schemas",
]

ABSENT = object()
"""Stands among the values of an attribute for a node without it."""

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 1e-40, 0.5, -0.5, 1.5, 2.5, -2.5, 88.0],
    np.float32,
)
"""Values at which implementations part."""

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


@dataclass(frozen=True)
class Case:
    """One call of an operator: inputs (None leaves one out), attributes, number of outputs."""

    domain: str
    op: str
    version: int
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: int = 1

    def __str__(self) -> str:
        given = ", ".join(map(_brief, self.inputs))
        attrs = ", ".join(f"{name}={_brief_attr(value)}" for name, value in self.attrs.items())
        count = f" -> {self.outputs}" if self.outputs > 1 else ""
        name = f"{self.domain}::{self.op}" if self.domain else self.op
        return f"{name}-{self.version}({given}{'; ' * bool(attrs)}{attrs}){count}"


def _brief(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, list):
        return f"[{', '.join(map(_brief, value[:2]))}]"
    array = np.asarray(value)
    text = f"{array.dtype}{list(array.shape)}"
    if array.size <= 4 and array.dtype.kind in "iub":
        text += f"={array.tolist()}"
    return text


def _brief_attr(value: Any) -> str:
    if isinstance(value, (onnx.GraphProto, onnx.ModelProto)):
        return "a graph"
    text = repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) < 60 else f"{text[:57]}…"


Call = tuple[Any, ...]
"""Inputs, attributes, and where it is not 1 the number of outputs."""

GENERATORS: dict[tuple[str, str], Callable[[Any], Iterable[Call]]] = {}
"""What yields the calls of an operator in the version of a schema."""


def generates(*names: str, domain: str = "") -> Callable[[Any], Any]:
    """Register a generator for operators."""

    def register(function: Callable[[Any], Iterable[Call]]) -> Any:
        for name in names:
            GENERATORS[domain, name] = function
        return function

    return register


def schemas() -> list[Any]:
    """Return every operator in every version that the installed onnx knows."""
    found = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain in DOMAINS and not schema.deprecated
    ]
    return sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version))


# ---- values ------------------------------------------------------------------------------------


def floats(*shape: int, dtype: Any = np.float32, low: float = -2.0, high: float = 2.0) -> Any:
    """Return numbers that are the same for the same arguments; integers for an integer dtype."""
    seed = zlib.crc32(repr((shape, low, high)).encode())
    values = np.random.default_rng(seed).uniform(low, high, shape)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return values > 0
    if kind in "iu":
        values = np.floor(values * 3)
        return (np.abs(values) if kind == "u" else values).astype(dtype)
    return values.astype(dtype)


def integers(*shape: int, low: int = 0, high: int = 10, dtype: Any = np.int64) -> Any:
    """Return whole numbers from low to high, without high."""
    seed = zlib.crc32(repr((shape, low, high)).encode())
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


_NUMPY = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
}


def dtypes_of(schema: Any, port: int = 0) -> list[Any]:
    """Return the dtypes that an input takes, of those that NumPy has."""
    kind = schema.inputs[port].type_str
    allowed = {kind}
    for constraint in schema.type_constraints:
        if constraint.type_param_str == kind:
            allowed = set(constraint.allowed_type_strs)
    return [dtype for name, dtype in _NUMPY.items() if name in allowed]


# ---- attributes --------------------------------------------------------------------------------


def combined(schema: Any, **choices: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of values, of those attributes that the version has."""
    names = [name for name in choices if name in schema.attributes]
    for values in itertools.product(*[choices[name] for name in names]):
        yield dict(zip(names, values, strict=True))


def each(schema: Any, base: dict[str, Any], **choices: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the base, then the base with one attribute changed, of those that the version has."""
    kept = {name: value for name, value in base.items() if name in schema.attributes}
    yield dict(kept)
    for name, values in choices.items():
        if name in schema.attributes:
            for value in values:
                yield {**kept, name: value}

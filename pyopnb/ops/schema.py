"""What an op says about itself: its attrs, its ports, and the types that it promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from pyopnb.ops.errors import ModelError, NotationError, ResultError, plural, sanitize, suggest
from pyopnb.ops.types import ANY, TensorType, tensor_type

__all__ = ["KINDS", "OBJECTS", "REQUIRED", "SCALARS", "Attr", "Port", "Schema", "kind_of_value", "same_value"]


class _Required:
    """The default of an attr that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"  # a copy of a schema must still hold this very object


REQUIRED = _Required()

KINDS = ("int", "float", "str", "bytes", "bool", "tensor", "graph")
SCALARS: dict[object, str] = {int: "int", float: "float", str: "str", bytes: "bytes", bool: "bool"}
OBJECTS: dict[object, str] = {
    np.ndarray: "tensor",
    onnx.TensorProto: "tensor",
    onnx.ModelProto: "graph",
    onnx.GraphProto: "graph",
}


@dataclass(frozen=True, eq=False)
class Attr:
    """One parameter of ``__init__``.

    Attributes
    ----------
    name : str
    kind : str
        ``int``, ``float``, ``str``, ``bytes``, ``bool``, ``tensor``, ``graph``; ``list[int]`` and so on; ``any`` where neither
        annotation nor default says it.
    default : object
        `REQUIRED` where the node must have the attr.
    choices : tuple
        The values that a ``Literal`` allows; empty where any will do.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    choices: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        # Arrays have no plain ==, and nan would make every redefinition a change of schema.
        return isinstance(other, Attr) and all(
            same_value(getattr(self, name), getattr(other, name)) for name in ("name", "kind", "default", "choices")
        )

    def __hash__(self) -> int:
        return hash((self.name, self.kind))

    def __str__(self) -> str:
        default = (
            "" if self.default is REQUIRED else f" = {sanitize(' '.join(map(str.strip, repr(self.default).splitlines())))}"
        )
        return f"{self.name}: {self.kind}{default}"

    def take(self, value: Any, where: str) -> Any:
        """The node's value as this attr's kind, exactly, or `ModelError`.

        The only changes of kind are those that lose nothing: an int where a float is declared, 0 and 1 where a bool is,
        text for bytes and UTF-8 bytes for text.
        """
        try:
            taken = _taken(value, self.kind)
            if not self.choices or taken in self.choices:
                return taken
            expected = f"one of {', '.join(map(repr, self.choices))}"
        except (TypeError, UnicodeDecodeError, OverflowError):
            expected = self.kind
        raise ModelError(
            f"{where}, attr {self.name}",
            expected=expected,
            got=f"{kind_of_value(value)} {sanitize(repr(value))}",
            next=f"change the node's attribute, or the annotation of {self.name} in __init__",
        )


def same_value(a: Any, b: Any) -> bool:
    """Whether two values of attrs are equal: arrays as a whole, nan as itself, 1 and 1.0 not."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b) or (isinstance(a, float) and a != a and b != b)


def _taken(value: Any, kind: str) -> Any:
    if kind == "any":
        return value
    if kind.startswith("list["):
        if not isinstance(value, list):
            raise TypeError
        return [_taken(item, kind[5:-1]) for item in value]
    if kind == "list" and isinstance(value, list):
        return value
    if kind == "bool" and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if kind == "float" and isinstance(value, int) and float(value) == value:
        return float(value)
    if kind == "str" and isinstance(value, bytes):
        return value.decode()
    if kind == "bytes" and isinstance(value, str):
        return value.encode()
    if kind_of_value(value) != kind:
        raise TypeError
    return value


def kind_of_value(value: Any) -> str:
    """The kind of attr that a value is; its type's name where it is none."""
    if type(value) in SCALARS:
        return SCALARS[type(value)]
    for known, kind in OBJECTS.items():
        if isinstance(value, known):  # type: ignore[arg-type]  # the keys are classes
            return kind
    if isinstance(value, (list, tuple)):
        kinds = {kind_of_value(item) for item in value}
        if kinds == {"int", "float"}:
            kinds = {"float"}
        return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"
    return type(value).__name__


@dataclass(frozen=True)
class Port:
    """One parameter of ``compute``: a typed input."""

    name: str
    type: TensorType = ANY
    optional: bool = False
    variadic: bool = False

    def __str__(self) -> str:
        text = f"{'*' if self.variadic else ''}{self.name}"
        text += "" if self.type == ANY else f": {self.type}"
        return text + (" = None" if self.optional else "")


@dataclass(frozen=True)
class Schema:
    """What an op takes and gives.

    Attributes
    ----------
    attrs : tuple of Attr
    open_attrs : bool
        ``__init__`` has ``**attrs`` and takes whatever the node has.
    inputs : tuple of Port
    outputs : tuple of TensorType or None
        None where the class has no return annotation: the node says how many there are.
    infers : bool
        The class has ``infer``.
    copy_inputs, serial : bool
        The class attributes of these names.
    doc : str
    """

    attrs: tuple[Attr, ...]
    open_attrs: bool
    inputs: tuple[Port, ...]
    outputs: tuple[TensorType, ...] | None
    infers: bool = False
    copy_inputs: bool = False
    serial: bool = False
    doc: str = field(default="", compare=False)

    def __str__(self) -> str:
        attrs = [str(a) for a in self.attrs] + (["**attrs"] if self.open_attrs else [])
        gives = "" if self.outputs is None else " -> " + ", ".join(map(str, self.outputs))
        held = f"<{', '.join(attrs)}>" if attrs else ""
        return f"({', '.join(map(str, self.inputs))}){held}{gives}"

    def bind(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Keyword arguments for ``__init__`` from a node's attribute values.

        Raises
        ------
        ModelError
            An attr without default is missing, an attr is not known, or a value is of another kind.
        """
        known = {attr.name: attr for attr in self.attrs}
        unknown = [name for name in values if name not in known]
        if unknown and not self.open_attrs:
            raise ModelError(
                f"{where}, attr {sanitize(unknown[0])}",
                expected=f"one of {', '.join(known)}" if known else "no attrs",
                got=f"{sanitize(unknown[0])} = {sanitize(repr(values[unknown[0]]))}",
                next=f"write {suggest(unknown[0], known)}, or let __init__ take {sanitize(unknown[0])}",
            )
        missing = [a for a in self.attrs if a.default is REQUIRED and a.name not in values]
        if missing:
            raise ModelError(
                f"{where}, attr {missing[0].name}",
                expected=f"a value of kind {missing[0].kind} (attrs: {', '.join(map(str, self.attrs))})",
                got="nothing",
                next=f"give the node {missing[0].name}=…, or __init__ a default for it",
            )
        return {name: known[name].take(v, where) if name in known else v for name, v in values.items()}

    def check_inputs(self, given: Sequence[TensorType | None], where: str) -> None:
        """Raise `ModelError` unless the inputs of a node (None: left out) fit the ports in number and dtype."""
        needed = [port for port in self.inputs if not (port.optional or port.variadic)]
        open_ended = bool(self.inputs) and self.inputs[-1].variadic
        if len(given) > len(self.inputs) and not open_ended:
            raise ModelError(where, expected=plural(len(self.inputs), "input"), got=str(len(given)), next=self._takes())
        for place, port in enumerate(needed):
            if place >= len(given) or given[place] is None:
                raise ModelError(f"{where}, input {port.name}", expected=str(port.type), got="nothing", next=self._takes())
        for place, got in enumerate(given):
            port = self.port(place)
            if got and not port.type.accepts(got.without_sizes()):
                raise ModelError(
                    f"{where}, input {port.name}",
                    expected=str(port.type),
                    got=str(got),
                    next=f"change the hint of {port.name} in compute, or the model",
                )

    def check_outputs(self, count: int, where: str) -> None:
        """Raise `ModelError` if a node has more outputs than the return annotation."""
        if self.outputs is not None and len(self.outputs) < count:
            raise ModelError(
                f"{where}, outputs",
                expected=f"at most {len(self.outputs)}, as compute's hint says",
                got=str(count),
                next="change the hint or the node",
            )

    def _takes(self) -> str:
        return f"compute takes ({', '.join(map(str, self.inputs))})"

    def port(self, place: int) -> Port:
        """The port that the input at this place belongs to."""
        return self.inputs[min(place, len(self.inputs) - 1)]

    def hinted(self, given: Sequence[TensorType | None]) -> tuple[TensorType, ...] | None:
        """The outputs' types by the return annotation, with the sizes that the inputs' types give its symbols."""
        if self.outputs is None:
            return None
        sizes: dict[str, Any] = {}
        for place, got in enumerate(given):
            want = self.port(place).type.shape
            if got is not None and got.shape is not None and want is not None:
                sizes.update((w, g) for w, g in zip(want, got.shape, strict=False) if isinstance(w, str) and g is not None)
        return tuple(
            TensorType(t.dtype, t.shape and tuple(sizes.get(d, d) if isinstance(d, str) else d for d in t.shape))
            for t in self.outputs
        )

    def infer(
        self, instance: object, given: Sequence[TensorType | None], count: int, where: str
    ) -> tuple[TensorType, ...] | None:
        """The types of ``count`` outputs, as far as the class says them; None where it says nothing.

        Raises
        ------
        ResultError
            ``infer`` returned something that is no type, a wrong number of them, or what the hints contradict.
        """
        hinted = self.hinted(given)
        if not self.infers:
            return hinted
        said = _said(instance.infer(*given), count, where)  # type: ignore[attr-defined]  # infers says that it is there
        for place, (claim, hint) in enumerate(zip(said, hinted or (), strict=False)):
            if not hint.accepts(claim):
                raise ResultError(
                    f"{where}, infer, output {place}",
                    expected=f"{hint} (the hint of compute)",
                    got=str(claim),
                    next="let infer and the hint say the same",
                )
        return tuple(_filled(claim, hint) for claim, hint in zip(said, (hinted or ()) + (ANY,) * len(said), strict=False))


def _filled(claim: TensorType, hint: TensorType) -> TensorType:
    """What is claimed, and what the hint knows where the claim leaves something open."""
    return TensorType(claim.dtype or hint.dtype, hint.shape if claim.shape is None else claim.shape)


def _said(answer: object, count: int, where: str) -> tuple[TensorType, ...]:
    """What ``infer`` returned, as types."""
    several = answer if isinstance(answer, (tuple, list)) else (answer,)
    try:
        said = tuple(tensor_type(item) for item in several)
    except NotationError as error:
        raise ResultError(
            f"{where}, infer",
            expected="types, as float32[N,3] or x.like(shape=…)",
            got=sanitize(repr(answer)),
            next="return one type an output",
        ) from error
    if len(said) < count:
        raise ResultError(f"{where}, infer", expected=plural(count, "type"), got=str(len(said)), next="one type an output")
    return said

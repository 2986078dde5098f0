"""The schema of an op: its attrs, its ports, and the types of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from pyopnb.errors import InputError, ModelError, ResultError
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.ops.types import ANY, TensorType, tensor_type

__all__ = [
    "KINDS",
    "OBJECTS",
    "REQUIRED",
    "SCALARS",
    "Attr",
    "Port",
    "Schema",
    "kind_of_value",
    "same_value",
]


class _Required:
    """The default of an attr that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"  # copying a schema keeps this very object


REQUIRED = _Required()

KINDS = ("int", "float", "str", "bytes", "bool", "tensor", "graph")
SCALARS: dict[object, str] = {int: "int", float: "float", str: "str", bytes: "bytes", bool: "bool"}
OBJECTS: dict[object, str] = {
    np.ndarray: "tensor",
    onnx.TensorProto: "tensor",
    onnx.ModelProto: "graph",
    onnx.GraphProto: "graph",
}


_MAX_INPUTS = 20  # inputs that a message lists


@dataclass(frozen=True, eq=False)
class Attr:
    """One parameter of ``__init__``.

    Attributes
    ----------
    name : str
    kind : str
        ``int``, ``float``, ``str``, ``bytes``, ``bool``, ``tensor``, ``graph``; ``list[int]`` and so on; ``any`` where neither
        annotation nor default tells.
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
        # == of arrays is no bool, and nan != nan would make every redefinition a change of schema.
        return isinstance(other, Attr) and all(
            same_value(getattr(self, name), getattr(other, name))
            for name in ("name", "kind", "default", "choices")
        )

    def __hash__(self) -> int:
        return hash((self.name, self.kind))

    def __str__(self) -> str:
        default = (
            ""
            if self.default is REQUIRED
            else f" = {sanitize(' '.join(map(str.strip, repr(self.default).splitlines())))}"
        )
        return f"{self.name}: {self.kind}{default}"

    def take(self, value: Any, where: str) -> Any:
        """Convert a node's value to this attr's kind, where that loses nothing.

        An int is taken for a float, 0 and 1 for a bool, text for bytes, and UTF-8 bytes for text.

        Parameters
        ----------
        value : object
        where : str
            The node, for the error.

        Returns
        -------
        object

        Raises
        ------
        ModelError
            The value is of another kind, or none of the choices.
        """
        try:
            converted = _convert(value, self.kind)
            if not self.choices or converted in self.choices:
                return converted
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
    """Compare two values of attrs: arrays as a whole, nan equals nan, 1 differs from 1.0.

    Parameters
    ----------
    a, b : object

    Returns
    -------
    bool
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b) or (isinstance(a, float) and a != a and b != b)


def _convert(value: Any, kind: str) -> Any:
    if kind == "any":
        return value
    if kind.startswith("list["):
        if not isinstance(value, list):
            raise TypeError
        return [_convert(item, kind[5:-1]) for item in value]
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
    """Name the kind of attr that a value is.

    Parameters
    ----------
    value : object

    Returns
    -------
    str
        The name of its type where no attr can have it.
    """
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
    """Attrs, inputs and outputs of an op.

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
    differentiable : bool
        The class has ``backward``. It is no part of what sessions compare: another op serves it.
    doc : str
    """

    attrs: tuple[Attr, ...]
    open_attrs: bool
    inputs: tuple[Port, ...]
    outputs: tuple[TensorType, ...] | None
    infers: bool = False
    copy_inputs: bool = False
    serial: bool = False
    differentiable: bool = field(default=False, compare=False)
    doc: str = field(default="", compare=False)

    def __str__(self) -> str:
        attrs = [str(a) for a in self.attrs] + (["**attrs"] if self.open_attrs else [])
        attrs_text = f"<{', '.join(attrs)}>" if attrs else ""
        outputs = "" if self.outputs is None else " -> " + ", ".join(map(str, self.outputs))
        return f"({', '.join(map(str, self.inputs))}){attrs_text}{outputs}"

    def bind(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Make keyword arguments for ``__init__`` of a node's attributes.

        Parameters
        ----------
        values : mapping
            Attribute values by name.
        where : str
            The node, for errors.

        Returns
        -------
        dict

        Raises
        ------
        ModelError
            An attr without default is missing, an attribute is unknown, or a value is of another kind.
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
        return {
            name: known[name].take(v, where) if name in known else v for name, v in values.items()
        }

    def check_inputs(
        self, given: Sequence[TensorType | None], where: str, names: Sequence[str] = ()
    ) -> None:
        """Refuse inputs that do not fit the ports in number, dtype or rank. Sizes are checked when an op runs.

        Parameters
        ----------
        given : sequence of (TensorType or None)
            Types of a node's inputs; None for one that is left out.
        where : str
            The node, for errors.
        names : sequence of str, optional
            The inputs' names in the graph, of which the advice leaves out those that are too many.

        Raises
        ------
        ModelError
        """
        needed = [
            (place, port)
            for place, port in enumerate(self.inputs)
            if not (port.optional or port.variadic)
        ]
        open_ended = bool(self.inputs) and self.inputs[-1].variadic
        if len(given) > len(self.inputs) and not open_ended:
            taken = [sanitize(name) for name in names[: len(self.inputs)]]
            raise ModelError(
                where,
                expected=self._arity(),
                got=str(len(given)),
                next=repr(taken) if taken else None,
            )
        for place, port in needed:
            if place >= len(given) or given[place] is None:
                raise ModelError(
                    f"{where}, input {port.name}",
                    expected=str(port.type),
                    got="nothing",
                    next=f"{port.name}=None",
                )
        for place, got in enumerate(given):
            port = self.port(place)
            if got and port.type is not ANY and not port.type.accepts(got.without_sizes()):
                raise ModelError(
                    f"{where}, input {port.name}",
                    expected=str(port.type),
                    got=str(got),
                    next=f"change the hint of {port.name} in compute, or the model",
                )

    def check_outputs(self, count: int, where: str) -> None:
        """Refuse more outputs than the return annotation has.

        Parameters
        ----------
        count : int
        where : str
            The node, for the error.

        Raises
        ------
        ModelError
        """
        if self.outputs is not None and len(self.outputs) < count:
            raise ModelError(
                f"{where}, outputs",
                expected=f"at most {len(self.outputs)}, as compute's hint says",
                got=str(count),
                next="change the hint or the node",
            )

    def _arity(self) -> str:
        ports = ", ".join(map(str, self.inputs))
        return f"{plural(len(self.inputs), 'input')} ({ports})" if ports else "no inputs"

    def port(self, place: int) -> Port:
        """Return the port of an input by its position; all inputs of a variadic port share the last.

        Parameters
        ----------
        place : int

        Returns
        -------
        Port
        """
        return self.inputs[min(place, len(self.inputs) - 1)]

    def describe_inputs(self, given: Sequence[TensorType | None]) -> str:
        """Describe inputs and their types for messages.

        Parameters
        ----------
        given : sequence of (TensorType or None)
            Types of a node's inputs; None for one that is left out.

        Returns
        -------
        str
        """
        names = [port.name for port in self.inputs if not port.variadic]
        names += (
            [f"{self.inputs[-1].name}[{n}]" for n in range(len(given) - len(names))]
            if self.inputs
            else []
        )
        texts = [f"{name}: {kind}" for name, kind in zip(names, given, strict=False)]
        more = [f"and {len(texts) - _MAX_INPUTS} more"] if len(texts) > _MAX_INPUTS else []
        return ", ".join([*texts[:_MAX_INPUTS], *more]) or "no inputs"

    def hinted(self, given: Sequence[TensorType | None]) -> tuple[TensorType, ...] | None:
        """Read the types of the outputs from the return annotation.

        Parameters
        ----------
        given : sequence of (TensorType or None)
            Types of the inputs, whose sizes take the places of symbols.

        Returns
        -------
        tuple of TensorType, or None
            None without an annotation.
        """
        if self.outputs is None:
            return None
        sizes: dict[str, Any] = {}
        for place, got in enumerate(given):
            want = self.port(place).type.shape
            if got is not None and got.shape is not None and want is not None:
                sizes.update(
                    (w, g)
                    for w, g in zip(want, got.shape, strict=False)
                    if isinstance(w, str) and g is not None
                )
        return tuple(
            TensorType(
                t.dtype,
                t.shape and tuple(sizes.get(d, d) if isinstance(d, str) else d for d in t.shape),
            )
            for t in self.outputs
        )

    def infer(
        self, instance: object, given: Sequence[TensorType | None], count: int, where: str
    ) -> tuple[TensorType, ...] | None:
        """Infer the types of a node's outputs from ``infer`` and the return annotation.

        Parameters
        ----------
        instance : object
            An instance of the op's class.
        given : sequence of (TensorType or None)
            Types of the inputs.
        count : int
            Number of outputs.
        where : str
            The node, for errors.

        Returns
        -------
        tuple of TensorType, or None
            None if the class has neither.

        Raises
        ------
        ResultError
            ``infer`` returned what is no type, too few of them, or what contradicts the hints.
        """
        hinted = self.hinted(given)
        if not self.infers:
            return hinted
        types = _read_types(instance.infer(*given), count, where)  # type: ignore[attr-defined]  # it has one
        hints = (*(hinted or ()), *(ANY,) * len(types))[: len(types)]
        for place, (inferred, hint) in enumerate(zip(types, hints, strict=True)):
            if not hint.accepts(inferred):
                raise ResultError(
                    f"{where}, infer, output {place}",
                    expected=f"{hint} (the hint of compute)",
                    got=str(inferred),
                    next="let infer and the hint say the same",
                )
        return tuple(
            TensorType(
                inferred.dtype or hint.dtype,
                hint.shape if inferred.shape is None else inferred.shape,
            )
            for inferred, hint in zip(types, hints, strict=True)
        )


def _read_types(returned: object, count: int, where: str) -> tuple[TensorType, ...]:
    """Read what ``infer`` returned as at least ``count`` types."""
    try:
        types = tuple(
            tensor_type(item)
            for item in (returned if isinstance(returned, (tuple, list)) else (returned,))
        )
    except InputError as error:
        raise ResultError(
            f"{where}, infer",
            expected="types, as float32[N,3] or x.like(shape=…)",
            got=sanitize(repr(returned)),
            next="return one type an output",
        ) from error
    if len(types) < count:
        raise ResultError(
            f"{where}, infer",
            expected=plural(count, "type"),
            got=str(len(types)),
            next="one type an output",
        )
    return types

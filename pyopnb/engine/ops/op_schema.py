"""The schema of an op: its attrs, its ports, and the types of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.common import messages, plural, sanitize
from pyopnb.engine.ops.attr_kinds import kind_of_value
from pyopnb.engine.ops.types import ANY, TensorType
from pyopnb.errors import ModelError

__all__ = ["REQUIRED", "Attr", "Port", "Schema", "same_value"]


class _Required:
    """The default of an attr that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"  # copying a schema keeps this very object


REQUIRED = _Required()

_MAX_INPUTS = 20  # inputs that a message lists


@dataclass(frozen=True, eq=False)
class Attr:
    """One parameter of ``__init__``.

    Attributes
    ----------
    kind : str
        A name of `pyopnb.engine.ops.attr_kinds.ATTR_KINDS`; ``list[int]`` and so on; ``any``
        where neither annotation nor default tells.
    default : object
        `REQUIRED` where the node must have the attr.
    choices : tuple
        The values that a ``Literal`` allows; empty where any will do.
    home : str
        The function or class with the parameter, for messages.
    lists : bool
        Whether a list of the kind is also taken.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    choices: tuple[Any, ...] = ()
    home: str = "__init__"
    lists: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attr):
            return NotImplemented
        # == of arrays is no bool, and nan != nan would make every redefinition a change of schema.
        mine = (self.name, self.kind, self.default, self.choices)
        return same_value(mine, (other.name, other.kind, other.default, other.choices))

    def __hash__(self) -> int:
        return hash((self.name, self.kind))

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}"
        if self.default is not REQUIRED:
            # The repr of an array has several lines, and a schema is shown on one.
            lines = [line.strip() for line in repr(self.default).splitlines()]
            text += f" = {sanitize(' '.join(lines))}"
        return text

    def take(self, value: Any, where: str) -> Any:
        """Convert a node's value to this attr's kind, where that loses nothing.

        An int is taken for a float, a bool for a number, 0 and 1 for a bool, text for bytes, and
        UTF-8 bytes for text.

        Parameters
        ----------
        where : str
            The node, for the error.

        Raises
        ------
        ModelError
            The value is of another kind, or none of the choices.
        """
        expected = self.kind
        kind = f"list[{self.kind}]" if self.lists and isinstance(value, list) else self.kind
        try:
            converted = _convert(value, kind)
            if not self.choices or converted in self.choices:
                return converted
            expected = f"one of {', '.join(map(repr, self.choices))}"
        except (TypeError, ValueError, OverflowError):
            pass  # refused below, by the kind
        declared = f"the annotation of {self.name} in {self.home}"
        if self.home == "the function":
            declared = "its dtype in attrs="
        raise ModelError(
            f"{where}, attr {self.name}",
            expected=expected,
            got=f"{kind_of_value(value)} {sanitize(repr(value))}",
            next=f"change the node's attribute, or {declared}",
        )


def same_value(a: Any, b: Any) -> bool:
    """Compare two values of attrs: arrays as a whole, nan equals nan, 1 differs from 1.0."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        # As bytes, because 0.0 == -0.0 and nan != nan.
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, float):
        return repr(a) == repr(b)  # nan, and the sign of zero
    return bool(a == b)


def _convert(value: Any, kind: str) -> Any:
    """Convert a value to a kind; raise one of the errors that `Attr.take` expects."""
    # Without an annotation or a default, the kind of the attr is unknown, so the value stays as it
    # is.
    if kind == "any" or (kind == "list" and isinstance(value, list)):
        return value
    if kind.startswith("list["):
        if not isinstance(value, list):
            raise TypeError
        item_kind = kind.removeprefix("list[").removesuffix("]")
        return [_convert(item, item_kind) for item in value]
    # ONNX has no bool attributes: exporters write 0 and 1, and onnx makes an int of a bool.
    if kind in ("int", "float") and kind_of_value(value) == "bool":
        value = int(value)
    if kind == "bool" and isinstance(value, int) and value in (0, 1):
        return bool(value)
    # A model written by hand may have 2 for 2.0. Beyond 2**53 that may be another number.
    if kind == "float" and isinstance(value, int) and float(value) == value:
        return float(value)
    # ONNX strings are bytes; valid UTF-8 arrives as text.
    if kind == "str" and isinstance(value, bytes):
        return value.decode()
    if kind == "bytes" and isinstance(value, str):
        return value.encode()
    if kind_of_value(value) != kind:
        raise TypeError
    return value


@dataclass(frozen=True)
class Port:
    """One parameter of ``compute``: a typed input."""

    name: str
    type: TensorType = ANY
    optional: bool = False
    variadic: bool = False

    def __str__(self) -> str:
        text = f"*{self.name}" if self.variadic else self.name
        if self.type != ANY:
            text += f": {self.type}"
        return f"{text} = None" if self.optional else text


@dataclass(frozen=True)
class Schema:
    """Attrs, inputs and outputs of an op.

    Attributes
    ----------
    open_attrs : bool
        ``__init__`` has ``**attrs`` and takes every attr of the node.
    outputs : tuple of TensorType or None
        None where the class has no return annotation: the node says how many there are.
    infers : bool
        The class has ``infer``.
    copy_inputs, serial : bool
        The class attributes of these names.
    differentiable : bool
        The class has ``backward``. Sessions do not compare it, as another op serves it.
    home : str
        The function or class with the attrs as parameters, for messages.
    """

    attrs: tuple[Attr, ...]
    open_attrs: bool
    inputs: tuple[Port, ...]
    outputs: tuple[TensorType, ...] | None
    infers: bool = False
    copy_inputs: bool = False
    serial: bool = False
    differentiable: bool = field(default=False, compare=False)
    home: str = field(default="__init__", compare=False)
    doc: str = field(default="", compare=False)

    def __str__(self) -> str:
        text = f"({', '.join(map(str, self.inputs))})"
        attrs = [*map(str, self.attrs)]
        if self.open_attrs:
            attrs.append("**attrs")
        if attrs:
            text += f"<{', '.join(attrs)}>"
        if self.outputs is not None:
            text += f" -> {', '.join(map(str, self.outputs))}"
        return text

    def bind(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Make keyword arguments for ``__init__`` of a node's attributes.

        Parameters
        ----------
        values : mapping
            Attribute values by name.
        where : str
            The node, for errors.

        Raises
        ------
        ModelError
            An attr without default is missing, an attribute is unknown, or a
            value is of another kind.
        """
        known = {attr.name: attr for attr in self.attrs}
        arguments = {}
        for name, value in values.items():
            if name in known:
                arguments[name] = known[name].take(value, where)
            elif self.open_attrs:
                arguments[name] = value
            else:
                raise ModelError(
                    f"{where}, attr {name}",
                    expected=f"one of {', '.join(known)}" if known else "no attrs",
                    got=f"{name} = {sanitize(repr(value))}",
                    next=f"write {messages.suggest(name, known)}, or let {self.home} take {name}",
                )
        # `__init__` itself would raise a TypeError that names neither node nor op.
        for attr in self.attrs:
            if attr.default is REQUIRED and attr.name not in values:
                raise ModelError(
                    f"{where}, attr {attr.name}",
                    expected=(
                        f"a value of kind {attr.kind} (attrs: {', '.join(map(str, self.attrs))})"
                    ),
                    got="nothing",
                    next=f"give the node {attr.name}=…, or {attr.home} a default for it",
                )
        return arguments

    def check_inputs(self, types: Sequence[TensorType | None], where: str) -> None:
        """Refuse inputs that do not fit the ports in number, dtype or rank.

        Sizes are checked when an op runs.

        Parameters
        ----------
        types : sequence of (TensorType or None)
            Types of a node's inputs; None for one that is left out.
        where : str
            The node, for errors.

        Raises
        ------
        ModelError
        """
        # A variadic port is the last, and takes all inputs that follow.
        is_variadic = bool(self.inputs) and self.inputs[-1].variadic
        if len(types) > len(self.inputs) and not is_variadic:
            ports = ", ".join(map(str, self.inputs))
            expected = f"{plural(len(self.inputs), 'input')} ({ports})"
            raise ModelError(where, expected=expected, got=str(len(types)))
        for position, port in enumerate(self.inputs):
            # A node leaves an input out by an empty name, or by ending before it.
            is_absent = position >= len(types) or types[position] is None
            if is_absent and not (port.optional or port.variadic):
                raise ModelError(
                    f"{where}, input {port.name}",
                    expected=str(port.type),
                    got="nothing",
                    next=f"{port.name}=None",
                )
        for position, type_ in enumerate(types):
            port = self.port(position)
            # Sizes are left to the run: a symbol of the graph can be any of them.
            if type_ and port.type is not ANY and not port.type.accepts(type_.without_sizes()):
                declared = f"the hint of {port.name} in compute"
                if self.home == "the function":
                    declared = "its dtype in inputs="
                raise ModelError(
                    f"{where}, input {port.name}",
                    expected=str(port.type),
                    got=str(type_),
                    next=f"change {declared}, or the model",
                )

    def check_outputs(self, count: int, where: str) -> None:
        """Refuse more outputs than the return annotation has.

        Parameters
        ----------
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

    def port(self, position: int) -> Port:
        """Return the port of an input by its position.

        All inputs from a variadic port on share that port.
        """
        return self.inputs[min(position, len(self.inputs) - 1)]

    def describe_inputs(self, types: Sequence[TensorType | None]) -> str:
        """Describe inputs and their types for messages.

        Parameters
        ----------
        types : sequence of (TensorType or None)
            Types of a node's inputs; None for one that is left out.
        """
        texts = []
        for position, type_ in enumerate(types[:_MAX_INPUTS]):
            port = self.port(position)
            index = f"[{position - len(self.inputs) + 1}]" if port.variadic else ""
            texts.append(f"{port.name}{index}: {type_}")
        if len(types) > _MAX_INPUTS:
            texts.append(f"and {len(types) - _MAX_INPUTS} more")
        return ", ".join(texts) or "no inputs"

    def hinted(self, types: Sequence[TensorType | None]) -> tuple[TensorType, ...] | None:
        """Read the types of the outputs from the return annotation.

        Parameters
        ----------
        types : sequence of (TensorType or None)
            Types of the inputs, whose sizes take the places of symbols.

        Returns
        -------
        tuple of TensorType, or None
            None without an annotation.
        """
        if self.outputs is None:
            return None
        # N has the same size in inputs and outputs; a symbol that no input has stays.
        sizes: dict[Any, Any] = {}
        for position, type_ in enumerate(types):
            hint = self.port(position).type
            if type_ is None or type_.shape is None or hint.shape is None:
                continue
            for symbol, size in zip(hint.shape, type_.shape, strict=False):
                if isinstance(symbol, str) and size is not None:
                    sizes[symbol] = size
        outputs = []
        for output in self.outputs:
            shape = output.shape
            if shape is not None:
                shape = tuple(sizes.get(dim, dim) for dim in shape)
            outputs.append(TensorType(output.dtype, shape))
        return tuple(outputs)

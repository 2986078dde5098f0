"""Calls of torch ops as ONNX nodes: tensors are inputs, everything else becomes attributes, and comes back without loss."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from pyopnb.errors import PyopError

__all__ = [
    "COMPLEX",
    "DTYPES",
    "DYNAMIC",
    "EMPTY",
    "LENGTHS",
    "NONE",
    "SPECIAL",
    "Call",
    "Unwritable",
    "arguments_of",
    "attr_name",
    "decode",
    "encode",
    "find_target",
    "op_name",
    "target_name",
]

DTYPES, COMPLEX = "torch_dtypes", "torch_complex"
LENGTHS, NONE, EMPTY, DYNAMIC = "torch_lengths", "torch_none", "torch_empty", "torch_dynamic"
SPECIAL = (DTYPES, COMPLEX, LENGTHS, NONE, EMPTY, DYNAMIC)
"""Attributes beside those that are named after the op's own arguments.

``torch_dtypes`` the outputs' dtypes; ``torch_complex`` the inputs that hold complex numbers; ``torch_lengths`` how many inputs
each list of tensors has; ``torch_none`` and ``torch_empty`` arguments that are None or an empty list; ``torch_dynamic``
arguments that are computed in the graph, and come as inputs after the tensors.
"""


class Unwritable(PyopError):
    """A call that no node can carry out; a reason, and no message to users."""


@dataclass(frozen=True)
class Call:
    """A call of a torch op, as an ONNX node has it.

    Attributes
    ----------
    target : torch._ops.OpOverload
    inputs : tuple
        What goes in: the tensors in the order of the op's arguments, then what is computed; None where one is left out.
    attrs : dict
    returns : str
        ``Tensor``, ``(Tensor, Tensor)`` or ``Tensor[]``.
    outputs : int
    """

    target: Any
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    returns: str
    outputs: int

    @property
    def key(self) -> str:
        """The same for calls that differ in their inputs only."""
        kinds = [
            None if value is None else type(value.meta["val"]).__name__ for value in self.inputs
        ]
        attrs = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.attrs.items()
        }
        return repr((str(self.target), kinds, sorted(attrs.items()), self.returns, self.outputs))


def target_name(target: Any) -> str:
    """As users type it: ``torch.ops.aten.inverse.default``."""
    return f"torch.ops.{target}"


def op_name(target: Any) -> str:
    """The name of the op that stands in: ``torch.aten::inverse``, ``torch.aten::searchsorted_Tensor``."""
    namespace, _, name = target._schema.name.partition("::")
    overload = target._schema.overload_name
    return f"torch.{namespace}::{name}{f'_{overload}' if overload else ''}"


def find_target(op: str) -> Any:
    """The torch op that an op of that name stands in for; None where there is none.

    Parameters
    ----------
    op : str
        As `op_name` gives it.

    Returns
    -------
    torch._ops.OpOverload or None
    """
    domain, _, op_type = op.partition("::")
    namespace = getattr(torch.ops, domain.removeprefix("torch."))
    for place in [len(op_type), *(n for n, letter in enumerate(op_type) if letter == "_" and n)]:
        packet = getattr(namespace, op_type[:place], None)
        overload = getattr(packet, op_type[place + 1 :] or "default", None)
        if overload is not None and op_name(overload) == op:
            return overload
    return None


def attr_name(name: str) -> str:
    """The attribute of an argument: its own name, if Python can have a parameter of it beside self."""
    return f"{name}_" if name == "self" or keyword.iskeyword(name) else name


def _is_tensor(kind: str) -> bool:
    return "Tensor" in kind


def _is_list(kind: str) -> bool:
    return "List[" in kind


# ---- to a node ---------------------------------------------------------------------------------------------------------------


def encode(node: Any) -> Call:
    """A call in the graph of torch as a node of ONNX.

    Parameters
    ----------
    node : torch.fx.Node

    Returns
    -------
    Call

    Raises
    ------
    Unwritable
        It returns something else than tensors, or is given something that no attribute can hold.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unwritable(
            str(target), expected="a torch op", got="control flow, or a function of Python"
        )
    if target._schema.is_mutable:
        raise Unwritable(
            str(target), expected="an op that changes none of its arguments", got="one that does"
        )
    values, returns = _outputs(node)
    tensors: list[Any] = []
    computed: list[Any] = []
    attrs: dict[str, Any] = {DTYPES: [str(value.dtype).removeprefix("torch.") for value in values]}
    special: dict[str, list[Any]] = {LENGTHS: [], NONE: [], EMPTY: [], DYNAMIC: []}
    for argument, value in arguments_of(node):
        kind, name = str(argument.type), argument.name
        if _is_tensor(kind) and _is_list(kind):
            special[LENGTHS].append(-1 if value is None else len(value))
            tensors += value or ()
        elif _is_tensor(kind) and (value is None or _is_symbolic(value)):
            tensors.append(value)
        elif not (argument.has_default_value() and _same(value, argument.default_value)):
            tensors += [None] * _is_tensor(kind)  # a number in the place of a tensor
            _write(attr_name(name), value, kind, attrs, special, computed)
        else:
            tensors += [None] * _is_tensor(kind)
    for entry in tensors:
        if entry is not None and not isinstance(entry.meta.get("val"), torch.Tensor):
            raise Unwritable(
                str(target), expected="tensors", got=type(entry.meta.get("val")).__name__
            )
    inputs = [*tensors, *computed]
    while inputs and inputs[-1] is None:
        inputs.pop()
    numbers = [
        n for n, entry in enumerate(tensors) if entry is not None and entry.meta["val"].is_complex()
    ]
    special[COMPLEX] = numbers
    attrs |= {name: held for name, held in special.items() if held}
    return Call(target, tuple(inputs), attrs, returns, len(values))


def _outputs(node: Any) -> tuple[list[Any], str]:
    """The outputs as fake tensors, and how the op returns them."""
    kinds = [str(entry.type) for entry in node.target._schema.returns]
    value = node.meta.get("val")
    if kinds == ["Tensor"]:
        values, returns = [value], "Tensor"
    elif kinds == ["List[Tensor]"]:
        values, returns = list(value), "Tensor[]"
    elif len(kinds) > 1 and set(kinds) == {"Tensor"}:
        values, returns = list(value), f"({', '.join(kinds)})"
    else:
        raise Unwritable(
            str(node.target), expected="tensors as results", got=", ".join(kinds) or "nothing"
        )
    if not values or not all(isinstance(each, torch.Tensor) for each in values):
        raise Unwritable(
            str(node.target), expected="tensors as results", got="none, or something else"
        )
    if any(each.is_quantized or each.layout is not torch.strided for each in values):
        raise Unwritable(str(node.target), expected="dense tensors", got="quantized or sparse ones")
    return values, returns


def arguments_of(node: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments of a call's op with their values, in the op's order.

    Parameters
    ----------
    node : torch.fx.Node

    Yields
    ------
    argument : torch.Argument
    value : object
    """
    for place, argument in enumerate(node.target._schema.arguments):
        if place < len(node.args) and not argument.kwarg_only:
            yield argument, node.args[place]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]
        elif argument.has_default_value():
            yield argument, argument.default_value


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not _is_symbolic(value) and bool(value == default)


def _write(
    name: str,
    value: Any,
    kind: str,
    attrs: dict[str, Any],
    special: dict[str, list[Any]],
    computed: list[Any],
) -> None:
    """Write an argument that is no tensor."""
    if _is_symbolic(value):
        special[DYNAMIC].append(name)
        computed.append(value)
        return
    if value is None:
        special[NONE].append(name)
        return
    if isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            if _is_symbolic(item):
                special[DYNAMIC].append(f"{name}.{place}")
                computed.append(item)
        value = [0 if _is_symbolic(item) else item for item in value]
        if not value:
            special[EMPTY].append(name)
            return
    attrs[name] = _literal(name, value, kind)


def _literal(name: str, value: Any, kind: str) -> Any:
    if isinstance(value, list):
        if all(isinstance(item, int) for item in value):
            return [int(item) for item in value]
        if all(isinstance(item, (int, float)) for item in value):
            kept = [_survives(float(item)) for item in value]
            return [float(item) for item in value] if all(kept) else np.array(value, np.float64)
        if all(isinstance(item, str) for item in value):
            return value
    elif isinstance(value, bool):
        return int(value) if "bool" in kind else str(value)
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    elif isinstance(value, float):
        return value if _survives(value) else np.array(value, np.float64)
    elif isinstance(value, (str, complex, torch.device)):
        return str(value)
    elif isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    raise Unwritable(name, expected="a number, a text or a list", got=type(value).__name__)


def _from_float32(value: float) -> float:
    """The number that was most likely written, of what an attribute kept in 32 bits: 0.1, and not 0.10000000149."""
    return float(str(np.float32(value)))


def _survives(value: float) -> bool:
    with np.errstate(over="ignore"):
        return value != value or _from_float32(value) == value


# ---- from a node -------------------------------------------------------------------------------------------------------------


def decode(
    target: Any, attrs: Mapping[str, Any], inputs: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments for the op, of a node's attributes and inputs.

    Parameters
    ----------
    target : torch._ops.OpOverload
    attrs : mapping
    inputs : sequence of tensors
        None where one is left out. What is computed in the graph comes after the tensors.

    Returns
    -------
    args : list
    kwargs : dict
    """
    lengths, ahead = list(attrs.get(LENGTHS, ())), list(inputs)
    tensors: dict[str, Any] = {}
    parameters = _parameters(target)
    for parameter in parameters:
        if not parameter.tensor:
            continue
        if not parameter.tensors:
            tensors[parameter.name] = ahead.pop(0) if ahead else None
        elif lengths and (length := lengths.pop(0)) >= 0:
            tensors[parameter.name], ahead = (
                [*ahead[:length], *[None] * (length - len(ahead))],
                ahead[length:],
            )
    dynamic = dict(zip(attrs.get(DYNAMIC, ()), map(_number, ahead), strict=False))
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in parameters:
        name = parameter.attr
        if tensors.get(parameter.name) is not None:
            value = tensors[parameter.name]
        elif name in dynamic:
            value = dynamic[name]
        elif name in attrs:
            value = _value(attrs[name], parameter.kind)
        elif name in attrs.get(EMPTY, ()):
            value = []
        elif name in attrs.get(NONE, ()):
            value = None
        else:
            value = parameter.default
        for place, item in dynamic.items():
            if place.startswith(f"{name}.") and isinstance(value, list):
                value[int(place.rpartition(".")[2])] = item
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a torch op's schema, whose own attributes take a microsecond each to read."""

    name: str
    attr: str
    kind: str
    tensor: bool
    tensors: bool
    kwarg_only: bool
    default: Any  # None where there is none


@cache
def _parameters(target: Any) -> tuple[_Parameter, ...]:
    return tuple(
        _Parameter(
            argument.name,
            attr_name(argument.name),
            kind := str(argument.type),
            _is_tensor(kind),
            _is_tensor(kind) and _is_list(kind),
            argument.kwarg_only,
            argument.default_value if argument.has_default_value() else None,
        )
        for argument in target._schema.arguments
    )


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _value(value: Any, kind: str) -> Any:
    """An argument from its attribute."""
    if isinstance(value, np.ndarray):  # floats that 32 bits do not hold
        return value.tolist()
    if isinstance(value, list):
        return [_value(item, kind) for item in value]
    if isinstance(value, float):
        return _from_float32(value)
    if isinstance(value, int):
        return bool(value) if "bool" in kind else value
    if "Device" in kind:
        return torch.device(value)
    if "str" in kind:
        return value
    if value in ("True", "False"):
        return value == "True"
    named = getattr(torch, value, None)
    return complex(value) if named is None else named

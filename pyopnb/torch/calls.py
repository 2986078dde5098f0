"""Write calls of torch ops as ONNX nodes and read them back, without loss.

Tensors are inputs of the node, and every other argument becomes an attribute.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
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
    "as_list",
    "as_returned",
    "attr_name",
    "decode",
    "encode",
    "insert_call",
    "op_name",
    "register_op",
    "target_name",
]

DTYPES, COMPLEX = "torch_dtypes", "torch_complex"
LENGTHS, NONE, EMPTY, DYNAMIC = "torch_lengths", "torch_none", "torch_empty", "torch_dynamic"
SPECIAL = (DTYPES, COMPLEX, LENGTHS, NONE, EMPTY, DYNAMIC)
"""Attributes beside the ones that are named after the op's own arguments.

``torch_dtypes`` the outputs' dtypes; ``torch_complex`` the inputs that hold complex numbers;
``torch_lengths`` how many inputs each list of tensors has; ``torch_none`` and ``torch_empty``
arguments that are None or an empty list; ``torch_dynamic`` arguments that are computed in the
graph, and come as inputs after the tensors.
"""


_numbers: Counter[tuple[str, str]] = Counter()


class Unwritable(PyopError):
    """A call that no node can carry out; the text is a reason, and no message to users."""


@dataclass(frozen=True)
class Call:
    """A call of a torch op, as an ONNX node has it.

    Attributes
    ----------
    target : torch._ops.OpOverload
    inputs : tuple
        The inputs: the tensors in the order of the op's arguments, then computed numbers; None
        where one is left out.
    returns : str
        ``Tensor``, ``(Tensor, Tensor)`` or ``Tensor[]``.
    """

    target: Any
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    returns: str
    outputs: int

    @property
    def key(self) -> str:
        """Return a key, which is the same for calls that differ in their inputs only."""
        types: list[str | None] = []
        for value in self.inputs:
            types.append(None if value is None else type(value.meta["val"]).__name__)
        attrs = []
        for name, value in sorted(self.attrs.items()):
            attrs.append((name, value.tolist() if isinstance(value, np.ndarray) else value))
        return repr((str(self.target), types, attrs, self.returns, self.outputs))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a torch op's schema, whose own attributes take a microsecond each to read."""

    name: str
    attr: str
    type_text: str
    is_tensor: bool
    is_tensor_list: bool
    kwarg_only: bool
    has_default: bool
    default: Any  # None where there is none


@cache
def _parameters(target: Any) -> tuple[Parameter, ...]:
    parameters = []
    for argument in target._schema.arguments:
        type_text = str(argument.type)
        is_tensor = "Tensor" in type_text
        parameter = Parameter(
            name=argument.name,
            attr=attr_name(argument.name),
            type_text=type_text,
            is_tensor=is_tensor,
            is_tensor_list=is_tensor and "List[" in type_text,
            kwarg_only=argument.kwarg_only,
            has_default=argument.has_default_value(),
            default=argument.default_value,
        )
        parameters.append(parameter)
    return tuple(parameters)


# ---- names ---------------------------------------------------------------------------------------


def target_name(target: Any) -> str:
    """Name a torch op as users type it: ``torch.ops.aten.inverse.default``."""
    return f"torch.ops.{target}"


def op_name(target: Any) -> str:
    """Name the stand-in op: ``torch.aten::inverse``, ``torch.aten::searchsorted_Tensor``."""
    namespace, _, name = target._schema.name.partition("::")
    overload = target._schema.overload_name
    return f"torch.{namespace}::{name}_{overload}" if overload else f"torch.{namespace}::{name}"


def attr_name(name: str) -> str:
    """Name the attribute of an argument, so that it can be a Python parameter beside self."""
    return f"{name}_" if name == "self" or keyword.iskeyword(name) else name


# ---- to a node -----------------------------------------------------------------------------------


def encode(node: Any) -> Call:
    """Write a call in a graph of torch as a node of ONNX.

    Parameters
    ----------
    node : torch.fx.Node

    Raises
    ------
    Unwritable
        It returns something other than tensors, or has an argument that no attribute can hold.
    """
    target = node.target
    where = str(target)
    if not isinstance(target, torch._ops.OpOverload):
        got = "control flow, or a function of Python"
        raise Unwritable(where, expected="a torch op", got=got)
    if target._schema.is_mutable:
        expected = "an op that changes none of its arguments"
        raise Unwritable(where, expected=expected, got="one that does")
    results, returns = _outputs(node)
    dtypes = [str(result.dtype).removeprefix("torch.") for result in results]
    writer = _Writer(where, {DTYPES: dtypes})
    for parameter, value in arguments_of(node):
        writer.write(parameter, value)
    return Call(target, writer.inputs(), writer.attrs, returns, len(results))


class _Writer:
    """The arguments of a call, on their way to inputs and attributes."""

    def __init__(self, where: str, attrs: dict[str, Any]) -> None:
        self.attrs = attrs
        self._where = where
        self._tensors: list[Any] = []
        self._computed: list[Any] = []

    def inputs(self) -> tuple[Any, ...]:
        """Return the inputs, without omitted ones at the end."""
        for position, entry in enumerate(self._tensors):
            if entry is None:
                continue
            value = entry.meta.get("val")
            if not isinstance(value, torch.Tensor):
                raise Unwritable(self._where, expected="tensors", got=type(value).__name__)
            if value.is_complex():
                self._note(COMPLEX, position)
        inputs = [*self._tensors, *self._computed]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return tuple(inputs)

    def write(self, parameter: Parameter, value: Any) -> None:
        """Write an argument."""
        if parameter.is_tensor_list:
            self._note(LENGTHS, -1 if value is None else len(value))
            self._tensors += value or ()
            return
        if parameter.is_tensor and (value is None or _is_symbolic(value)):
            self._tensors.append(value)
            return
        if parameter.is_tensor:
            # There is a number in place of a tensor.
            self._tensors.append(None)
        if not (parameter.has_default and _is_same(value, parameter.default)):
            self._write_value(parameter.attr, value, parameter.type_text)

    def _write_value(self, name: str, value: Any, type_text: str) -> None:
        if _is_symbolic(value):
            self._note(DYNAMIC, name)
            self._computed.append(value)
        elif value is None:
            self._note(NONE, name)
        elif isinstance(value, (list, tuple)):
            self._write_list(name, list(value), type_text)
        else:
            self.attrs[name] = _literal(name, value, type_text)

    def _write_list(self, name: str, values: list[Any], type_text: str) -> None:
        for position, value in enumerate(values):
            if _is_symbolic(value):
                self._note(DYNAMIC, f"{name}.{position}")
                self._computed.append(value)
                values[position] = 0
        if values:
            self.attrs[name] = _literal(name, values, type_text)
        else:
            self._note(EMPTY, name)

    def _note(self, special: str, entry: Any) -> None:
        self.attrs.setdefault(special, []).append(entry)


def _outputs(node: Any) -> tuple[list[Any], str]:
    """Return the outputs as fake tensors, and how the op returns them."""
    where, value = str(node.target), node.meta.get("val")
    expected = "tensors as results"
    types = [str(entry.type) for entry in node.target._schema.returns]
    if types == ["Tensor"]:
        returns = "Tensor"
    elif types == ["List[Tensor]"]:
        returns = "Tensor[]"
    elif set(types) == {"Tensor"}:
        returns = f"({', '.join(types)})"
    else:
        raise Unwritable(where, expected=expected, got=", ".join(types) or "nothing")
    values = as_list(value)
    if not values:
        raise Unwritable(where, expected=expected, got="none")
    # Where torch traces, these give a tensor that is not quantized.
    quantizes = node.target._schema.name.startswith("aten::quantize_per_")
    for tensor in values:
        if not isinstance(tensor, torch.Tensor):
            raise Unwritable(where, expected=expected, got="something else")
        if quantizes or tensor.layout is not torch.strided:
            raise Unwritable(where, expected="dense tensors", got="quantized or sparse ones")
    return values, returns


def as_list(results: Any) -> list[Any]:
    """List the results of a torch op, which are one or several."""
    return list(results) if isinstance(results, (list, tuple)) else [results]


def as_returned(results: Sequence[Any]) -> Any:
    """Return one result as it is and several as a tuple, as the torch schemas do."""
    return results[0] if len(results) == 1 else tuple(results)


def arguments_of(node: Any) -> Iterator[tuple[Parameter, Any]]:
    """Yield the parameters of a call's op with their values, in the op's order.

    Parameters
    ----------
    node : torch.fx.Node
    """
    for position, parameter in enumerate(_parameters(node.target)):
        if position < len(node.args) and not parameter.kwarg_only:
            yield parameter, node.args[position]
        elif parameter.name in node.kwargs:
            yield parameter, node.kwargs[parameter.name]
        elif parameter.has_default:
            yield parameter, parameter.default


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def _is_same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not _is_symbolic(value) and bool(value == default)


def _literal(name: str, value: Any, type_text: str) -> Any:
    """Convert an argument to a value that an attribute can hold."""
    if isinstance(value, list):
        return _literal_list(name, value)
    if isinstance(value, bool):
        # Where a number of any type is taken, True is not 1.
        return int(value) if "bool" in type_text else str(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float):
        # A tensor attribute has 64 bits.
        return value if _survives(value) else np.array(value, np.float64)
    if isinstance(value, (str, complex, torch.device)):
        return str(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    raise Unwritable(name, expected="a number, a text or a list", got=type(value).__name__)


def _literal_list(name: str, values: list[Any]) -> Any:
    types = set(map(type, values))
    if types <= {int, bool}:
        return [int(value) for value in values]
    if types <= {int, bool, float}:
        numbers = [float(value) for value in values]
        return numbers if all(map(_survives, numbers)) else np.array(numbers, np.float64)
    if types == {str}:
        return values
    raise Unwritable(name, expected="a list of numbers or texts", got=str(types))


def _from_float32(value: float) -> float:
    """Return the number that was most likely written: 0.1, and not 0.10000000149."""
    return float(str(np.float32(value)))


def _survives(value: float) -> bool:
    """Tell whether a number comes back from an attribute, which has 32 bits."""
    with np.errstate(over="ignore"):
        return value != value or _from_float32(value) == value


def register_op(namespace: str, stem: str, function: Any, fake: Any, schema: str) -> Any:
    """Register an op in torch that changes none of its arguments.

    Parameters
    ----------
    namespace, stem : str
        Torch takes letters, digits and underscores, and every name once in a process.
    function, fake : callable
        Its computation, and its results where torch traces.
    schema : str
        ``(Tensor x) -> Tensor``

    Returns
    -------
    torch._ops.OpOverload
    """
    namespace, stem = (re.sub(r"\W", "_", text, flags=re.ASCII) for text in (namespace, stem))
    _numbers[namespace, stem] += 1
    name = f"{stem}_{_numbers[namespace, stem]}"
    op = torch.library.custom_op(f"{namespace}::{name}", function, mutates_args=(), schema=schema)
    op.register_fake(fake)
    return getattr(getattr(torch.ops, namespace), name).default


def insert_call(node: Any, target: Any, *args: Any, after: bool = False) -> Any:
    """Insert a call of a torch op before or after another, at that one's line.

    Parameters
    ----------
    node : torch.fx.Node
    target : torch._ops.OpOverload
    *args
        The first is also a call.

    Returns
    -------
    torch.fx.Node
    """
    with node.graph.inserting_before(node.next if after else node):
        call = node.graph.call_function(target, args)
    for name in ("stack_trace", "nn_module_stack", "source_fn_stack"):
        if name in node.meta:
            call.meta[name] = node.meta[name]
    values = torch.fx.map_arg(args, lambda entry: entry.meta["val"])
    with values[0].fake_mode:
        call.meta["val"] = target(*values)
    return call


# ---- from a node ---------------------------------------------------------------------------------


def decode(
    target: Any, attrs: Mapping[str, Any], inputs: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Read positional and keyword arguments for an op from a node's attributes and inputs.

    Parameters
    ----------
    target : torch._ops.OpOverload
    inputs : sequence of tensors
        None where one is left out. Numbers that the graph computes come after the tensors. Of
        complex tensors, the last dimension has the real and imaginary parts.
    """
    inputs = list(inputs)
    for position in attrs.get(COMPLEX, ()):
        inputs[position] = torch.view_as_complex(inputs[position].contiguous())
    parameters = _parameters(target)
    tensors, computed = _tensor_arguments(parameters, attrs.get(LENGTHS, ()), inputs)
    dynamic = {}
    for name, value in zip(attrs.get(DYNAMIC, ()), computed, strict=False):
        # In ONNX Runtime it is a tensor, and where torch traces a symbolic size.
        dynamic[name] = value.item() if isinstance(value, torch.Tensor) else value
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in parameters:
        value = tensors.get(parameter.name)
        if value is None:
            value = _argument(parameter, attrs, dynamic)
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


def _tensor_arguments(
    parameters: Sequence[Parameter], lengths: Sequence[int], inputs: list[Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Split inputs into the tensors by their parameters, and the computed numbers."""
    tensors: dict[str, Any] = {}
    lengths_ahead, ahead = list(lengths), inputs
    for parameter in parameters:
        if parameter.is_tensor_list:
            length = lengths_ahead.pop(0) if lengths_ahead else -1
            if length >= 0:
                listed, ahead = ahead[:length], ahead[length:]
                # A node does not have the inputs that are left out at its end.
                tensors[parameter.name] = listed + [None] * (length - len(listed))
        elif parameter.is_tensor:
            tensors[parameter.name] = ahead.pop(0) if ahead else None
    return tensors, ahead


def _argument(parameter: Parameter, attrs: Mapping[str, Any], dynamic: Mapping[str, Any]) -> Any:
    """Read an argument that is no tensor."""
    name = parameter.attr
    if name in dynamic:
        return dynamic[name]
    if name in attrs.get(EMPTY, ()):
        return []
    if name in attrs.get(NONE, ()):
        return None
    if name not in attrs:
        return parameter.default
    value = _value(attrs[name], parameter.type_text)
    for key, item in dynamic.items():
        listed, _, position = key.rpartition(".")
        if listed == name:
            value[int(position)] = item
    return value


def _value(value: Any, type_text: str) -> Any:
    """Convert an attribute to the argument that it was."""
    if isinstance(value, np.ndarray):
        # These are floats that 32 bits do not hold.
        return value.tolist()
    if isinstance(value, list):
        return [_value(item, type_text) for item in value]
    if isinstance(value, float):
        return _from_float32(value)
    # The types of the schema tell the meaning of an int or a text.
    if isinstance(value, int):
        return bool(value) if "bool" in type_text else value
    if "Device" in type_text:
        return torch.device(value)
    if "str" in type_text:
        return value
    if value in ("True", "False"):
        return value == "True"
    constant = getattr(torch, value, None)
    return complex(value) if constant is None else constant

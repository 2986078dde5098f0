"""Put an opaque torch op in place of a call that the exporter should write as one ONNX node.

The exporter's public ways are used: `torch.library.custom_op` makes the op, and
``custom_translation_table`` says its node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxscript
import torch
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.defs import OpSchema

from pyopnb.engine import DTYPES, op_names
from pyopnb.torch.calls import (
    COMPLEX,
    DYNAMIC,
    EMPTY,
    NONE,
    SPECIAL,
    Call,
    Unwritable,
    as_list,
    as_returned,
    decode,
    encode,
    insert_call,
    register_op,
)
from pyopnb.torch.recurrent import OPEN_OPS
from pyopnb.torch.stand_in import own_memory

__all__ = ["is_put_in", "put_node", "take_back", "translations"]

# An op of torch stays for as long as the process, so calls that differ in their
# inputs only share one.
_opaque_ops: dict[tuple[str, str, int, bool], Any] = {}
_translations: dict[Any, Callable[..., Any]] = {}

_NOT_NATURAL = {
    COMPLEX: "complex tensors",
    DYNAMIC: "a number that the graph computes",
    EMPTY: "an empty list",
    NONE: "None",
}
_SCALAR_TYPES = {
    "SymInt": "SymInt",
    "SymFloat": "float",
    "SymBool": "bool",
    "int": "SymInt",
    "float": "float",
    "bool": "bool",
}
_ALL_TYPES = [f"tensor({TensorProto.DataType.Name(row.onnx).lower()})" for row in DTYPES]

# Of an op of torch 2.13.
_MOST_PARAMETERS = 64

_PUT_IN = "pyopnb_put_in"


def translations() -> Mapping[Any, Callable[..., Any]]:
    """Return the translation of each op of `put_node` for ``torch.onnx.export``."""
    return dict(_translations)


def put_node(node: Any, op: str, *, version: int = 1, natural: bool = False) -> Call:
    """Replace a call in a graph of torch by an opaque op, which becomes an ONNX node.

    Parameters
    ----------
    node : torch.fx.Node
        It is changed.
    op : str
        ``domain::OpType`` of the ONNX node.
    version : int
        Of the domain.
    natural : bool
        Write the op's own arguments only, as an operator takes them that knows nothing of torch.

    Raises
    ------
    Unwritable
        No node can carry out the call.
    """
    call = encode(node)
    for name, got in _NOT_NATURAL.items():
        if natural and name in call.attrs:
            expected = "numbers and texts as arguments beside tensors"
            raise Unwritable(str(node.target), expected=expected, got=got)
    # Registering an op in torch takes a millisecond, and the exporter runs several times.
    key = call.key, op, version, natural
    if key not in _opaque_ops:
        _opaque_ops[key] = _opaque(call)
        _translations[_opaque_ops[key]] = _translation(call, op, version, natural)
    inputs = list(call.inputs)
    # ONNX has no kernels for complex numbers, so their real and imaginary parts go in.
    for position in call.attrs.get(COMPLEX, ()):
        inputs[position] = _real_parts(node, inputs[position])
    node.target = _opaque_ops[key]
    node.args = tuple(inputs)
    if _is_packed(call):
        node.args = (inputs,)
    node.kwargs = {}
    return call


def take_back(node: Any, target: Any, args: Any, kwargs: Any) -> None:
    """Undo `put_node`.

    Parameters
    ----------
    node : torch.fx.Node
    target, args, kwargs
        Its own before the replacement.
    """
    put_in = [entry for entry in node.all_input_nodes if is_put_in(entry)]
    node.target, node.args, node.kwargs = target, args, kwargs
    for real in put_in:
        resolved = real.args[0]
        node.graph.erase_node(real)
        node.graph.erase_node(resolved)


def is_put_in(node: Any) -> bool:
    """Tell whether a call only prepares a complex input of `put_node`."""
    return _PUT_IN in node.meta


def _real_parts(node: Any, value: Any) -> Any:
    """Insert calls that make real numbers of a complex input, the parts in a last dimension."""
    for target in (torch.ops.aten.resolve_conj.default, torch.ops.aten.view_as_real.default):
        value = insert_call(node, target, value)
        value.meta[_PUT_IN] = True
    return value


# ---- the opaque op -------------------------------------------------------------------------------


def _opaque(call: Call) -> Any:
    """Make a torch op for this call that takes its inputs alone; it must not keep the graph."""
    parameters: list[str] = []
    for position, value in enumerate(call.inputs):
        parameters.append(f"{_input_type(value)} x{position}")
    packed = _is_packed(call)
    if packed:
        parameters = ["Tensor?[] x"]
    schema = f"({', '.join(parameters)}) -> {call.returns}"
    target, attrs = call.target, call.attrs

    def run(*values: Any, function: Any = target) -> list[Any]:
        args, kwargs = decode(target, attrs, values[0] if packed else values)
        return as_list(function(*args, **kwargs))

    def returned(results: list[Any]) -> Any:
        return results if call.returns.endswith("[]") else as_returned(results)

    def run_with_own_memory(*values: Any) -> Any:
        return returned(own_memory(run(*values), values[0] if packed else values))

    def fake(*values: Any) -> Any:
        # Results of the fake run may be views, and torch wants new tensors of a custom op.
        results = run(*values, function=OPEN_OPS.get(target, target))
        return returned([result.clone() for result in results])

    stem = str(call.target._schema.name)
    return register_op("pyopnb", stem, run_with_own_memory, fake, schema)


def _is_packed(call: Call) -> bool:
    """Tell whether a call has more inputs than a torch op may have parameters.

    They are one list then.
    """
    return len(call.inputs) > _MOST_PARAMETERS


def _input_type(node: Any) -> str:
    if node is None or isinstance(node.meta["val"], torch.Tensor):
        return "Tensor?"
    return _SCALAR_TYPES[type(node.meta["val"]).__name__]


# ---- its node ------------------------------------------------------------------------------------


def _translation(call: Call, op: str, version: int, natural: bool) -> Callable[..., Any]:
    """Make the function with which the exporter writes the node."""
    domain, op_type = op_names.split_name(op)
    attrs = call.attrs
    if natural:
        attrs = _natural(call.attrs)
    attrs = {name: _as_attribute(value) for name, value in attrs.items()}
    schema = _schema(domain, op_type, version, len(call.inputs), call.outputs, attrs)
    operator = onnxscript.values.Op(onnxscript.values.Opset(domain, version), op_type, schema)

    packed = _is_packed(call)

    def translate(*values: Any) -> Any:
        return operator(*(values[0] if packed else values), **attrs)

    return translate


def _as_attribute(value: Any) -> Any:
    """Convert floats that 32 bits do not hold to a tensor, and leave other values."""
    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _schema(
    domain: str, op_type: str, version: int, inputs: int, outputs: int, attrs: Mapping[str, Any]
) -> OpSchema:
    """Declare an operator of any types, with optional inputs and attributes."""
    optional = OpSchema.FormalParameterOption.Optional
    ports, results = [], []
    for number in range(inputs):
        ports.append(OpSchema.FormalParameter(f"x{number}", f"T{number}", param_option=optional))
    for number in range(outputs):
        results.append(OpSchema.FormalParameter(f"y{number}", f"U{number}"))
    attributes = []
    for name, value in attrs.items():
        number = helper.make_attribute(name, value).type
        attribute_type = getattr(OpSchema.AttrType, AttributeProto.AttributeType.Name(number))
        attributes.append(OpSchema.Attribute(name, attribute_type, required=False))
    return OpSchema(
        op_type,
        domain,
        version,
        inputs=ports,
        outputs=results,
        type_constraints=[(port.type_str, _ALL_TYPES, "") for port in (*ports, *results)],
        attributes=attributes,
    )


def _natural(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes for an operator that knows nothing of torch."""
    natural = {}
    for name, value in attrs.items():
        if name in SPECIAL:
            continue
        # Floats are 32 bits in a model, so floats that need more are in an array.
        natural[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return natural

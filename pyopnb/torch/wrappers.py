"""A call that the exporter shall leave whole: an opaque torch op for it, and the ONNX node that this op becomes.

The exporter's public ways are used: `torch.library.custom_op` makes the op, and ``custom_translation_table`` says its node.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxscript
import torch
from onnx import AttributeProto, TensorProto, helper
from onnx.defs import OpSchema

from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.names import split_name
from pyopnb.torch.calls import (
    COMPLEX,
    DYNAMIC,
    EMPTY,
    NONE,
    SPECIAL,
    Call,
    Unwritable,
    decode,
    encode,
)
from pyopnb.torch.stand_in import own_memory

__all__ = ["is_put_in", "put_node", "take_back", "translations"]

_numbers = itertools.count(1)
_made: dict[tuple[str, str, int, str], Any] = {}  # an op of torch stays for as long as the process
_translations: dict[Any, Callable[..., Any]] = {}
_BEYOND = {
    COMPLEX: "complex tensors",
    DYNAMIC: "a number that the graph computes",
    EMPTY: "an empty list",
    NONE: "None",
}
_KINDS = {
    "SymInt": "SymInt",
    "SymFloat": "float",
    "SymBool": "bool",
    "int": "SymInt",
    "float": "float",
    "bool": "bool",
}


def translations() -> Mapping[Any, Callable[..., Any]]:
    """What ``torch.onnx.export`` shall make of each op of `put_node`."""
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

    Returns
    -------
    Call

    Raises
    ------
    Unwritable
        No node can carry out the call.
    """
    call = encode(node)
    if natural and (beyond := [name for name in _BEYOND if name in call.attrs]):
        raise Unwritable(
            str(node.target),
            expected="numbers and texts as arguments beside tensors",
            got=_BEYOND[beyond[0]],
        )
    key = call.key, op, version, str(natural)
    if key not in _made:
        _made[key] = _opaque(call)
        _translations[_made[key]] = _translation(call, op, version, natural)
    of_parts = {
        place: _real_parts(node, call.inputs[place]) for place in call.attrs.get(COMPLEX, ())
    }
    node.target = _made[key]
    node.args = tuple(
        of_parts.get(place, value) for place, value in enumerate(call.inputs) if value is not None
    )
    node.kwargs = {}
    return call


def take_back(node: Any, target: Any, args: Any, kwargs: Any) -> None:
    """Undo `put_node`.

    Parameters
    ----------
    node : torch.fx.Node
    target, args, kwargs
        Those that it had before.
    """
    put_in = [entry for entry in node.all_input_nodes if is_put_in(entry)]
    node.target, node.args, node.kwargs = target, args, kwargs
    for entry in put_in:
        resolved = entry.args[0]
        node.graph.erase_node(entry)
        node.graph.erase_node(resolved)


def is_put_in(node: Any) -> bool:
    """Whether a call is none of the module's own, but gives one of `put_node` its complex input."""
    return _PUT_IN in node.meta


_PUT_IN = "pyopnb_put_in"


def _real_parts(node: Any, value: Any) -> Any:
    """A complex input of a call as real numbers, with the parts in a last dimension, as nodes of ONNX have them: new calls."""
    for target in (torch.ops.aten.resolve_conj.default, torch.ops.aten.view_as_real.default):
        with node.graph.inserting_before(node):
            made = node.graph.call_function(target, (value,))
        with value.meta["val"].fake_mode:
            own = {"val": target(value.meta["val"]), _PUT_IN: True}
        made.meta = {name: entry for name, entry in node.meta.items() if name in _OF_THE_CALL} | own
        value = made
    return value


_OF_THE_CALL = "stack_trace", "nn_module_stack", "source_fn_stack"


def _opaque(call: Call) -> Any:
    """A torch op that makes this call, of the inputs alone; it must not keep the graph."""
    name = f"pyopnb::{call.target._schema.name.replace('::', '_')}_{next(_numbers)}"
    kinds = [_input_kind(value) for value in call.inputs if value is not None]
    schema = (
        f"({', '.join(f'{kind} x{place}' for place, kind in enumerate(kinds))}) -> {call.returns}"
    )
    target, attrs, present = call.target, call.attrs, _present(call)
    complex_ = frozenset(attrs.get(COMPLEX, ()))

    def run(*given: Any) -> Any:
        ahead = iter(given)
        inputs: list[Any] = [next(ahead) if there else None for there in present]
        inputs = [
            torch.view_as_complex(x.contiguous()) if place in complex_ else x
            for place, x in enumerate(inputs)
        ]
        args, kwargs = decode(target, attrs, inputs)
        return target(*args, **kwargs)

    def fake(*given: Any) -> Any:
        results = run(*given)
        return (
            results.clone()
            if isinstance(results, torch.Tensor)
            else [each.clone() for each in results]
        )

    made = torch.library.custom_op(
        name, lambda *given: own_memory(run(*given), given), mutates_args=(), schema=schema
    )
    made.register_fake(
        fake if call.returns.endswith("[]") else lambda *given: _as_returned(fake(*given))
    )
    return getattr(torch.ops.pyopnb, name.partition("::")[2]).default


def _as_returned(results: Any) -> Any:
    return tuple(results) if isinstance(results, list) else results


def _present(call: Call) -> tuple[bool, ...]:
    return tuple(value is not None for value in call.inputs)


def _input_kind(node: Any) -> str:
    value = node.meta["val"]
    return "Tensor" if isinstance(value, torch.Tensor) else _KINDS[type(value).__name__]


def _translation(call: Call, op: str, version: int, natural: bool) -> Callable[..., Any]:
    domain, op_type = split_name(op)
    attrs = _natural(call.attrs) if natural else call.attrs
    present = _present(call)
    ports = [
        OpSchema.FormalParameter(f"x{n}", f"T{n}", param_option=_OPTIONAL)
        for n in range(len(present))
    ]
    results = [OpSchema.FormalParameter(f"y{n}", f"U{n}") for n in range(call.outputs)]
    attributes = {name: helper.make_attribute(name, value) for name, value in attrs.items()}
    schema = OpSchema(
        op_type,
        domain,
        version,
        inputs=ports,
        outputs=results,
        type_constraints=[(port.type_str, _ANY, "") for port in (*ports, *results)],
        attributes=[
            OpSchema.Attribute(name, _attribute_type(value.type), required=False)
            for name, value in attributes.items()
        ],
    )
    made = onnxscript.values.Op(onnxscript.values.Opset(domain, version), op_type, schema)

    def translate(*values: Any) -> Any:
        ahead = iter(values)
        return made(*[next(ahead) if there else None for there in present], **attrs)

    return translate


def _natural(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that an operator takes which knows nothing of torch: floats have 32 bits."""
    own = {name: value for name, value in attrs.items() if name not in SPECIAL}
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in own.items()
    }


def _attribute_type(number: int) -> Any:
    return getattr(OpSchema.AttrType, AttributeProto.AttributeType.Name(number))


_OPTIONAL = OpSchema.FormalParameterOption.Optional
_ANY = [f"tensor({TensorProto.DataType.Name(row.onnx).lower()})" for row in DTYPES]

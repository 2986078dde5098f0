"""ONNX's text form of a model, written from its protos.

onnx's own printer writes ``…`` for half of the dtypes, and drops defaults of functions. `pyopnb.models.text.parse` reads the
text back and compares, so that nothing is lost silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    numpy_helper,
)

from pyopnb.models.nodes import full_name
from pyopnb.models.tensors import tensors
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, sanitize

__all__ = ["DEEPEST", "TEXT_NAMES", "format_model", "quote"]

TEXT_NAMES: dict[int, str] = {row.onnx: TensorProto.DataType.Name(row.onnx).lower() for row in DTYPES}
"""Names of dtypes in ONNX's text form, by their number."""

DEEPEST = 30
"""Depth of nested graphs; protobuf's limit is 100 nested messages, about three a graph."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STEP = "   "
_KINDS = {number: name.lower() for name, number in AttributeProto.AttributeType.items()}
_TYPES = {*TEXT_NAMES.values(), "seq", "map", "optional", "sparse_tensor", "opaque"}
_NUMBERS = {"inf", "infinity", "nan"}


def format_model(model: ModelProto, most: int) -> str:
    """Write a model in ONNX's text form.

    Parameters
    ----------
    model : ModelProto
    most : int
        Values that its tensors may have together.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        There are more values, or something has no text form.
    """
    _refuse_many(model, most)
    imports = ", ".join(f"{quote(e.domain, 'opset_import')} : {e.version}" for e in model.opset_import)
    entries = [f"ir_version: {model.ir_version}", f"opset_import: [{imports}]"]
    for field in ("producer_name", "producer_version", "domain"):
        if getattr(model, field):
            entries.append(f"{field}: {quote(getattr(model, field), field)}")
    if model.model_version:
        entries.append(f"model_version: {model.model_version}")
    if model.doc_string:
        entries.append(f"doc_string: {quote(model.doc_string, 'doc_string')}")
    if model.metadata_props:
        pairs = (f"{quote(p.key, 'metadata_props')}: {quote(p.value, 'metadata_props')}" for p in model.metadata_props)
        entries.append(f"metadata_props: [{', '.join(pairs)}]")
    head = "<\n" + ",\n".join(_STEP + entry for entry in entries) + "\n>\n"
    parts = [head + _graph(model.graph, _name(model.graph.name, "graph"), 0), *map(_function, model.functions)]
    return "\n".join(parts) + "\n"


def _refuse_many(model: ModelProto, most: int) -> None:
    values = 0
    for tensor in tensors(model):
        values += 0 if tensor.data_location == TensorProto.EXTERNAL else math.prod(tensor.dims)
        if values > most:
            raise ModelError(
                f"tensor {sanitize(tensor.name)}",
                expected=f"at most {most} values in all tensors of the model together",
                got=f"{values} up to this one",
                next="pyopnb.text(model, most=…)",
            )


# ---- names -------------------------------------------------------------------------------------------------------------------


def _word(text: str, what: str) -> str:
    if not _WORD.fullmatch(text):
        raise _inexpressible(what, "a name of letters, digits and _", sanitize(repr(text)))
    return text


def _inexpressible(what: str, expected: str, got: str) -> ModelError:
    return ModelError(what, expected=f"{expected}: ONNX's text form has no other", got=got)


def _name(text: str, what: str) -> str:
    return text if _WORD.fullmatch(text) and text not in _TYPES else quote(text, what)


def quote(text: str | bytes, what: str) -> str:
    """Quote a string as the text form does.

    Parameters
    ----------
    text : str or bytes
    what : str
        What it is, for the error.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        It is no UTF-8, or has a zero byte.
    """
    try:
        plain = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise _inexpressible(what, "UTF-8", sanitize(repr(text))) from None
    if "\0" in plain:
        raise _inexpressible(what, "no zero byte", sanitize(repr(text)))
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- types and tensors -------------------------------------------------------------------------------------------------------


def _type(kind: TypeProto, what: str) -> str:
    case = kind.WhichOneof("value")
    if case == "tensor_type":
        return _tensor_type(kind.tensor_type, what)
    if case == "sparse_tensor_type":
        return f"sparse_tensor({_tensor_type(kind.sparse_tensor_type, what)})"
    if case == "sequence_type":
        return f"seq({_type(kind.sequence_type.elem_type, what)})"
    if case == "optional_type":
        return f"optional({_type(kind.optional_type.elem_type, what)})"
    if case == "map_type":
        return f"map({_dtype(kind.map_type.key_type, what)}, {_type(kind.map_type.value_type, what)})"
    raise _inexpressible(f"{what}, type", "a tensor, sequence, optional or map", sanitize(case or "nothing"))


def _tensor_type(kind: Any, what: str) -> str:
    name = _dtype(kind.elem_type, what)
    if not kind.HasField("shape"):
        return f"{name}[]"
    dims = [
        str(d.dim_value) if d.HasField("dim_value") else _name(d.dim_param, what) if d.dim_param else "?"
        for d in kind.shape.dim
    ]
    return f"{name}[{','.join(dims)}]" if dims else name


def _dtype(number: int, what: str) -> str:
    if number not in TEXT_NAMES:
        raise _inexpressible(f"{what}, type", "a dtype", f"number {number}")
    return TEXT_NAMES[number]


def _value_info(info: ValueInfoProto) -> str:
    name = _name(info.name, "value")
    return f"{_type(info.type, f'value {sanitize(info.name)}')} {name}" if info.type.ListFields() else name


def _tensor(tensor: TensorProto, what: str) -> str:
    """Type, name and values of an attribute's tensor or of an initializer."""
    dims = f"[{','.join(map(str, tensor.dims))}]" if tensor.dims else ""
    name = f" {_name(tensor.name, what)}" if tensor.name else ""
    head = f"{_dtype(tensor.data_type, what)}{dims}{name}"
    if tensor.data_location == TensorProto.EXTERNAL:
        pairs = (f"{quote(p.key, what)}: {quote(p.value, what)}" for p in tensor.external_data)
        return f"{head} = [{', '.join(pairs)}]"
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, UnicodeDecodeError) as error:
        raise ModelError(what, expected="values that can be read", got=sanitize(str(error))) from error
    return f"{head} = {{{', '.join(_values(array, tensor, what))}}}"


def _values(array: np.ndarray, tensor: TensorProto, what: str) -> Iterable[str]:
    if tensor.data_type == TensorProto.STRING:
        return (quote(raw, what) for raw in tensor.string_data)
    flat = array.ravel()
    if flat.dtype.kind == "c":
        flat = flat.view(np.float32 if flat.dtype.itemsize == 8 else np.float64)
    if flat.dtype in (np.float32, np.float64):
        return map(_number, flat)
    if flat.dtype == np.bool_ or (flat.dtype.kind in "iu" and flat.dtype.isbuiltin == 1) or flat.dtype.name in _SMALL_INTS:
        return (str(int(value)) for value in flat)
    # Floats of less than 32 bits are written as the integers that their bits are.
    return map(str, flat.view(np.uint8 if flat.itemsize == 1 else np.uint16).tolist())


_SMALL_INTS = ("int4", "uint4", "int2", "uint2")


def _number(value: Any) -> str:
    """The shortest text that reads back as that float of its own width."""
    return str(value)


# ---- nodes, graphs, functions ------------------------------------------------------------------------------------------------


def _attribute(attribute: AttributeProto, what: str, depth: int) -> str:
    what = f"{what}, attr {sanitize(attribute.name)}"
    name, kind = _word(attribute.name, what), attribute.type
    if attribute.ref_attr_name:
        typed = f": {_KINDS[kind]}" if kind else ""
        return f"{name}{typed} = @{_name(attribute.ref_attr_name, what)}"
    if kind == AttributeProto.INT:
        return f"{name} = {attribute.i}"
    if kind == AttributeProto.FLOAT:
        return f"{name} = {_number(np.float32(attribute.f))}"
    if kind == AttributeProto.STRING:
        return f"{name} = {quote(attribute.s, what)}"
    if kind == AttributeProto.INTS:
        return _list(name, "ints", map(str, attribute.ints))
    if kind == AttributeProto.FLOATS:
        return _list(name, "floats", map(_number, np.asarray(attribute.floats, np.float32)))
    if kind == AttributeProto.STRINGS:
        return _list(name, "strings", (quote(item, what) for item in attribute.strings))
    if kind == AttributeProto.TENSOR:
        return f"{name} = {_tensor(attribute.t, what)}"
    if kind == AttributeProto.TYPE_PROTO:
        return f"{name} = {_type(attribute.tp, what)}"
    if kind == AttributeProto.GRAPH:
        inner = attribute.g.name
        if not _WORD.fullmatch(inner) or inner in _TYPES or inner.lower() in _NUMBERS:
            raise _inexpressible(
                f"{what}, name of the graph", "a name of letters, digits and _ that is no type", sanitize(repr(inner))
            )
        return f"{name} = {_graph(attribute.g, inner, depth + 1)}"
    if kind in (AttributeProto.TENSORS, AttributeProto.GRAPHS, AttributeProto.TYPE_PROTOS) and not _is_nonempty_list(attribute):
        return f"{name}: {_KINDS[kind]} = []"
    raise _inexpressible(
        what, "a number, string, tensor, graph or type, or a list of numbers or strings", _KINDS.get(kind, str(kind))
    )


def _is_nonempty_list(attribute: AttributeProto) -> bool:
    return bool(attribute.tensors or attribute.graphs or attribute.type_protos)


def _list(name: str, kind: str, values: Iterable[str]) -> str:
    return f"{name}: {kind} = [{', '.join(values)}]"


def _node(node: NodeProto, depth: int) -> str:
    what = f"node {sanitize(full_name(node))}"
    name = f"[{_name(node.name, what)}] " if node.name else ""
    domain = "".join(f"{_word(part, f'{what}, domain')}." for part in node.domain.split(".")) if node.domain else ""
    overload = f":{_word(node.overload, what)}" if node.overload else ""
    attrs = ", ".join(_attribute(a, what, depth) for a in node.attribute)
    op = f"{domain}{_word(node.op_type, what)}{overload}"
    inputs = ", ".join(_name(name, what) for name in node.input)
    outputs = ", ".join(_name(name, what) for name in node.output)
    extra = f" <{attrs}>" if attrs else ""
    # A graph comes after the inputs, as it takes several lines.
    behind = any(a.type == AttributeProto.GRAPH for a in node.attribute)
    return f"{name}{outputs} = {op} ({inputs}){extra}" if behind else f"{name}{outputs} = {op}{extra} ({inputs})"


def _graph(graph: GraphProto, name: str, depth: int) -> str:
    if depth > DEEPEST:
        raise ModelError(f"graph {sanitize(name)}", expected=f"graphs nested at most {DEEPEST} deep", got="more")
    inputs = ", ".join(map(_value_info, graph.input))
    outputs = ", ".join(map(_value_info, graph.output))
    values = [_tensor(t, f"initializer {sanitize(t.name)}") for t in graph.initializer] + list(
        map(_value_info, graph.value_info)
    )
    indent = _STEP * (depth + 1)
    extra = "\n" + indent + "<" + f",\n{indent} ".join(values) + ">\n" + _STEP * depth if values else ""
    return f"{name} ({inputs}) => ({outputs}) {extra}{{\n{_body(graph.node, depth)}{_STEP * depth}}}"


def _body(nodes: Iterable[NodeProto], depth: int) -> str:
    return "".join(f"{_STEP * (depth + 1)}{_node(node, depth)}\n" for node in nodes)


def _function(function: FunctionProto) -> str:
    what = f"function {sanitize(function.domain)}::{sanitize(function.name)}"
    imports = ", ".join(f"{quote(e.domain, what)} : {e.version}" for e in function.opset_import)
    entries = [f"domain: {quote(function.domain, what)}", f"opset_import: [{imports}]"]
    for field in ("overload", "doc_string"):
        if getattr(function, field, ""):
            entries.append(f"{field}: {quote(getattr(function, field), what)}")
    head = "<\n" + ",\n".join(_STEP + entry for entry in entries) + "\n>\n"
    attrs = [_name(name, what) for name in function.attribute]
    attrs += [_defaulted(_attribute(a, what, 0), a) for a in function.attribute_proto]
    extra = f" <{', '.join(attrs)}>" if attrs else ""
    inputs, outputs = (", ".join(_name(name, what) for name in names) for names in (function.input, function.output))
    values = ", ".join(map(_value_info, function.value_info))
    inner = f"\n{_STEP}<{values}>\n" if values else ""
    return f"{head}{_name(function.name, what)}{extra} ({inputs}) => ({outputs}) {inner}{{\n{_body(function.node, 0)}}}"


def _defaulted(text: str, attribute: AttributeProto) -> str:
    return text if ": " in text.partition("=")[0] else text.replace(" =", f": {_KINDS[attribute.type]} =", 1)

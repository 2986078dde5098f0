"""ONNX's text form of a model, written from its protos.

onnx's own printer writes ``…`` for half of the dtypes, and drops defaults of functions. What the text form cannot hold is left
out here, or has a word in its place; `pyopnb.models.text.write` reads the text back, compares, and annotates the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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

from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, sanitize

__all__ = ["DEEPEST", "PLACE", "TEXT_NAMES", "format_model", "quote"]

PLACE = "\0"
"""What stands where a line may be put in above the model, a function or a node; it cannot occur in the text itself."""

TEXT_NAMES: dict[int, str] = {row.onnx: TensorProto.DataType.Name(row.onnx).lower() for row in DTYPES}
"""Names of dtypes in ONNX's text form, by their number."""

DEEPEST = 30
"""Depth of nested graphs; protobuf's limit is 100 nested messages, about three a graph."""

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STEP = "   "
_KINDS = {number: name.lower() for name, number in AttributeProto.AttributeType.items()}
_TYPES = {*TEXT_NAMES.values(), "seq", "map", "optional", "sparse_tensor", "opaque"}
_NUMBERS = {"inf", "infinity", "nan"}


class _Inexpressible(Exception):
    """The text form has no place for something."""


def format_model(model: ModelProto) -> str:
    """Write a model in ONNX's text form, as far as that can hold it, with a `PLACE` above whatever can have an annotation.

    Parameters
    ----------
    model : ModelProto

    Returns
    -------
    str

    Raises
    ------
    ModelError
        Graphs are nested too deep.
    """
    imports = ", ".join(f"{quote(_without_zero(e.domain))} : {e.version}" for e in model.opset_import)
    entries = [f"ir_version: {model.ir_version}", f"opset_import: [{imports}]"]
    for field in ("producer_name", "producer_version", "domain"):
        if getattr(model, field):
            entries.append(f"{field}: {quote(_without_zero(getattr(model, field)))}")
    if model.model_version:
        entries.append(f"model_version: {model.model_version}")
    if model.doc_string:
        entries.append(f"doc_string: {quote(_without_zero(model.doc_string))}")
    if model.metadata_props:
        pairs = (f"{quote(_without_zero(p.key))}: {quote(_without_zero(p.value))}" for p in model.metadata_props)
        entries.append(f"metadata_props: [{', '.join(pairs)}]")
    head = f"{PLACE}<\n" + ",\n".join(_STEP + entry for entry in entries) + "\n>\n"
    parts = [head + _graph(model.graph, _name(model.graph.name), 0), *map(_function, model.functions)]
    return "\n".join(parts) + "\n"


# ---- names -------------------------------------------------------------------------------------------------------------------


def _word(text: str) -> str:
    """A name where the text form takes only a word: the nearest one."""
    return text if _WORD.fullmatch(text) else re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", text, flags=re.ASCII))


def _without_zero(text: str) -> str:
    return text.replace("\0", "") if isinstance(text, str) else ""  # protobuf gives bytes that are not UTF-8


def _name(text: str) -> str:
    return text if _WORD.fullmatch(text) and text not in _TYPES else quote(_without_zero(text))


def quote(text: str) -> str:
    """Quote a string as the text form does.

    Parameters
    ----------
    text : str
        Without a zero character.

    Returns
    -------
    str
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quote_value(value: bytes) -> str:
    try:
        plain = value.decode()
    except UnicodeDecodeError:
        raise _Inexpressible from None
    if "\0" in plain:
        raise _Inexpressible
    return quote(plain)


# ---- types and tensors -------------------------------------------------------------------------------------------------------


def _type(kind: TypeProto) -> str:
    case = kind.WhichOneof("value")
    if case == "tensor_type":
        return _tensor_type(kind.tensor_type)
    if case == "sparse_tensor_type":
        return f"sparse_tensor({_tensor_type(kind.sparse_tensor_type)})"
    if case == "sequence_type":
        return f"seq({_type(kind.sequence_type.elem_type)})"
    if case == "optional_type":
        return f"optional({_type(kind.optional_type.elem_type)})"
    if case == "map_type":
        return f"map({_dtype(kind.map_type.key_type)}, {_type(kind.map_type.value_type)})"
    raise _Inexpressible


def _tensor_type(kind: Any) -> str:
    name = _dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return f"{name}[]"
    dims = [str(d.dim_value) if d.HasField("dim_value") else _name(d.dim_param) if d.dim_param else "?" for d in kind.shape.dim]
    return f"{name}[{','.join(dims)}]" if dims else name


def _dtype(number: int) -> str:
    if number not in TEXT_NAMES:
        raise _Inexpressible
    return TEXT_NAMES[number]


def _value_info(info: ValueInfoProto) -> str:
    name = _name(info.name)
    try:
        return f"{_type(info.type)} {name}" if info.type.ListFields() else name
    except _Inexpressible:
        return name


def _typed_value(info: ValueInfoProto) -> str:
    return f"{_type(info.type)} {_name(info.name)}"


def _tensor(tensor: TensorProto, name: str) -> str:
    """Type, name and values of an attribute's tensor or of an initializer."""
    dims = f"[{','.join(map(str, tensor.dims))}]" if tensor.dims else ""
    head = " ".join(filter(None, (f"{_dtype(tensor.data_type)}{dims}", name)))
    if tensor.data_location == TensorProto.EXTERNAL:
        if not tensor.external_data:
            raise _Inexpressible
        pairs = (f"{_quote_value(p.key.encode())}: {_quote_value(p.value.encode())}" for p in tensor.external_data)
        return f"{head} = [{', '.join(pairs)}]"
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):  # UnicodeDecodeError is a ValueError
        raise _Inexpressible from None
    return f"{head} = {{{', '.join(_values(array, tensor))}}}"


def _initializer(tensor: TensorProto) -> str:
    if not tensor.name:
        raise _Inexpressible
    return _tensor(tensor, _name(tensor.name))


def _values(array: np.ndarray, tensor: TensorProto) -> Iterable[str]:
    if tensor.data_type == TensorProto.STRING:
        return map(_quote_value, tensor.string_data)
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


def _attribute(attribute: AttributeProto, depth: int) -> str:
    name, kind = attribute.name, attribute.type
    if not _WORD.fullmatch(name):
        raise _Inexpressible
    if attribute.ref_attr_name:
        typed = f": {_KINDS[kind]}" if kind else ""
        return f"{name}{typed} = @{_name(attribute.ref_attr_name)}"
    if kind == AttributeProto.INT:
        return f"{name} = {attribute.i}"
    if kind == AttributeProto.FLOAT:
        return f"{name} = {_number(np.float32(attribute.f))}"
    if kind == AttributeProto.STRING:
        return f"{name} = {_quote_value(attribute.s)}"
    if kind == AttributeProto.INTS:
        return _list(name, "ints", map(str, attribute.ints))
    if kind == AttributeProto.FLOATS:
        return _list(name, "floats", map(_number, np.asarray(attribute.floats, np.float32)))
    if kind == AttributeProto.STRINGS:
        return _list(name, "strings", map(_quote_value, attribute.strings))
    if kind == AttributeProto.TENSOR:
        word = _WORD.fullmatch(attribute.t.name) and attribute.t.name not in _TYPES
        return f"{name} = {_tensor(attribute.t, attribute.t.name if word else '')}"
    if kind == AttributeProto.TYPE_PROTO:
        return f"{name} = {_type(attribute.tp)}"
    if kind == AttributeProto.GRAPH:
        inner = attribute.g.name
        word = _WORD.fullmatch(inner) and inner not in _TYPES and inner.lower() not in _NUMBERS
        return f"{name} = {_graph(attribute.g, inner if word else 'g', depth + 1)}"
    if kind in (AttributeProto.TENSORS, AttributeProto.GRAPHS, AttributeProto.TYPE_PROTOS) and not _is_nonempty_list(attribute):
        return f"{name}: {_KINDS[kind]} = []"
    raise _Inexpressible


def _is_nonempty_list(attribute: AttributeProto) -> bool:
    return bool(attribute.tensors or attribute.graphs or attribute.type_protos)


def _list(name: str, kind: str, values: Iterable[str]) -> str:
    return f"{name}: {kind} = [{', '.join(values)}]"


def _expressible(write: Callable[..., str], items: Iterable[Any], *arguments: Any) -> list[str]:
    """The items that the text form can hold, written."""
    written = []
    for item in items:
        try:
            written.append(write(item, *arguments))
        except _Inexpressible:
            continue
    return written


def _node(node: NodeProto, depth: int) -> str:
    name = f"[{_name(node.name)}] " if node.name else ""
    domain = "".join(f"{_word(part)}." for part in node.domain.split(".")) if node.domain else ""
    overload = f":{_word(node.overload)}" if node.overload else ""
    attrs = ", ".join(_expressible(_attribute, node.attribute, depth))
    op = f"{domain}{_word(node.op_type)}{overload}"
    inputs = ", ".join(map(_name, node.input))
    outputs = ", ".join(map(_name, node.output)) or '""'
    extra = f" <{attrs}>" if attrs else ""
    # A graph comes after the inputs, as it takes several lines.
    behind = any(a.type == AttributeProto.GRAPH for a in node.attribute)
    return f"{PLACE}{name}{outputs} = {op} ({inputs}){extra}" if behind else f"{PLACE}{name}{outputs} = {op}{extra} ({inputs})"


def _graph(graph: GraphProto, name: str, depth: int) -> str:
    if depth > DEEPEST:
        raise ModelError(f"graph {sanitize(name)}", expected=f"graphs nested at most {DEEPEST} deep", got="more")
    inputs = ", ".join(map(_value_info, graph.input))
    outputs = ", ".join(map(_value_info, graph.output))
    values = _expressible(_initializer, graph.initializer) + _expressible(_typed_value, graph.value_info)
    indent = _STEP * (depth + 1)
    extra = "\n" + indent + "<" + f",\n{indent} ".join(values) + ">\n" + _STEP * depth if values else ""
    return f"{name} ({inputs}) => ({outputs}) {extra}{{\n{_body(graph.node, depth)}{_STEP * depth}}}"


def _body(nodes: Iterable[NodeProto], depth: int) -> str:
    return "".join(f"{_STEP * (depth + 1)}{_node(node, depth)}\n" for node in nodes)


def _function(function: FunctionProto) -> str:
    imports = ", ".join(f"{quote(_without_zero(e.domain))} : {e.version}" for e in function.opset_import)
    entries = [f"domain: {quote(_without_zero(function.domain))}", f"opset_import: [{imports}]"]
    for field in ("overload", "doc_string"):
        if getattr(function, field, ""):
            entries.append(f"{field}: {quote(_without_zero(getattr(function, field)))}")
    head = f"{PLACE}<\n" + ",\n".join(_STEP + entry for entry in entries) + "\n>\n"
    attrs = [*map(_name, function.attribute), *_expressible(_default, function.attribute_proto)]
    extra = f" <{', '.join(attrs)}>" if attrs else ""
    inputs, outputs = (", ".join(map(_name, names)) for names in (function.input, function.output))
    values = ", ".join(_expressible(_typed_value, function.value_info))
    inner = f"\n{_STEP}<{values}>\n" if values else ""
    return f"{head}{_name(function.name)}{extra} ({inputs}) => ({outputs}) {inner}{{\n{_body(function.node, 0)}}}"


def _default(attribute: AttributeProto) -> str:
    # A graph's nodes would stand outside the function's braces; and a default refers to nothing.
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or attribute.ref_attr_name:
        raise _Inexpressible
    text = _attribute(attribute, 0)
    return text if ": " in text.partition("=")[0] else text.replace(" =", f": {_KINDS[attribute.type]} =", 1)

"""The ONNX text form of a model, written from its protos.

The onnx printer writes ``…`` for half of the dtypes, and drops defaults of functions. Doc strings
and metadata for which the text form has no syntax become comments
(`pyopnb.models.text_form.notes`). Descriptions beyond these are left out here, and
`pyopnb.models.text_form.write` finds them.
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
from onnx.printer import to_text

from pyopnb.common import sanitize
from pyopnb.engine import DTYPES
from pyopnb.errors import ModelError
from pyopnb.models.text_form.notes import note_lines

__all__ = ["DEEPEST", "TEXT_NAMES", "format_model", "quote"]

TEXT_NAMES: dict[int, str] = {
    row.onnx: TensorProto.DataType.Name(row.onnx).lower() for row in DTYPES
}
"""Names of dtypes in the ONNX text form, by their number."""

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
    """Write a model in the ONNX text form.

    Raises
    ------
    ModelError
        Graphs are nested too deep, or the text form cannot hold something that affects
        the results of the model.
    """
    # The header has everything that a reader would otherwise add in its own versions.
    header = ModelProto()
    header.CopyFrom(model)
    for field in ("graph", "functions"):
        header.ClearField(field)
    if not _text(header.doc_string):
        header.ClearField("doc_string")
    head = to_text(header).removesuffix('"" () => () {\n}').replace("\0", "")
    graph = _graph(model.graph, _name(model.graph.name), 0)
    parts = [head + _lines(note_lines(model.graph)) + graph]
    parts += map(_function, model.functions)
    return "\n".join(parts) + "\n"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# ---- names ---------------------------------------------------------------------------------------


def _word(text: str) -> str:
    """Turn a name into the nearest word, where the text form takes nothing else."""
    if _WORD.fullmatch(text):
        return text
    return re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", text, flags=re.ASCII))


def _quoted(text: str) -> str:
    return quote(_text(text))


def _text(text: Any) -> str:
    """Return a text without what the parser does not take; protobuf gives bytes for no UTF-8."""
    return text.replace("\0", "") if isinstance(text, str) else ""


def _name(text: str) -> str:
    if _WORD.fullmatch(text) and text not in _TYPES:
        return text
    return _quoted(text)


def quote(text: str) -> str:
    """Quote a string without a zero character as the text form does."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quote_value(value: bytes) -> str:
    try:
        decoded = value.decode()
    except UnicodeDecodeError:
        raise _Inexpressible("bytes that are no UTF-8 text") from None
    if "\0" in decoded:
        raise _Inexpressible("a text with a zero character")
    return quote(decoded)


# ---- types and tensors ---------------------------------------------------------------------------


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
    raise _Inexpressible("a type that the text form does not have")


def _tensor_type(kind: Any) -> str:
    name = _dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return f"{name}[]"
    dims = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(str(dim.dim_value))
        elif dim.dim_param:
            dims.append(_name(dim.dim_param))
        else:
            dims.append("?")
    if dims:
        return f"{name}[{','.join(dims)}]"
    return name


def _dtype(number: int) -> str:
    if number not in TEXT_NAMES:
        raise _Inexpressible("a dtype that the text form does not have")
    return TEXT_NAMES[number]


def _input_or_output(info: ValueInfoProto) -> str:
    if not info.type.ListFields():
        return _name(info.name)
    return f"{_type(info.type)} {_name(info.name)}"


def _inner_values(infos: Iterable[ValueInfoProto]) -> list[str]:
    """Write the types of values between nodes, without types that the text form lacks."""
    written = []
    for info in infos:
        try:
            written.append(f"{_type(info.type)} {_name(info.name)}")
        except _Inexpressible:
            # They describe the model and decide nothing; the head of the text says
            # that they are missing.
            continue
    return written


def _tensor(tensor: TensorProto, name: str) -> str:
    """Type, name and values of an attribute's tensor or of an initializer."""
    if tensor.dims:
        dims = f"[{','.join(map(str, tensor.dims))}]"
    else:
        dims = ""
    head = " ".join(filter(None, (f"{_dtype(tensor.data_type)}{dims}", name)))
    if tensor.data_location == TensorProto.EXTERNAL:
        if not tensor.external_data:
            raise _Inexpressible("external data in no file")
        pairs = (
            f"{_quote_value(p.key.encode())}: {_quote_value(p.value.encode())}"
            for p in tensor.external_data
        )
        return f"{head} = [{', '.join(pairs)}]"
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        # A UnicodeDecodeError is also a ValueError.
        raise _Inexpressible("values that do not fit its type and shape") from None
    return f"{head} = {{{', '.join(_values(array, tensor))}}}"


def _initializer(tensor: TensorProto) -> str:
    if not tensor.name:
        raise _Inexpressible("no name")
    return _tensor(tensor, _name(tensor.name))


def _values(array: np.ndarray, tensor: TensorProto) -> Iterable[str]:
    if tensor.data_type == TensorProto.STRING:
        return map(_quote_value, tensor.string_data)
    flat = array.ravel()
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if flat.dtype in (np.float32, np.float64):
        return map(_number, flat)
    is_int = flat.dtype.kind in "iu" and flat.dtype.isbuiltin == 1
    if is_int or flat.dtype == np.bool_ or flat.dtype.name in _SMALL_INTS:
        return (str(int(value)) for value in flat)
    # Floats of less than 32 bits are written as the integers that their bits are.
    bits = flat.view(np.uint8 if flat.itemsize == 1 else np.uint16)
    return map(str, bits.tolist())


_SMALL_INTS = ("int4", "uint4", "int2", "uint2")


def _number(value: Any) -> str:
    # The shortest text that reads back as the same float of this width.
    return str(value)


# ---- nodes, graphs, functions --------------------------------------------------------------------


def _attribute(attribute: AttributeProto, depth: int) -> str:
    """Write an attribute of a node whose graph is nested so deep."""
    name, attribute_type = attribute.name, attribute.type
    if not _WORD.fullmatch(name):
        raise _Inexpressible("a name that is no identifier")
    if attribute.ref_attr_name:
        if attribute_type:
            typed = f": {_KINDS[attribute_type]}"
        else:
            typed = ""
        return f"{name}{typed} = @{_name(attribute.ref_attr_name)}"
    if attribute_type == AttributeProto.GRAPH:
        # The form has only identifiers for the names of inner graphs.
        if _is_inner_name(attribute.g.name):
            inner = attribute.g.name
        else:
            inner = "g"
        return f"{name} = {_graph(attribute.g, inner, depth + 1)}"
    if attribute_type in _SINGLE_VALUES:
        return f"{name} = {_SINGLE_VALUES[attribute_type](attribute)}"
    if attribute_type in _LISTS:
        # Without its type, an empty list would be one of ints.
        return (
            f"{name}: {_KINDS[attribute_type]} = [{', '.join(_LISTS[attribute_type](attribute))}]"
        )
    raise _Inexpressible(
        f"an attribute of type {AttributeProto.AttributeType.Name(attribute_type)}"
    )


def _is_inner_name(name: str) -> bool:
    return bool(_WORD.fullmatch(name)) and name not in _TYPES and name.lower() not in _NUMBERS


def _attribute_tensor(attribute: AttributeProto) -> str:
    name = attribute.t.name
    is_word = _WORD.fullmatch(name) and name not in _TYPES
    return _tensor(attribute.t, name if is_word else "")


_SINGLE_VALUES: dict[int, Callable[[AttributeProto], str]] = {
    AttributeProto.INT: lambda attribute: str(attribute.i),
    AttributeProto.FLOAT: lambda attribute: _number(np.float32(attribute.f)),
    AttributeProto.STRING: lambda attribute: _quote_value(attribute.s),
    AttributeProto.TENSOR: _attribute_tensor,
    AttributeProto.TYPE_PROTO: lambda attribute: _type(attribute.tp),
}
_LISTS: dict[int, Callable[[AttributeProto], Iterable[str]]] = {
    AttributeProto.INTS: lambda attribute: map(str, attribute.ints),
    AttributeProto.FLOATS: lambda attribute: map(_number, np.asarray(attribute.floats, np.float32)),
    AttributeProto.STRINGS: lambda attribute: map(_quote_value, attribute.strings),
}


def _written(
    write: Callable[..., str], items: Iterable[Any], where: str, *arguments: Any
) -> list[str]:
    """Write items that affect the results, and refuse one that the text cannot express."""
    texts = []
    for item in items:
        try:
            texts.append(write(item, *arguments))
        except _Inexpressible as error:
            item_name = f"{where} {sanitize(item.name, 60)}".rstrip()
            raise ModelError(
                item_name, expected="something that the ONNX text form can express", got=str(error)
            ) from None
    return texts


def _node(node: NodeProto, depth: int) -> str:
    if node.name:
        name = f"[{_name(node.name)}] "
    else:
        name = ""
    if node.domain:
        domain = "".join(f"{_word(part)}." for part in node.domain.split("."))
    else:
        domain = ""
    if node.overload:
        overload = f":{_word(node.overload)}"
    else:
        overload = ""
    where = f"node {sanitize(node.name or node.op_type, 60)}, attr"
    attrs = ", ".join(_written(_attribute, node.attribute, where, depth))
    op = f"{domain}{_word(node.op_type)}{overload}"
    inputs = ", ".join(map(_name, node.input))
    outputs = ", ".join(map(_name, node.output)) or '""'
    if attrs:
        extra = f" <{attrs}>"
    else:
        extra = ""
    # A graph comes after the inputs, as it takes several lines.
    behind = any(a.type == AttributeProto.GRAPH for a in node.attribute)
    if behind:
        return f"{name}{outputs} = {op} ({inputs}){extra}"
    return f"{name}{outputs} = {op}{extra} ({inputs})"


def _graph(graph: GraphProto, name: str, depth: int) -> str:
    if depth > DEEPEST:
        raise ModelError(
            f"graph {name}", expected=f"graphs nested at most {DEEPEST} deep", got="more"
        )
    inputs = ", ".join(_written(_input_or_output, graph.input, "input"))
    outputs = ", ".join(_written(_input_or_output, graph.output, "output"))
    values = _written(_initializer, graph.initializer, "initializer") + _inner_values(
        graph.value_info
    )
    indent = _STEP * (depth + 1)
    if values:
        extra = "\n" + indent + "<" + f",\n{indent} ".join(values) + ">\n" + _STEP * depth
    else:
        extra = ""
    return (
        f"{name} ({inputs}) => ({outputs}) {extra}{{\n{_body(graph.node, depth)}{_STEP * depth}}}"
    )


def _body(nodes: Iterable[NodeProto], depth: int) -> str:
    indent = _STEP * (depth + 1)
    lines: list[str] = []
    for node in nodes:
        lines += note_lines(node)
        lines.append(_node(node, depth))
    return "".join(f"{indent}{line}\n" for line in lines)


def _function(function: FunctionProto) -> str:
    imports = [f"{_quoted(entry.domain)} : {entry.version}" for entry in function.opset_import]
    entries = [f"domain: {_quoted(function.domain)}", f"opset_import: [{', '.join(imports)}]"]
    for field in ("overload", "doc_string"):
        # An onnx before 1.16 has no overloads.
        if getattr(function, field, ""):
            entries.append(f"{field}: {_quoted(getattr(function, field))}")
    listed = ",\n".join(_STEP + entry for entry in entries)
    head = f"<\n{listed}\n>\n{_lines(note_lines(function))}"
    where = f"function {sanitize(function.name, 60)}, default of attr"
    attrs = [*map(_name, function.attribute), *_written(_default, function.attribute_proto, where)]
    if attrs:
        extra = f" <{', '.join(attrs)}>"
    else:
        extra = ""
    inputs = ", ".join(map(_name, function.input))
    outputs = ", ".join(map(_name, function.output))
    values = ", ".join(_inner_values(function.value_info))
    if values:
        inner = f"\n{_STEP}<{values}>\n"
    else:
        inner = ""
    return (
        f"{head}{_name(function.name)}{extra} ({inputs}) => ({outputs}) "
        f"{inner}{{\n{_body(function.node, 0)}}}"
    )


def _default(attribute: AttributeProto) -> str:
    # A graph's nodes would be outside the function's braces; and a default refers to nothing.
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or attribute.ref_attr_name:
        raise _Inexpressible("a graph, or a reference")
    text = _attribute(attribute, 0)
    if ": " in text.partition("=")[0]:
        return text
    return text.replace(" =", f": {_KINDS[attribute.type]} =", 1)

"""Models read from and written in ONNX's text form."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.models.build import ints_to_floats, type_outputs
from pyopnb.models.nodes import bodies, forget_inferred
from pyopnb.models.opsets import import_domains
from pyopnb.models.tensors import tensors
from pyopnb.models.text.advice import advise
from pyopnb.models.text.printer import DEEPEST, TEXT_NAMES, format_model, quote
from pyopnb.models.text.tokens import BLANK, QUOTED, Layout, Token
from pyopnb.models.text.validate import Fault, find_faults
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, closest, hide_internal_frames, sanitize

__all__ = ["parse", "text"]

_OUR_NAMES = {row.name: TEXT_NAMES[row.onnx] for row in DTYPES if row.name != TEXT_NAMES[row.onnx]}
"""Our names of dtypes that the text form spells otherwise. Each is at least as long as ONNX's, so no column changes."""

_DTYPES = {**{name: name for name in TEXT_NAMES.values()}, **_OUR_NAMES}
"""The text form's names of dtypes, by themselves and by ours."""

_PIECES = re.compile(
    rf"(?P<skipped>{QUOTED}|\#[^\n]*+|=>)|\b(?P<dtype>{'|'.join(_OUR_NAMES)})(?=\s*\[)|\[\s*(?P<any>\.\.\.)\s*\]",
    re.ASCII | re.DOTALL,
)
_BRACKETS = re.compile(rf"{QUOTED}|\#[^\n]*+|=>|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])", re.ASCII | re.DOTALL)
_BLANKS = re.compile(f"{BLANK}*+", re.ASCII)
_HEADER = re.compile(rf"<(?:{QUOTED}|\#[^\n]*+|[^>\"\#])*+>", re.ASCII | re.DOTALL)
_PARSER_MESSAGE = re.compile(r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context: .*\n(.*)", re.DOTALL)
_MAX_BRACKETS = 4 * DEEPEST
"""Depth of brackets; a graph needs two. The parser recurses, and would end the process at some thousands."""

_EXAMPLE = "(float[N,3] x) => (float[N,3] y) { y = Abs(x) }"


@hide_internal_frames
def parse(text: str, *, name: str | None = None) -> ModelProto:
    """Read a model from ONNX's text form. A bare graph is enough.

    Parameters
    ----------
    text : str
        ``(float[N,3] x) => (float[N,3] y) { y = demo.SoftClip<limit = 2.0>(x) }``, with or without a name before it and a
        header ``<ir_version: 10, opset_import: ["" : 21]>`` before that; functions may follow. What the header lacks is added:
        the IR version and the version of ONNX's own operators that the installed runtime takes, and an import for each domain
        that occurs.
    name : str, optional
        Of a graph that has none in the text; ``graph`` if not given.

    Returns
    -------
    ModelProto

    Raises
    ------
    ModelError
        The text is not of that form, nests deeper than a model can, or has what no graph may have: a name that is defined
        twice or not at all, an operator of ONNX's own domains that ONNX does not have, a negative size, more or fewer values
        than a tensor has. It shows the line. An op of another domain may be defined later.

    Notes
    -----
    Dtypes may be written as in ``float32[N,3]``, and ``[...]`` is an unknown rank; otherwise types are read as ONNX's text
    form defines them, where ``int64`` is a scalar and ``int64[]`` has an unknown rank. ``float32`` and ``float32[]``, which
    mean the reverse in the notation of hints, are refused. ``#`` begins a comment. An int where ONNX's own operator has a float
    attribute is that float, unless its type is written (``alpha: int = 2``). The values of a tensor of float16, bfloat16 or
    float8 are the integers that their bits are.

    Examples
    --------
    >>> m = parse("(float[N] x) => (y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }", name="clipper")
    >>> m.graph.name, [n.op_type for n in m.graph.node], [e.domain for e in m.opset_import]
    ('clipper', ['Abs', 'SoftClip'], ['', 'demo'])
    >>> parse("(float[N] x) => (y) { y = Softmx(x) }")
    Traceback (most recent call last):
    pyopnb.ops.errors.ModelError: line 1, column 27, in `(float[N] x) => (y) { y = Softmx(x) }`, op Softmx: expected an op of
    ONNX, got Softmx. Try: Softmax
    """
    model = _parse(_check(text), "graph" if name is None else name)
    layout = Layout(text)
    import_domains(model)
    fault = next(find_faults(model), None)
    if fault is not None:
        raise ModelError(
            f"{layout.where(_place(fault, layout))}, {fault.what}", expected=fault.expected, got=fault.got, next=fault.next
        )
    _pack(model)
    for number, node in enumerate(_nodes(model)):
        ints_to_floats(node, _TypedAttributes(layout, number))
    type_outputs(model)
    return model


@hide_internal_frames
def text(model: ModelProto, *, most: int = 1_000_000) -> str:
    """Write a model in ONNX's text form, which `parse` reads back as an equal model.

    Parameters
    ----------
    model : ModelProto
    most : int
        Values that all tensors of the model may have together.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        The text form cannot express something in the model: a domain with a hyphen, bytes that are no UTF-8, a list of graphs,
        doc strings of nodes, sparse initializers … It names the first. Nothing is left out silently: the text is read back and
        compared.

    Notes
    -----
    Tensors are equal if their values are, bit by bit, in whichever field of the proto they are. Types of outputs that `model`
    or `parse` inferred are left out, and inferred again.

    Examples
    --------
    >>> print(text(parse("(float32[N,3] x) => (y) { y = LeakyRelu<alpha = 0.5>(x) }")))
    <
       ir_version: ...,
       opset_import: ["" : ...]
    >
    graph (float[N,3] x) => (y) {
       y = LeakyRelu <alpha = 0.5> (x)
    }
    """
    if not isinstance(model, ModelProto) or not model.HasField("graph"):
        got = "a ModelProto without a graph" if isinstance(model, ModelProto) else type(model).__name__
        raise ModelError("model", expected="a ModelProto", got=got)
    model = _without_inferred(model)
    written = format_model(model, most)
    try:
        again = _parse(written, "graph")
        _pack(again)
    except ModelError as error:
        raise ModelError("model", expected="what the installed onnx can read back", got=str(error).rstrip(".")) from error
    difference = _first_difference(_normalize(model), _normalize(again), "model")
    if difference is not None:
        where, value = difference
        raise ModelError(where, expected="what ONNX's text form can hold", got=sanitize(repr(value), 80))
    return written


# ---- reading -----------------------------------------------------------------------------------------------------------------


def _check(text: Any) -> str:
    if not isinstance(text, str):
        raise ModelError("text", expected=f"a str, as {_EXAMPLE}", got=type(text).__name__)
    wrong = re.search("[\0\ud800-\udfff]", text)
    if wrong is not None:
        where = Layout(text).where(wrong.start())
        raise ModelError(where, expected="characters that UTF-8 has, and no zero", got=f"the character {ord(wrong[0]):#x}")
    if _BLANKS.fullmatch(text):
        raise ModelError("text", expected="a graph in ONNX's text form", got="nothing", next=_EXAMPLE)
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += (match["open"] is not None) - (match["close"] is not None and depth > 0)
        if depth > _MAX_BRACKETS:
            raise _too_deep(Layout(text).where(match.start()))
    return text


def _too_deep(where: str) -> ModelError:
    return ModelError(where, expected=f"graphs and types nested at most {DEEPEST} deep", got="more than a ModelProto can hold")


def _parse(text: str, name: str) -> ModelProto:
    """Parse a text without adding or checking anything."""
    import onnx.parser

    at = _start(text)
    named = f"{quote(name, 'name')} " if text[at : at + 1] == "(" else ""
    ready = _respell(text[:at]) + named + _respell(text[at:])
    try:
        return onnx.parser.parse_model(ready)
    except DecodeError:
        raise _too_deep("text") from None
    except (onnx.parser.ParseError, IndexError, ValueError, RuntimeError) as error:
        message = error.args[0] if error.args else None
        match = _PARSER_MESSAGE.fullmatch(message.decode(errors="replace")) if isinstance(message, bytes) else None
        place = Layout(ready).place(int(match[1]), int(match[2])) if match else _find_bad_number(ready, type(error))
        place = place if place < at else max(at, place - len(named))
        _refuse(Layout(text), place, match[3] if match else "", error)


def _start(text: str) -> int:
    """Where the graph begins, after a header."""
    at = _BLANKS.match(text).end()  # type: ignore[union-attr]  # it matches nothing as well
    header = _HEADER.match(text, at)
    return at if header is None else _BLANKS.match(text, header.end()).end()  # type: ignore[union-attr]


def _respell(text: str) -> str:
    """Replace our names of dtypes by those of the text form, and ``[...]`` by ``[]``; columns stay."""
    if "..." not in text and not any(name in text for name in _OUR_NAMES):
        return text
    return _PIECES.sub(_respell_piece, text)


def _respell_piece(match: re.Match[str]) -> str:
    if match["dtype"]:
        empty = re.compile(r"\s*\[\s*\]").match(match.string, match.end())
        return match[0] if empty else _OUR_NAMES[match[0]].ljust(len(match[0]))
    return match[0].replace("...", "   ") if match["any"] else match[0]


def _find_bad_number(text: str, kind: type[Exception]) -> int:
    """Find, by bisection, the number that the parser cannot convert: it does not tell where that is."""
    import onnx.parser

    numbers = [t.start + len(t.text) for t in Layout(text).tokens if t.kind == "number"]

    def fails(end: int) -> bool:
        try:
            onnx.parser.parse_model(text[:end] + " ")
        except kind as error:
            return not isinstance(error, onnx.parser.ParseError)
        except Exception:  # the text was cut off
            return False
        return False

    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(numbers[middle]) else (middle + 1, high)
    return numbers[low] - 1 if numbers else len(text)


def _refuse(layout: Layout, place: int, message: str, error: Exception) -> NoReturn:
    """Raise the parser's error in our words."""
    number = layout.at(place)
    token = None if number is None else layout.tokens[number]
    before = layout.tokens[(len(layout.tokens) if number is None else number) - 1]
    expected, remedy = _expected(message), None
    dtype = _dtype_at(layout, number, message)
    advice = advise(layout, number, _DTYPES) if message else None
    behind = not message.startswith(("Expected character", "Identifier", "Encountered"))
    if advice is not None:
        token, expected, remedy = advice[0] or token, advice[1] or expected, advice[2]
    elif dtype is not None:
        token, expected = dtype, "a type" if dtype.text in _OUR_NAMES else f"one of the dtypes {', '.join(TEXT_NAMES.values())}"
        remedy = (
            f"{_OUR_NAMES[dtype.text]} for a scalar, {dtype.text}[...] for any rank"
            if dtype.text in _OUR_NAMES
            else closest(dtype.text, TEXT_NAMES.values())
        )
    elif not message:
        expected = "a number that its type can hold"
    elif message.startswith("Unhandled keyword") and number:
        token = layout.tokens[number - 2]
    elif behind and before.kind in ("number", "string", "word"):
        token = before
    where = layout.where(len(layout.text.rstrip()) if token is None else token.start)
    got = "the end of the text" if token is None else sanitize(token.text, 60).replace("\n", "\\n")
    raise ModelError(where, expected=expected, got=got, next=remedy) from None


def _expected(message: str) -> str:
    if (match := re.fullmatch(r"Expected character (.) not found\.", message)) is not None:
        return f"`{match[1]}`"
    if message.startswith("Identifier expected"):
        return "a name"
    if match := re.match(r"(Integer|String) value expected", message):
        return "an integer" if match[1] == "Integer" else "a string in double quotes"
    return f"ONNX's text form (onnx says: {sanitize(' '.join(message.split())).rstrip('.!')})"


def _dtype_at(layout: Layout, number: int | None, message: str) -> Token | None:
    """The unknown word where a type should be: the parser takes it for a name and fails at the next token."""
    tokens = layout.tokens
    if number is None or number < 2 or not message.startswith("Expected character"):
        return None
    word, token, opening = tokens[number - 1], tokens[number], tokens[number - 2].text
    in_head = token.inside in ("(", "<") and _opener(tokens, number).inside != "{" and opening in ("(", "<", ",")
    in_attribute = token.text == "[" and opening == "="
    return word if word.kind == "word" and (token.name is not None or token.text == "[") and (in_head or in_attribute) else None


def _opener(tokens: list[Token], number: int) -> Token:
    depth = tokens[number].depth
    return next(tokens[n] for n in range(number - 1, -1, -1) if tokens[n].depth < depth)


# ---- after the parser --------------------------------------------------------------------------------------------------------


def _place(fault: Fault, layout: Layout) -> int:
    if fault.node is None:
        return layout.head(fault.scope, fault.name, outputs=fault.part == "result")
    if fault.part == "op":
        return layout.op(fault.node)
    return int(getattr(layout, fault.part)(fault.node, fault.name))


def _pack(model: ModelProto) -> None:
    """Pack values of 4 and 2 bits: the parser stores each in an element of its own."""
    small = {row.onnx: row for row in DTYPES if 0 < row.bits < 8}
    for tensor in tensors(model):
        row = small.get(tensor.data_type)
        if row is not None and len(tensor.int32_data) == math.prod(tensor.dims):
            values = np.asarray(tensor.int32_data, np.int64)
            array = values.astype(row.numpy) if "int" in row.name else values.astype(np.uint8).view(row.numpy)
            tensor.CopyFrom(numpy_helper.from_array(array.reshape(tuple(tensor.dims)), tensor.name))


class _TypedAttributes:
    """The names of a node's attributes whose type is written in the text."""

    def __init__(self, layout: Layout, node: int) -> None:
        self._layout, self._node = layout, node

    def __contains__(self, name: object) -> bool:
        return self._layout.tokens[self._layout.attribute_token(self._node, str(name)) + 1].text == ":"


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node in the order of the text."""
    ahead: list[Any] = [model.graph, *model.functions][::-1]
    while ahead:
        item = ahead.pop()
        if isinstance(item, NodeProto):
            yield item
            inner: Iterable[GraphProto | FunctionProto | NodeProto] = bodies(item)
        else:
            inner = item.node
        ahead.extend(reversed(list(inner)))


# ---- comparing ---------------------------------------------------------------------------------------------------------------


def _without_inferred(model: ModelProto) -> ModelProto:
    """The model without inferred types of outputs: reading the text infers them again."""
    declared = ModelProto()
    declared.CopyFrom(model)
    forget_inferred(declared)
    return declared


def _normalize(model: ModelProto) -> ModelProto:
    """A copy with the values of each tensor in the field that onnx.numpy_helper uses."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in tensors(copy):
        if tensor.data_location != TensorProto.EXTERNAL:
            plain = numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)
            for field in (*(d.name for d, _ in plain.ListFields()), "raw_data", *_FIELDS):
                tensor.ClearField(field)
            tensor.MergeFrom(plain)
    return copy


_FIELDS = ("int32_data", "int64_data", "uint64_data", "float_data", "double_data", "string_data")


def _first_difference(a: Any, b: Any, path: str) -> tuple[str, Any] | None:
    """The path of the first field in which two messages differ, and the value of the first; None where they are equal."""
    if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
        return None
    mine, theirs = ({d.name: v for d, v in message.ListFields()} for message in (a, b))
    for name in dict.fromkeys([*mine, *theirs]):
        found = _difference_in_field(mine.get(name), theirs.get(name), f"{path}.{name}")
        if found is not None:
            return found
    return None


def _difference_in_field(a: Any, b: Any, path: str) -> tuple[str, Any] | None:
    if hasattr(a if a is not None else b, "ListFields"):
        empty = type(a if a is not None else b)()
        return _first_difference(empty if a is None else a, empty if b is None else b, path)
    if isinstance(a, (str, bytes, int, float, type(None))) and isinstance(b, (str, bytes, int, float, type(None))):
        same = repr(a) == repr(b) or (not a and not b and repr(a) != "-0.0" and repr(b) != "-0.0")
        return None if same else (path, a)
    a, b = a or [], b or []
    if len(a) != len(b):
        return path, a[0] if len(a) else f"{len(b)} entries of the text"
    for place, (one, other) in enumerate(zip(a, b, strict=True)):
        found = _difference_in_field(one, other, f"{path}[{place}]")
        if found is not None:
            return found
    return None

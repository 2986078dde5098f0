"""Models read from ONNX's text form."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, numpy_helper

from pyopnb.models.build import ints_to_floats, type_outputs
from pyopnb.models.external_data import entries, is_external, read_data, taken_in
from pyopnb.models.opsets import import_domains
from pyopnb.models.tensors import tensors
from pyopnb.models.text.advice import advise
from pyopnb.models.text.annotations import Annotations, nodes_of_text
from pyopnb.models.text.printer import DEEPEST, TEXT_NAMES, quote
from pyopnb.models.text.tokens import BLANK, QUOTED, Layout, Token
from pyopnb.models.text.validate import Fault, find_faults, tensor_fault
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ModelError, closest, hide_internal_frames, sanitize

__all__ = ["complete", "parse", "read_annotated", "read_plain"]

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
@functools.partial(check_arguments, but=("text",))
def parse(text: str, *, name: str | None = None, weights: str | os.PathLike[str] | None = None) -> ModelProto:
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
    weights : path, optional
        The file of that name that `text` wrote: its tensors are read from it into the model.

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
    mean the reverse in the notation of hints, are refused. ``#`` begins a comment, and ``#@`` an annotation, as `text` writes
    them. An int where ONNX's own operator has a float attribute is that float, unless its type is written
    (``alpha: int = 2``). The values of a tensor of float16, bfloat16 or float8 are the integers that their bits are.

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
    model, notes = read_annotated(_check(text), "graph" if name is None else name, weights)
    return model if notes.verbatim else complete(model, notes)


def read_annotated(text: str, name: str, weights: str | os.PathLike[str] | None) -> tuple[ModelProto, Annotations]:
    """Read a text and merge its annotations, without adding or checking anything.

    Parameters
    ----------
    text, name, weights
        As for `parse`.

    Returns
    -------
    tuple of ModelProto and Annotations
    """
    notes = Annotations.read(text)
    return notes.merge(read_plain(text, name, weights)), notes


def read_plain(text: str, name: str = "graph", weights: str | os.PathLike[str] | None = None) -> ModelProto:
    """Read a text without its annotations.

    Parameters
    ----------
    text, name, weights
        As for `parse`.

    Returns
    -------
    ModelProto
    """
    model = _parse(text, name)
    _pack(model)
    if weights is not None:
        _take_in(model, Path(os.fspath(weights)))
    return model


def complete(model: ModelProto, notes: Annotations) -> ModelProto:
    """Add to a model what its text need not say, and refuse what no graph may have.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    notes : Annotations
        Of the text that it was read from, for the lines of errors.

    Returns
    -------
    ModelProto
        The same.

    Raises
    ------
    ModelError
    """
    layout = notes.layout
    import_domains(model)
    fault = next(find_faults(model), None)
    if fault is not None:
        raise ModelError(
            f"{layout.where(_place(fault, layout, model, notes))}, {fault.what}",
            expected=fault.expected,
            got=fault.got,
            next=fault.next,
        )
    for number, node in enumerate(notes.nodes):
        ints_to_floats(node, _TypedAttributes(layout, number))
    type_outputs(model)
    return model


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
    named = f"{quote(name)} " if text[at : at + 1] == "(" else ""
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


def _place(fault: Fault, layout: Layout, model: ModelProto, notes: Annotations) -> int:
    if notes and len(nodes_of_text(model)) != len(notes.nodes):
        return 0  # annotations brought graphs of their own
    if fault.node is None:
        return layout.head(fault.scope, fault.name, outputs=fault.part == "result")
    if fault.part == "op":
        return layout.op(fault.node)
    return int(getattr(layout, fault.part)(fault.node, fault.name))


def _take_in(model: ModelProto, path: Path) -> None:
    """Read the tensors that are in one file of weights."""
    for tensor in tensors(model):
        if is_external(tensor) and entries(tensor).get("location") == path.name:
            taken_in(tensor, read_data(tensor, path.parent))
            tensor.ClearField("data_location")


def _pack(model: ModelProto) -> None:
    """Pack values of 4 and 2 bits: the parser stores each in an element of its own."""
    small = {row.onnx: row for row in DTYPES if 0 < row.bits < 8}
    for tensor in tensors(model):
        row = small.get(tensor.data_type)
        if row is not None and tensor_fault(tensor) is None and not is_external(tensor):
            values = np.asarray(tensor.int32_data, np.int64)
            array = values.astype(row.numpy) if "int" in row.name else values.astype(np.uint8).view(row.numpy)
            tensor.CopyFrom(numpy_helper.from_array(array.reshape(tuple(tensor.dims)), tensor.name))


class _TypedAttributes:
    """The names of a node's attributes whose type is written in the text."""

    def __init__(self, layout: Layout, node: int) -> None:
        self._layout, self._node = layout, node

    def __contains__(self, name: object) -> bool:
        return self._layout.tokens[self._layout.attribute_token(self._node, str(name)) + 1].text == ":"

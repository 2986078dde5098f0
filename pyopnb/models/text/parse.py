"""Models read from ONNX's text form."""

from __future__ import annotations

import functools
import re
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto, numpy_helper

from pyopnb.errors import ModelError
from pyopnb.models.build import ints_to_floats, type_outputs
from pyopnb.models.external_data import is_external
from pyopnb.models.opsets import import_domains
from pyopnb.models.tensors import tensors
from pyopnb.models.text.notes import apply_notes, nodes_of_text
from pyopnb.models.text.printer import DEEPEST, TEXT_NAMES, quote
from pyopnb.models.text.tokens import BLANK, QUOTED, TextLayout, Token
from pyopnb.models.text.validate import GraphFault, find_faults, tensor_fault
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.messages import closest, hide_internal_frames, sanitize

__all__ = ["check_graph", "complete", "parse", "read_text"]

_OUR_NAMES = {row.name: TEXT_NAMES[row.onnx] for row in DTYPES if row.name != TEXT_NAMES[row.onnx]}
"""Our names of dtypes that the text form spells otherwise. Each is at least as long as ONNX's, so no column changes."""

_DTYPES = {**{name: name for name in TEXT_NAMES.values()}, **_OUR_NAMES}
"""The text form's names of dtypes, by themselves and by ours."""

_PIECES = re.compile(
    rf"(?P<skipped>{QUOTED}|\#[^\n]*+|=>)|\b(?P<dtype>{'|'.join(_OUR_NAMES)})(?=\s*\[)|\[\s*(?P<any>\.\.\.)\s*\]",
    re.ASCII | re.DOTALL,
)
_BRACKETS = re.compile(
    rf"{QUOTED}|\#[^\n]*+|=>|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])", re.ASCII | re.DOTALL
)
_BLANKS = re.compile(f"{BLANK}*+", re.ASCII)
_HEADER = re.compile(rf"<(?:{QUOTED}|\#[^\n]*+|[^>\"\#])*+>", re.ASCII | re.DOTALL)
_PARSER_MESSAGE = re.compile(
    r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context: .*\n(.*)", re.DOTALL
)
_MAX_BRACKETS = 4 * DEEPEST
"""Depth of brackets; a graph needs two. The parser recurses, and would end the process at some thousands."""

_EXAMPLE = "(float[N,3] x) => (float[N,3] y) { y = Abs(x) }"
_NOTATION = '(float[N] a, float[N] b) => (y) { y = domain.Op<alpha = 0.5, mode = "linear">(a, b) }'


@hide_internal_frames
@functools.partial(check_arguments, but=("text",))
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
    mean the reverse in the notation of hints, are refused. ``#`` begins a comment, and ``#@`` a doc string or
    metadata, as `text` writes them. An int where ONNX's own operator has a float attribute is that float, unless its type is
    written (``alpha: int = 2``). The values of a tensor of float16, bfloat16 or float8 are the integers that their bits are.

    Examples
    --------
    >>> m = parse("(float[N] x) => (y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }", name="clipper")
    >>> m.graph.name, [n.op_type for n in m.graph.node], [e.domain for e in m.opset_import]
    ('clipper', ['Abs', 'SoftClip'], ['', 'demo'])
    >>> parse("(float[N] x) => (y) { y = Softmx(x) }")
    Traceback (most recent call last):
    pyopnb.errors.ModelError: line 1, column 27, in `(float[N] x) => (y) { y = Softmx(x) }`, op Softmx: expected an op of
    ONNX, got Softmx. Try: Softmax
    """
    model, layout = read_text(_check(text), "graph" if name is None else name)
    check_graph(model, layout)
    complete(model, layout)
    return model


def read_text(text: str, name: str) -> tuple[ModelProto, TextLayout]:
    """Read a text without checking the graph or adding what the text need not say.

    Parameters
    ----------
    text, name
        As for `parse`.

    Returns
    -------
    tuple of ModelProto and TextLayout
    """
    # onnx's parser reads the text; what it does not say or check is added and checked here.
    model = _parse(text, name)
    _pack(model)
    layout = TextLayout(text)
    apply_notes(model, layout)
    return model, layout


def check_graph(model: ModelProto, layout: TextLayout) -> None:
    """Refuse what no graph may have.

    Parameters
    ----------
    model : ModelProto
        It is given the imports that its text need not have.
    layout : TextLayout
        The text that it was read from, for the lines of errors.

    Raises
    ------
    ModelError
    """
    import_domains(model)
    fault = next(find_faults(model), None)
    if fault is not None:
        where = f"{layout.where(_place(fault, layout))}, {fault.what}"
        raise ModelError(where, expected=fault.expected, got=fault.got, next=fault.next)


def complete(model: ModelProto, layout: TextLayout | None = None) -> None:
    """Add to a model what its text need not say.

    Parameters
    ----------
    model : ModelProto
        It is changed.
    layout : TextLayout, optional
        The text that it was read from: an int whose type is written there stays an int.
    """
    import_domains(model)
    for number, node in enumerate(nodes_of_text(model)):
        typed = () if layout is None else _TypedAttributes(layout, number)
        ints_to_floats(node, typed)
    type_outputs(model)


# ---- reading -----------------------------------------------------------------------------------------------------------------


def _check(text: Any) -> str:
    if not isinstance(text, str):
        raise ModelError("text", expected=f"a str, as {_EXAMPLE}", got=type(text).__name__)
    # onnx's parser would stop at a zero without a word, and takes UTF-8 only.
    wrong = re.search("[\0\ud800-\udfff]", text)
    if wrong is not None:
        where = TextLayout(text).where(wrong.start())
        raise ModelError(
            where,
            expected="characters that UTF-8 has, and no zero",
            got=f"the character {ord(wrong[0]):#x}",
        )
    if _BLANKS.fullmatch(text):
        raise ModelError(
            "text", expected="a graph in ONNX's text form", got="nothing", next=_EXAMPLE
        )
    depth = 0
    # Brackets are counted first, as the parser recurses into them and would end the process.
    for match in _BRACKETS.finditer(text):
        depth += (match["open"] is not None) - (match["close"] is not None and depth > 0)
        if depth > _MAX_BRACKETS:
            raise _too_deep(TextLayout(text).where(match.start()))
    return text


def _too_deep(where: str) -> ModelError:
    return ModelError(
        where,
        expected=f"graphs and types nested at most {DEEPEST} deep",
        got="more than a ModelProto can hold",
    )


def _parse(text: str, name: str) -> ModelProto:
    """Parse a text without adding or checking anything."""
    import onnx.parser

    at = _start(text)
    if text[at : at + 1] == "(":
        graph_name = f"{quote(name)} "
    else:
        graph_name = ""
    respelled = _respell(text[:at]) + graph_name + _respell(text[at:])
    try:
        # The text is the user's own, spelled as onnx wants it, so that lines and columns stay.
        return onnx.parser.parse_model(respelled)
    except DecodeError:
        raise _too_deep("text") from None
    except (onnx.parser.ParseError, IndexError, ValueError, RuntimeError) as error:
        if error.args:
            message = error.args[0]
        else:
            message = None
        if isinstance(message, bytes):
            match = _PARSER_MESSAGE.fullmatch(message.decode(errors="replace"))
        else:
            match = None
        if match is None:
            # std::stod and its like do not say where they failed.
            raise ModelError(
                "text", expected="numbers that their types can hold", got=type(error).__name__
            ) from error
        position = TextLayout(respelled).place(int(match[1]), int(match[2]))
        if position >= at:
            position = max(at, position - len(graph_name))
        _refuse(TextLayout(text), position, match[3])


def _start(text: str) -> int:
    """Find where the graph begins, after a header."""
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
        if empty:
            return match[0]
        return _OUR_NAMES[match[0]].ljust(len(match[0]))
    if match["any"]:
        return match[0].replace("...", "   ")
    return match[0]


def _refuse(layout: TextLayout, position: int, message: str) -> NoReturn:
    """Raise the parser's error with the line at fault and a caret under the place."""
    number = layout.at(position)
    if number is None:
        token = None
    else:
        token = layout.tokens[number]
    previous = layout.tokens[(len(layout.tokens) if number is None else number) - 1]
    expected = _expected(message)
    remedy: str | None = _NOTATION
    misread = _dtype_at(layout, number, message)
    if misread is not None and misread.text in _OUR_NAMES:
        token, expected = misread, "a type"
        remedy = f"{_OUR_NAMES[misread.text]} for a scalar, {misread.text}[...] for any rank"
    elif misread is not None:
        token = misread
        expected = f"one of the dtypes {', '.join(TEXT_NAMES.values())}"
        remedy = closest(misread.text, TEXT_NAMES.values())
    elif message.startswith("Unhandled keyword") and number:
        token = layout.tokens[number - 2]
    elif message.startswith(("Expected character", "Identifier", "Encountered")):
        # Here the parser stops at what it complains of.
        pass
    elif previous.kind in ("number", "string", "word"):
        # The parser has read past what it complains of.
        token = previous
    if token is None:
        position = len(layout.text.rstrip())
    else:
        position = token.start
    if token is None:
        got = "the end of the text"
    else:
        got = sanitize(token.text, 60).replace("\n", "\\n")
    error = ModelError(layout.where(position), expected=expected, got=got, next=remedy)
    error.add_note(layout.caret(position))
    raise error from None


def _expected(message: str) -> str:
    """Say in our words what onnx's parser expected."""
    match = re.fullmatch(r"Expected character (.) not found\.", message)
    if match is not None:
        return f"`{match[1]}`"
    if message.startswith("Identifier expected"):
        return "a name"
    if message.startswith("Integer value expected"):
        return "an integer"
    if message.startswith("String value expected"):
        return "a string in double quotes"
    return f"ONNX's text form (onnx says: {sanitize(' '.join(message.split())).rstrip('.!')})"


def _dtype_at(layout: TextLayout, number: int | None, message: str) -> Token | None:
    """Return the unknown word where a type should be: the parser takes it for a name and fails at the next token."""
    tokens = layout.tokens
    if number is None or number < 2 or not message.startswith("Expected character"):
        return None
    # An unknown dtype is read as a name, so the parser complains of what comes behind it.
    word, token, opening = tokens[number - 1], tokens[number], tokens[number - 2].text
    in_head = (
        token.inside in ("(", "<")
        and _opener(tokens, number).inside != "{"
        and opening in ("(", "<", ",")
    )
    in_attribute = token.text == "[" and opening == "="
    is_type = word.kind == "word" and (token.name is not None or token.text == "[")
    if is_type and (in_head or in_attribute):
        return word
    return None


def _opener(tokens: list[Token], number: int) -> Token:
    depth = tokens[number].depth
    return next(tokens[n] for n in range(number - 1, -1, -1) if tokens[n].depth < depth)


# ---- after the parser --------------------------------------------------------------------------------------------------------


def _place(fault: GraphFault, layout: TextLayout) -> int:
    if fault.node is None:
        return layout.head(fault.scope, fault.name, outputs=fault.part == "result")
    if fault.part == "op":
        return layout.op(fault.node)
    return int(getattr(layout, fault.part)(fault.node, fault.name))


def _pack(model: ModelProto) -> None:
    """Store the numbers of tensors as ``raw_data``, as `onnx.numpy_helper.from_array` does."""
    rows = {row.onnx: row for row in DTYPES if row.bits}
    for tensor in tensors(model):
        row = rows.get(tensor.data_type)
        # One with too many values, or with wrong ones, is left for the check, which names it.
        if row is None or is_external(tensor) or tensor_fault(tensor) is not None:
            continue
        if row.bits < 8:
            # The parser stores each value of 4 or 2 bits in an element of its own.
            values = np.asarray(tensor.int32_data, np.int64)
            is_int = "int" in row.name
            if is_int:
                array = values.astype(row.numpy)
            else:
                array = values.astype(np.uint8).view(row.numpy)
            array = array.reshape(tuple(tensor.dims))
        else:
            array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


class _TypedAttributes:
    """The names of a node's attributes whose type is written in the text."""

    def __init__(self, layout: TextLayout, node: int) -> None:
        self._layout, self._node = layout, node

    def __contains__(self, name: object) -> bool:
        return (
            self._layout.tokens[self._layout.attribute_token(self._node, str(name)) + 1].text == ":"
        )

"""Models read from the ONNX text form."""

from __future__ import annotations

import functools
import math
import re
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper

from pyopnb.common import messages, sanitize
from pyopnb.engine import (
    DTYPES,
    GraphIndex,
    check_arguments,
    external_files,
    model_building,
    model_faults,
    opset_versions,
    protos,
)
from pyopnb.errors import ModelError
from pyopnb.models.text_form.lines import BLANK, QUOTED, caret, position_of, where
from pyopnb.models.text_form.notes import apply_notes
from pyopnb.models.text_form.printer import DEEPEST, TEXT_NAMES, quote

__all__ = ["complete", "parse", "read_text"]

_OUR_NAMES = {row.name: TEXT_NAMES[row.onnx] for row in DTYPES if row.name != TEXT_NAMES[row.onnx]}
"""Our names of dtypes that the text form spells otherwise.

Each is at least as long as ONNX's, so no column changes.
"""

_PIECES = re.compile(
    rf"{QUOTED}|\#[^\n]*+|=>|\b(?P<dtype>{'|'.join(_OUR_NAMES)})(?=\s*\[\s*[^\s\]])"
    r"|\[\s*(?P<any>\.\.\.)\s*\]",
    re.ASCII | re.DOTALL,
)
_BRACKETS = re.compile(
    rf"{QUOTED}|\#[^\n]*+|=>|(?P<open>[(\[{{<])|(?P<close>[)\]}}>])", re.ASCII | re.DOTALL
)
_BLANKS = re.compile(f"{BLANK}*+", re.ASCII)
_START = re.compile(
    rf"{BLANK}*+(?:<(?:{QUOTED}|\#[^\n]*+|[^>\"\#])*+>{BLANK}*+)?", re.ASCII | re.DOTALL
)
_PARSER_MESSAGE = re.compile(
    r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context: .*\n(.*)", re.DOTALL
)
_MAX_BRACKETS = 4 * DEEPEST
"""The largest depth of brackets; each graph needs two.

The parser recurses, and would end the process at some thousands.
"""

_EXAMPLE = "(float[N,3] x) => (float[N,3] y) { y = Abs(x) }"
_NOTATION = '(float[N] a, float[N] b) => (y) { y = domain.Op<alpha = 0.5, mode = "linear">(a, b) }'


@functools.partial(check_arguments, but=("text",))
def parse(text: str, *, name: str | None = None) -> ModelProto:
    """Read a model from the ONNX text form. A bare graph is enough.

    Parameters
    ----------
    text : str
        ``(float[N,3] x) => (float[N,3] y) { y = demo.SoftClip<limit = 2.0>(x) }``, with or
        without a name before it and a header ``<ir_version: 10, opset_import: ["" : 21]>``
        before that; functions may follow. Missing parts of the header are added: the IR version and
        the version of the ONNX operators that the installed runtime takes, and an import for
        each domain that occurs.
    name : str, optional
        The name of the graph if the text has none; ``graph`` by default.

    Returns
    -------
    ModelProto
        A node that comes before one of its inputs is moved after it.

    Raises
    ------
    ModelError
        The text does not have that form, nests deeper than a model can, or no graph may look like
        that: a name is defined twice or not at all, an operator of the ONNX domains does not
        exist, or a tensor has the wrong number of values. The message shows the line. Ops of other
        domains may be defined later.

    Notes
    -----
    Dtypes may be written as in ``float32[N,3]``, and ``[...]`` is an unknown rank; otherwise types
    are read as the ONNX text form defines them, where ``int64`` is a scalar and ``int64[]`` has an
    unknown rank. ``float32`` and ``float32[]``, which mean the reverse in the notation of hints,
    are refused. ``#`` begins a comment, and ``#@`` a doc string or metadata, as `text` writes them.
    An int for a float attribute of the ONNX operators becomes a float. In a tensor of float16,
    bfloat16 or float8, values are written as the integers with the same bits. Below
    ``#@ as_written: true``, which `text` writes where it matters, nothing is added, converted or
    moved.

    Examples
    --------
    >>> m = parse(
    ...     "(float[N] x) => (y) { a = Abs(x)  y = demo.SoftClip<limit = 2.0>(a) }", name="clipper"
    ... )
    >>> m.graph.name, [n.op_type for n in m.graph.node], [e.domain for e in m.opset_import]
    ('clipper', ['Abs', 'SoftClip'], ['', 'demo'])
    >>> parse("(float[N] x) => (y) { y = Softmx(x) }")
    Traceback (most recent call last):
    pyopnb.errors.ModelError: line 1, column 27, in `(float[N] x) => (y) { y = Softmx(x) }`,
    the node of output 'y' (::Softmx): expected an operator of ONNX, or an op of the registry,
    got ::Softmx. Try: Softmax
    """
    model, as_written = read_text(_check(text), "graph" if name is None else name)
    if as_written:
        _refuse_faults(model, text)
    else:
        complete(model, text)
    return model


def read_text(text: str, name: str) -> tuple[ModelProto, bool]:
    """Read a text without checking the graph or adding the parts that a text may leave out.

    Parameters
    ----------
    text, name
        As for `parse`.

    Returns
    -------
    model : ModelProto
    as_written : bool
        Whether the text says that it leaves nothing out.
    """
    # The onnx parser reads the text. Missing parts are added here, and unchecked ones checked.
    model = _parse(text, name)
    for tensor in protos.tensors(model):
        _pack(tensor, text)
    return model, apply_notes(model, text)


def complete(model: ModelProto, text: str) -> None:
    """Refuse a model with faults, and add the imports and types that its text may leave out.

    Parameters
    ----------
    model : ModelProto
        It is changed, unless it is refused.
    text : str
        The text that it was read from, for the lines of errors.

    Raises
    ------
    ModelError
    """
    opset_versions.import_domains(model)
    _refuse_faults(model, text)
    for scope in (model.graph, *model.functions):
        for node in protos.nodes_in(scope):
            model_building.ints_to_floats(node)
        GraphIndex.sort_nodes(scope)
    model_building.type_outputs(model)


def _refuse_faults(model: ModelProto, text: str) -> None:
    for scope in (model.graph, *model.functions):
        for node in protos.nodes_in(scope):
            for attribute in node.attribute:
                _refuse_mixed_list(attribute, text)
    for fault in model_faults.find_faults(model):
        raise _with_line(fault, text)


# ---- reading -------------------------------------------------------------------------------------


def _check(text: Any) -> str:
    if not isinstance(text, str):
        expected, got = "a str", type(text).__name__
        raise ModelError("text", expected=expected, got=got, next=f"parse({_EXAMPLE!r})")
    # The onnx parser would stop at a zero without a word, and takes UTF-8 only.
    wrong = re.search("[\0\ud800-\udfff]", text)
    if wrong is not None:
        expected, got = (
            "characters that UTF-8 has, and no zero",
            f"the character {ord(wrong[0]):#x}",
        )
        raise ModelError(where(text, wrong.start()), expected=expected, got=got)
    if _BLANKS.fullmatch(text):
        expected = "a graph in the ONNX text form"
        raise ModelError("text", expected=expected, got="nothing", next=_EXAMPLE)
    depth = 0
    # Brackets are counted first, as the parser recurses into them and would end the process.
    for match in _BRACKETS.finditer(text):
        depth += (match["open"] is not None) - (match["close"] is not None and depth > 0)
        if depth > _MAX_BRACKETS:
            raise _too_deep(where(text, match.start()))
    return text


def _too_deep(place: str) -> ModelError:
    expected = f"graphs and types nested at most {DEEPEST} deep"
    return ModelError(place, expected=expected, got="more than a ModelProto can hold")


def _parse(text: str, name: str) -> ModelProto:
    """Parse a text without adding or checking anything."""
    import onnx.parser

    # The graph begins after a header.
    at = _START.match(text).end()  # type: ignore[union-attr]  # it also matches nothing
    graph_name = f"{quote(name)} " if text[at : at + 1] == "(" else ""
    # The text is the user's own, spelled as onnx wants it, so that lines and columns stay.
    head = _PIECES.sub(_respell, text[:at]) + graph_name
    respelled = head + _PIECES.sub(_respell, text[at:])
    try:
        return onnx.parser.parse_model(respelled)
    except DecodeError:
        raise _too_deep("text") from None
    except (onnx.parser.ParseError, IndexError, ValueError, RuntimeError) as error:
        message = error.args[0] if error.args else b""
        match = None
        if isinstance(message, bytes):
            match = _PARSER_MESSAGE.fullmatch(message.decode(errors="replace"))
        if match is None:
            # std::stod and its like do not say where they failed.
            expected, got = "numbers that their types can hold", type(error).__name__
            raise ModelError("text", expected=expected, got=got) from error
        position = position_of(respelled, int(match[1]), int(match[2]))
        if position >= at:
            position = max(at, position - len(graph_name))
        _refuse(text, position, match[3])


def _respell(match: re.Match[str]) -> str:
    """Replace our names of dtypes by ONNX's, and ``[...]`` by ``[]``, without moving columns."""
    if match["dtype"]:
        return _OUR_NAMES[match[0]].ljust(len(match[0]))
    if match["any"]:
        return match[0].replace("...", "   ")
    return match[0]


def _refuse(text: str, position: int, message: str) -> NoReturn:
    """Raise the parser's error with the line at fault and a caret under the place."""
    # An unknown dtype is read as a name, so the parser complains about the text after it.
    words = list(re.finditer(r"[A-Za-z_]\w*", text[:position]))
    advice: str | None = _NOTATION
    expected = f"the ONNX text form (onnx says: {sanitize(' '.join(message.split())).rstrip('.!')})"
    if words and not text[words[-1].end() : position].strip() and "Expected character" in message:
        word = words[-1][0]
        near = messages.closest(word, TEXT_NAMES.values())
        if word in _OUR_NAMES:
            position, expected = words[-1].start(), "a type"
            advice = f"{_OUR_NAMES[word]} for a scalar, {word}[...] for any rank"
        elif near is not None and near != word:
            position, advice = words[-1].start(), near
            expected = f"one of the dtypes {', '.join(TEXT_NAMES.values())}"
    token = re.compile(r"\s*(\w+|\S)").match(text, position)
    got = "the end of the text"
    if token is None:
        # The last line that has text says more than the empty one after it.
        position = len(text.rstrip())
        if text.count("{") > text.count("}"):
            advice = "} at the end"
    if token is not None:
        position, got = token.start(1), sanitize(token[1], 60)
    error = ModelError(where(text, position), expected=expected, got=got, next=advice)
    error.add_note(caret(text, position))
    raise error from None


# ---- after the parser ----------------------------------------------------------------------------


def _with_line(fault: model_faults.ModelFault, text: str) -> ModelError:
    """Return the error of a fault with the line of the name at fault.

    The name is searched after an output of its node first.
    """
    start = 0
    if fault.node is not None:
        output = re.escape(protos.first_output(fault.node))
        node = re.search(rf"(?<!\w){output}\b[^=\n]*=(?!>)", text)
        start = 0 if node is None else node.start()
    error, advice = fault.error, fault.error.next
    if advice is not None and re.fullmatch(r"[\w.:, ]+", advice):
        # The text form separates a domain by a dot.
        advice = advice.replace("::", ".")
    else:
        # It is written in Python, which cannot be typed here.
        advice = None
    where_in_text = f"{_place(text, fault.words[-1], start)}, {error.where}"
    return ModelError(where_in_text, expected=error.expected, got=error.got, next=advice)


def _place(text: str, name: str, start: int = 0) -> str:
    """Return the line and column of a name, the first one after a position."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    match = pattern.search(text, start) or pattern.search(text)
    return where(text, start if match is None else match.start())


def _refuse_mixed_list(attribute: AttributeProto, text: str) -> None:
    """Refuse lists of mixed types and lists of tensors, which only the parser takes, not ONNX."""
    lists = (attribute.ints, attribute.floats, attribute.strings)
    is_mixed = sum(map(bool, lists)) > 1
    is_untyped = attribute.type == AttributeProto.UNDEFINED and not attribute.ref_attr_name
    if is_mixed or is_untyped:
        expected = "one value, or a list of numbers or of strings"
        raise _value_error("attr", attribute.name, expected, "a list of several types", text)


def _value_error(kind: str, name: str, expected: str, got: str, text: str) -> ModelError:
    subject = f"a {kind} of a node"
    if name:
        subject = f"{_place(text, name)}, {kind} {name}"
    return ModelError(subject, expected=expected, got=got)


def _pack(tensor: TensorProto, text: str) -> None:
    """Store the numbers of a tensor as ``raw_data``, and refuse numbers that do not fit.

    `onnx.numpy_helper.from_array` stores them in the same way.
    """
    row = next((row for row in DTYPES if row.onnx == tensor.data_type), None)
    if row is None or external_files.is_external(tensor):
        return
    count = math.prod(tensor.dims) * (2 if row.name.startswith("complex") else 1)
    fields = (tensor.int32_data, tensor.int64_data, tensor.uint64_data, tensor.float_data)
    stored = max(map(len, (*fields, tensor.double_data, tensor.string_data)))
    if stored != count:
        raise _value_error("tensor", tensor.name, f"{count} values", str(stored), text)
    # The parser wraps numbers around, and so would NumPy. Floats are written as their bits, and
    # each value of 4 or 2 bits has an element of its own.
    whole = np.array(tensor.uint64_data or tensor.int32_data)
    is_number = "int" in row.name or row.numpy.kind == "b"
    stored_as = np.uint16 if row.bits > 8 else np.uint8
    packed = whole.astype(row.numpy if is_number else stored_as)
    wrong = packed.astype(whole.dtype) != whole
    if not is_number:
        wrong |= whole >= 1 << row.bits
    if wrong.any():
        expected, got = f"values that {row} can hold", str(whole[wrong][0])
        raise _value_error("tensor", tensor.name, expected, got, text)
    if row.bits:
        array = numpy_helper.to_array(tensor)
        if whole.size:
            array = packed.view(row.numpy).reshape(array.shape)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

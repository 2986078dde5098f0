"""Models written in ONNX's text form, so that `parse` gives back a model that computes the same."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import zip_longest
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.errors import InputError, ModelError
from pyopnb.models.external_data import is_external
from pyopnb.models.io import as_proto
from pyopnb.models.nodes import bodies, forget_inferred, walk
from pyopnb.models.tensors import is_repeated, tensors
from pyopnb.models.text.parse import complete, read_text
from pyopnb.models.text.printer import format_model
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames, sanitize

__all__ = ["text"]

_DROPPED = {"metadata": "metadata_props", "docs": "doc_string"}
_DESCRIPTIONS = {
    "doc_string",
    "metadata_props",
    "denotation",
    "quantization_annotation",
    "training_info",
    "configuration",
    "device_configurations",
    "value_info",
}
"""Fields of any message without which it computes the same."""


@hide_internal_frames
@check_arguments
def text(
    model: ModelProto,
    *,
    most: int = 1_000_000,
    drop: Collection[str] = (),
) -> str:
    """Write a model in ONNX's text form, which `parse` reads back as a model that computes the same.

    Parameters
    ----------
    model : ModelProto
        Or what holds one, bytes or a path, as for `Session`.
    most : int
        Values that all tensors of the model may have together in the text.
    drop : collection of {"metadata", "docs"}
        What to leave out everywhere: ``metadata_props``, ``doc_string``.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        There are more values than ``most``, or the model has something that ONNX's text form has no syntax for, as a text that
        is no UTF-8, or a list of graphs. It names the first. The text is read back and compared.
    InputError
        ``drop`` has another word.

    Notes
    -----
    Names, order, doc strings and metadata stay. Those that ONNX's text form has no syntax for stand in comments that begin with
    ``#@``, which onnx's own parser passes over. A comment at the head names what else is left out, as ``training_info``.
    Tensors come back as ``raw_data``, and empty fields as fields that are not set. Types of outputs that `model` or `parse`
    inferred are left out, and inferred again.

    Examples
    --------
    >>> from pyopnb import parse
    >>> model = parse("(float32[N,3] x) => (float32[N,3] y) { y = LeakyRelu<alpha = 0.5>(x) }")
    >>> model.graph.node[0].doc_string = "why"
    >>> print(text(model))
    <
       ir_version: ...,
       opset_import: ["" : ...]
    >
    graph (float[N,3] x) => (float[N,3] y) {
       #@ doc_string: "why"
       y = LeakyRelu <alpha = 0.5> (x)
    }
    >>> parse(text(model)) == model
    True
    """
    # Names that are no text cannot be written as one, which this refuses.
    proto = as_proto(model)
    _check_drop(drop)
    declared = _dropped(proto, {_DROPPED[word] for word in drop})
    # Inferred types are inferred again by whoever reads the text.
    forget_inferred(declared)
    _refuse_unknown_fields(declared)
    _refuse_many(declared, most)
    try:
        written = format_model(declared)
    except UnicodeDecodeError as error:
        # The names were checked above, so only a doc string can be at fault.
        got = sanitize(repr(error.object), 60)
        raise ModelError(
            "model, doc_string", expected="UTF-8", got=got, next='drop=("docs",)'
        ) from None
    return _remarks(declared, written) + written


def _check_drop(drop: Any) -> None:
    """Refuse what is no list of the words that can be dropped."""
    words = drop if isinstance(drop, (list, tuple, set, frozenset)) else [drop]
    if not all(isinstance(word, str) and word in _DROPPED for word in words):
        expected, got = '("metadata", "docs"), or one of them', sanitize(repr(drop), 60)
        raise InputError("drop", expected=expected, got=got, next='drop=("docs",)')


def _dropped(model: ModelProto, names: set[str]) -> ModelProto:
    """Copy a model, without some fields wherever they are."""
    copy = ModelProto()
    copy.CopyFrom(model)
    ahead: list[Any] = [copy] if names else []
    while ahead:
        message = ahead.pop()
        for descriptor, value in message.ListFields():
            if descriptor.name in names:
                message.ClearField(descriptor.name)
            elif descriptor.message_type is not None:
                ahead += [value] if hasattr(value, "ListFields") else list(value)
    return copy


# ---- values ------------------------------------------------------------------------------------------------------------------


def _refuse_many(model: ModelProto, most: int) -> None:
    values = 0
    for tensor in tensors(model):
        values += 0 if tensor.data_location == TensorProto.EXTERNAL else math.prod(tensor.dims)
        if values > most:
            raise ModelError(
                f"tensor {sanitize(tensor.name)}",
                expected=f"at most {most} values in all tensors of the model together",
                got=f"{values} up to this one",
                next="pyopnb.save(model, path, external_data=True), and its text; or pyopnb.text(model, most=…)",
            )


# ---- reading back ------------------------------------------------------------------------------------------------------------


def _remarks(declared: ModelProto, written: str) -> str:
    """Read a text back; return the comments that say what it leaves out, and that `parse` refuses it if it does."""
    expected = "what ONNX's text form can hold"
    for scope in (declared.graph, *(body for site in walk(declared) for body in bodies(site.node))):
        if scope.sparse_initializer:
            raise ModelError("model", expected=expected, got="a sparse initializer")
    try:
        copy = read_text(written, "graph")
    except ModelError as error:
        got = str(error).rstrip(".")
        expected = "what the installed onnx can read back"
        raise ModelError("model", expected=expected, got=got) from error
    # All that decides what a model computes is in its text, so that equal texts are equal models.
    for line, again in zip_longest(written.split("\n"), format_model(copy).split("\n")):
        if line != again:
            got = f"{sanitize(str(line).strip(), 200)}, which onnx reads otherwise"
            raise ModelError("model", expected=expected, got=got)
    if _numbers(declared) != _numbers(copy):
        raise ModelError("model", expected=expected, got="numbers that do not come back")
    remark = ""
    before, after = _descriptions(declared), _descriptions(copy)
    losses = [path for path, values in before.items() if values != after.get(path)]
    if losses:
        remark = f"# Left out: {', '.join(losses)}\n"
    try:
        complete(copy, written)
    except ModelError as error:
        # The text of a model that cannot run helps to see why.
        remark += f"# parse refuses this model: {' '.join(str(error).split())}\n"
    return remark


def _descriptions(model: ModelProto) -> dict[str, list[str]]:
    """Return what only describes a model, by the path of its field."""
    descriptions: dict[str, list[str]] = {}
    waiting: list[tuple[Any, str, bool]] = [(model, "", False)]
    while waiting:
        message, path, is_inside = waiting.pop()
        inner_messages: list[tuple[Any, str, bool]] = []
        for field, value in message.ListFields():
            items = value if is_repeated(field) else [value]
            field_path = path if is_inside else f"{path}.{field.name}".lstrip(".")
            # The text form has only identifiers for the names of graphs in attributes.
            describes = is_inside or field.name in _DESCRIPTIONS or field_path.endswith(".g.name")
            if field.message_type is not None:
                inner_messages += [(item, field_path, describes) for item in items]
            elif describes:
                descriptions.setdefault(field_path, []).extend(str(item) for item in items if item)
        waiting += reversed(inner_messages)
    return descriptions


def _numbers(model: ModelProto) -> list[str]:
    """Write all floats and tensors of a model; a NaN is like any other."""
    numbers = []
    for tensor in tensors(model):
        if not is_external(tensor):
            numbers.append(repr(numpy_helper.to_array(tensor).tolist()))
    for site in walk(model):
        numbers += [repr((attribute.f, *attribute.floats)) for attribute in site.node.attribute]
    return numbers


def _refuse_unknown_fields(model: ModelProto) -> None:
    """Refuse fields of a newer onnx, of which nobody here knows what they mean."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.DiscardUnknownFields()
    # Whatever is unknown goes when it is discarded, which the size shows.
    if copy.ByteSize() != model.ByteSize():
        expected = f"the fields that onnx {onnx.__version__} knows"
        raise ModelError(
            "model", expected=expected, got="a field of a newer onnx", next="pip install -U onnx"
        )

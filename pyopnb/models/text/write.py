"""Models written in ONNX's text form, so that `parse` gives back a model that computes the same."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from pyopnb.errors import InputError, ModelError
from pyopnb.models.holders import held_model
from pyopnb.models.names import check_names
from pyopnb.models.nodes import forget_inferred
from pyopnb.models.tensors import tensors
from pyopnb.models.text.losses import find_losses
from pyopnb.models.text.parse import check_graph, complete, read_text
from pyopnb.models.text.printer import format_model
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest

__all__ = ["text"]

_DROPPED = {"metadata": "metadata_props", "docs": "doc_string"}
_INLINE = 64
"""Values of a tensor that stays in the text, where others go to a file."""


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
        Or what holds one, as for `Session`.
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
    model, _ = held_model(model)
    if type(model) is not ModelProto:
        raise ModelError("model", expected="a ModelProto", got=type(model).__name__)
    if not model.HasField("graph"):
        got = "a ModelProto without a graph"
        raise ModelError("model", expected="a ModelProto", got=got)
    # Names that are no text cannot be written as one.
    check_names(model, "model")
    _check_drop(drop)
    declared = _dropped(model, {_DROPPED[word] for word in drop})
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
    listed = isinstance(drop, Collection) and not isinstance(drop, (str, bytes, np.ndarray))
    if listed:
        wrong = [word for word in drop if not (isinstance(word, str) and word in _DROPPED)]
    else:
        wrong = [drop]
    if wrong:
        expected, got = '("metadata", "docs"), or one of them', sanitize(repr(wrong[0]), 60)
        raise InputError("drop", expected=expected, got=got, next=_advise(wrong[0]))


def _advise(word: Any) -> str:
    return f'drop=("{suggest(str(word), _DROPPED)}",)'


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
    try:
        copy, layout = read_text(written, "graph")
    except ModelError as error:
        raise ModelError(
            "model", expected="what the installed onnx can read back", got=str(error).rstrip(".")
        ) from error
    try:
        check_graph(copy, layout)
        refusal = ""
    except ModelError as error:
        # The text of a model that cannot run helps to see why.
        refusal = f"# parse refuses this model: {' '.join(str(error).split())}\n"
    # `parse` adds what a text need not say, so it is added to both before they are compared.
    original = ModelProto()
    original.CopyFrom(declared)
    complete(original)
    complete(copy)
    forget_inferred(original)
    forget_inferred(copy)
    losses = find_losses(original, copy)
    if losses:
        left_out = f"# Left out: {', '.join(losses)}\n"
    else:
        left_out = ""
    return left_out + refusal


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

"""Write models in the ONNX text form, which `parse` turns into models that compute the same."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine import check_arguments, external_files, model_files, model_tensors, protos
from pyopnb.errors import InputError, ModelError
from pyopnb.models.text_form.notes import AS_WRITTEN
from pyopnb.models.text_form.parse import complete, read_text
from pyopnb.models.text_form.printer import format_model

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


@check_arguments
def text(
    model: ModelProto,
    *,
    most: int = 1_000_000,
    drop: Collection[str] = (),
) -> str:
    """Write a model in the ONNX text form, which `parse` turns into a model that computes the same.

    Parameters
    ----------
    model : ModelProto
        Or bytes, a path, or an object that holds a model, as for `Session`.
    most : int
        The largest number of tensor values in the text, over all tensors of the model.
    drop : collection of {"metadata", "docs"}
        Fields to leave out everywhere: ``metadata_props``, ``doc_string``.

    Returns
    -------
    str
        It ends with a newline.

    Raises
    ------
    ModelError
        There are more values than ``most``, or the model has something that the ONNX text form
        cannot express, such as a string that is not UTF-8 or a list of graphs. The message names
        the first of these. Every text is read back and compared.
    InputError
        ``drop`` has an unknown word.

    Notes
    -----
    Names, order, doc strings and metadata are kept. If the ONNX text form has no syntax for one of
    them, it is written as a comment that begins with ``#@``, which the onnx parser skips. A
    comment at the top names anything that is left out, such as ``training_info``. Tensors come back
    as ``raw_data``, and empty fields as unset fields. Types of outputs that `model` or `parse`
    inferred are left out and inferred again.

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
    proto = model_files.as_proto(model)
    _check_drop(drop)
    given = _dropped(proto, {_DROPPED[word] for word in drop})
    _refuse_unknown_fields(given)
    _refuse_many(given, most)
    # Inferred types are inferred again when the text is read.
    declared = ModelProto()
    declared.CopyFrom(given)
    protos.forget_inferred(declared)
    try:
        written = format_model(declared)
        refusal, as_written = _completion(given, written)
        if as_written:
            declared = given
            written = f"{AS_WRITTEN}\n{format_model(declared)}"
    except UnicodeDecodeError as error:
        # The names were checked above, so only a doc string can be at fault.
        got = sanitize(repr(error.object), 60)
        raise ModelError(
            "model, doc_string", expected="UTF-8", got=got, next='drop=("docs",)'
        ) from None
    losses = _losses(declared, _read_back(written))
    if losses:
        return f"# Left out: {', '.join(losses)}\n{refusal}{written}"
    return refusal + written


def _check_drop(drop: Any) -> None:
    """Refuse a value that is not a list of the words that ``drop`` takes."""
    words = drop if isinstance(drop, (list, tuple, set, frozenset)) else [drop]
    if not all(isinstance(word, str) and word in _DROPPED for word in words):
        expected, got = '("metadata", "docs"), or one of them', sanitize(repr(drop), 60)
        raise InputError("drop", expected=expected, got=got, next='drop=("docs",)')


def _dropped(model: ModelProto, names: set[str]) -> ModelProto:
    """Copy a model, leaving out some fields everywhere."""
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


# ---- values --------------------------------------------------------------------------------------


def _refuse_many(model: ModelProto, most: int) -> None:
    values = 0
    for tensor in model_tensors.tensors(model):
        values += 0 if tensor.data_location == TensorProto.EXTERNAL else math.prod(tensor.dims)
        if values > most:
            raise ModelError(
                f"tensor {tensor.name}",
                expected=f"at most {most} values in all tensors of the model together",
                got=f"{values} up to this one",
                next=(
                    "pyopnb.save(model, path, external_data=True), and its text; "
                    "or pyopnb.text(model, most=…)"
                ),
            )


# ---- reading back --------------------------------------------------------------------------------


def _completion(given: ModelProto, written: str) -> tuple[str, bool]:
    """Return a comment if `parse` refuses a model, and whether it would complete the model."""
    completed = ModelProto()
    completed.CopyFrom(given)
    try:
        complete(completed, written)
    except ModelError as error:
        # The text of a model that cannot run helps to see why.
        return f"# parse refuses this model: {' '.join(str(error).split())}\n", False
    before, after = (m.SerializeToString(deterministic=True) for m in (given, completed))
    return "", before != after


def _read_back(written: str) -> ModelProto:
    try:
        return read_text(written, "graph")[0]
    except ModelError as error:
        got = str(error).rstrip(".")
        expected = "what the installed onnx can read back"
        raise ModelError("model", expected=expected, got=got) from error


def _losses(original: ModelProto, copy: ModelProto) -> list[str]:
    """List the descriptions that a model, which is changed, lost on its way through a text.

    Raises
    ------
    ModelError
        The two compute different things.
    """
    # Most texts bring everything back as it was, but that the parser gives each node a domain, and
    # to look at each field takes as long as to write it.
    for model in (original, copy):
        for site in protos.walk(model):
            if site.node.HasField("domain") and not site.node.domain:
                site.node.ClearField("domain")
    if original.SerializeToString(deterministic=True) == copy.SerializeToString(deterministic=True):
        return []
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    _strip(original, "", before)
    _strip(copy, "", after)
    if original.SerializeToString(deterministic=True) != copy.SerializeToString(deterministic=True):
        got = f"{_lost_field(original, copy)} that does not come back"
        raise ModelError("model", expected="something that the ONNX text form can express", got=got)
    return [path for path, values in before.items() if values != after.get(path)]


def _strip(message: Any, path: str, descriptions: dict[str, list[str]]) -> None:
    """Take the descriptions out of a message, and normalize fields that can be written two ways."""
    for field, value in message.ListFields():
        field_path = f"{path}.{field.name}".lstrip(".")
        # The text form has only identifiers for the names of graphs in attributes.
        is_inner_name = field.name == "name" and path.endswith(".g")
        if field.name in _DESCRIPTIONS or is_inner_name:
            kept = descriptions.setdefault(field_path, [])
            for item in value if model_tensors.is_repeated(field) else [value]:
                if isinstance(item, Message):
                    _strip(item, "", {})
                kept.append(str(item))
            message.ClearField(field.name)
        elif field.message_type is not None:
            for item in value if model_tensors.is_repeated(field) else [value]:
                _strip(item, field_path, descriptions)
            # An empty message and none at all mean the same, but for the shape of a scalar.
            if (
                field.name != "shape"
                and not model_tensors.is_repeated(field)
                and not value.ByteSize()
            ):
                message.ClearField(field.name)
        elif field.name == "floats":
            value[:] = [number if number == number else math.nan for number in value]
        elif not model_tensors.is_repeated(field) and repr(value) == repr(field.default_value):
            # So do a field with its default and one that is not set.
            message.ClearField(field.name)
        elif isinstance(value, float) and math.isnan(value):
            setattr(message, field.name, math.nan)
    if isinstance(message, TensorProto) and not external_files.is_external(message):
        name = message.name if path.endswith("initializer") else ""
        message.CopyFrom(numpy_helper.from_array(_with_one_nan(message), name))


def _with_one_nan(tensor: TensorProto) -> np.ndarray:
    """Return the values of a tensor, every NaN with the same bits."""
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, KeyError):
        where, got = f"tensor {sanitize(tensor.name)}", "values that do not fit its type and shape"
        raise ModelError(
            where, expected="something that the ONNX text form can express", got=got
        ) from None
    if array.dtype == object:
        return array
    parts = array.reshape(-1)
    if array.dtype.kind == "c":
        parts = parts.view(parts.real.dtype)
    # A signaling NaN makes NumPy warn.
    with np.errstate(invalid="ignore"):
        is_nan = np.isnan(parts.astype(np.float64))
    if is_nan.any():
        parts[is_nan] = np.nan
    return array


def _lost_field(original: ModelProto, copy: ModelProto) -> str:
    for field in original.graph.DESCRIPTOR.fields:
        if repr(getattr(original.graph, field.name)) != repr(getattr(copy.graph, field.name)):
            return f"graph.{field.name}"
    return "a field"


def _refuse_unknown_fields(model: ModelProto) -> None:
    """Refuse fields of a newer onnx, because their meaning is not known."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.DiscardUnknownFields()
    # Unknown fields are gone when they are discarded, which the size shows.
    if copy.ByteSize() != model.ByteSize():
        expected = f"the fields that onnx {onnx.__version__} knows"
        raise ModelError(
            "model", expected=expected, got="a field of a newer onnx", next="pip install -U onnx"
        )

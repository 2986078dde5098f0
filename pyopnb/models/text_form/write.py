"""Write models in the ONNX text form, which `parse` turns into models that compute the same."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine import check_arguments, external_files, model_files, protos
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
    for tensor in protos.tensors(model):
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
    descriptions: dict[str, None] = {}
    lost = _lost_field(original, copy, "", descriptions)
    if lost:
        got = f"{lost} that does not come back"
        raise ModelError("model", expected="something that the ONNX text form can express", got=got)
    return list(descriptions)


def _lost_field(original: Any, copy: Any, path: str, descriptions: dict[str, None]) -> str:
    """Return the first field that decides a result and differs; note descriptions that differ.

    A field that is not set has its default, and each NaN is the same.
    """
    if original.SerializeToString() == copy.SerializeToString():
        return ""
    if isinstance(original, TensorProto) and not external_files.is_external(original):
        return path if _content(original, path) != _content(copy, path) else ""
    for field in original.DESCRIPTOR.fields:
        before, after = getattr(original, field.name), getattr(copy, field.name)
        # 0.0 and -0.0 are equal.
        if field.message_type is None and before == after and field.name not in ("f", "floats"):
            continue
        if not protos.is_repeated(field):
            before, after = [before], [after]
        field_path = f"{path}.{field.name}".lstrip(".")
        # The text form has only identifiers for the names of graphs in attributes.
        is_inner_name = field.name == "name" and path.endswith(".g")
        is_description = field.name in _DESCRIPTIONS or is_inner_name
        lost = field_path if len(before) != len(after) else ""
        if field.name == "shape" and original.HasField("shape") != copy.HasField("shape"):
            # A scalar has an empty shape.
            lost = field_path
        for one, other in zip(before, after, strict=False):
            if field.message_type is not None:
                within = {} if is_description else descriptions
                lost = lost or _lost_field(one, other, field_path, within)
            elif repr(one) != repr(other):
                lost = field_path
        if lost and not is_description:
            return lost
        if lost:
            descriptions[field_path] = None
    return ""


def _content(tensor: TensorProto, path: str) -> tuple[Any, ...]:
    name = tensor.name if path.endswith("initializer") else ""
    return name, tensor.data_type, tuple(tensor.dims), repr(_array(tensor).tolist())


def _array(tensor: TensorProto) -> np.ndarray:
    try:
        array: np.ndarray = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        where, got = f"tensor {sanitize(tensor.name)}", "values that do not fit its type and shape"
        raise ModelError(
            where, expected="something that the ONNX text form can express", got=got
        ) from None
    return array


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

"""Models written in ONNX's text form, so that `parse` gives them back."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from pyopnb.models.holders import held_model
from pyopnb.models.names import check_names
from pyopnb.models.nodes import forget_inferred
from pyopnb.models.tensors import tensors
from pyopnb.models.text.annotate import annotate, annotate_bits
from pyopnb.models.text.parse import complete, read_annotated, read_plain
from pyopnb.models.text.printer import PLACE, format_model
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.atomic_write import atomic_write, check_writable
from pyopnb.ops.dtypes import DTYPES
from pyopnb.ops.errors import ArgumentError, ModelError, hide_internal_frames, sanitize, suggest

__all__ = ["text"]

_DROPPED = {"metadata": "metadata_props", "docs": "doc_string"}
_INLINE = 64
"""Values of a tensor that stays in the text, where others go to a file."""


@hide_internal_frames
@check_arguments
def text(
    model: ModelProto, *, most: int = 1_000_000, drop: Collection[str] = (), weights: str | os.PathLike[str] | None = None
) -> str:
    """Write a model in ONNX's text form, which `parse` reads back as the same model: the two serialize to the same bytes.

    Parameters
    ----------
    model : ModelProto
        Or what holds one, as for `Session`.
    most : int
        Values that all tensors of the model may have together in the text.
    drop : collection of {"metadata", "docs"}
        What to leave out everywhere: ``metadata_props``, ``doc_string``.
    weights : path, optional
        Write the values of tensors of more than 64 numbers to this file, which the text then names as ONNX's external data.
        ``parse(text, weights=…)`` reads them back in; ``Session(parse(text), base_dir=…)`` runs without.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        There are more values than ``most``, or something in the model cannot come back through a text: a field that the
        installed onnx does not know … It names the first. The text is read back and compared.
    ArgumentError
        ``drop`` has another word.

    Notes
    -----
    What ONNX's text form has no place for stands in comments that begin with ``#@``, which onnx's own parser passes over; the
    how-to page on the text form lists them. Types of outputs that `model` or `parse` inferred are left out, and inferred again.

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
    if not isinstance(model, ModelProto) or not model.HasField("graph"):
        got = "a ModelProto without a graph" if isinstance(model, ModelProto) else type(model).__name__
        raise ModelError("model", expected="a ModelProto", got=got)
    check_names(model, "model")
    _check_drop(drop)
    if weights is not None:
        check_writable(Path(os.fspath(weights)))
    whole = _dropped(model, {_DROPPED[word] for word in drop})
    declared = ModelProto()
    declared.CopyFrom(whole)
    forget_inferred(declared)
    printed = declared
    if weights is not None:
        printed = ModelProto()
        printed.CopyFrom(declared)
        _move_out(printed, Path(os.fspath(weights)))
    _refuse_many(printed, most)
    try:
        return _annotated(whole, declared, format_model(printed), weights)
    except UnicodeDecodeError as error:  # names are checked, words are left
        got = sanitize(repr(error.object), 60)
        raise ModelError("model, doc_string", expected="UTF-8", got=got, next='drop=("docs",)') from None


def _check_drop(drop: Any) -> None:
    """Refuse what is no list of the words that can be dropped."""
    listed = isinstance(drop, Collection) and not isinstance(drop, (str, bytes, np.ndarray))
    wrong = [word for word in drop if not (isinstance(word, str) and word in _DROPPED)] if listed else [drop]
    if wrong:
        expected, got = '("metadata", "docs"), or one of them', sanitize(repr(wrong[0]), 60)
        raise ArgumentError("drop", expected=expected, got=got, next=_advise(wrong[0]))


def _advise(word: Any) -> str:
    return f'drop=("{suggest(str(word), _DROPPED)}",)'


def _dropped(model: ModelProto, names: set[str]) -> ModelProto:
    if not names:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    ahead: list[Any] = [copy]
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
                next='pyopnb.text(model, weights="weights.bin"), or pyopnb.text(model, most=…)',
            )


def _move_out(model: ModelProto, path: Path) -> None:
    """Write the values of large tensors to a file, and point to them there."""
    kinds = {row.onnx for row in DTYPES if row.bits}
    named = (e.value for t in tensors(model) for e in t.external_data if e.key == "location")
    if any(name == path.name for name in named):
        raise ModelError("weights", expected="another name than that of the model's own external data", got=sanitize(path.name))
    with atomic_write(path) as file:
        at = 0
        for tensor in tensors(model):
            large = math.prod(tensor.dims) > _INLINE and tensor.data_type in kinds and not tensor.HasField("data_location")
            data = _bytes_of(tensor) if large else None
            if data is None:
                continue
            file.stream.write(data)
            for descriptor, _ in tensor.ListFields():
                if descriptor.name.endswith("_data"):
                    tensor.ClearField(descriptor.name)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", path.name), ("offset", str(at)), ("length", str(len(data)))):
                tensor.external_data.add(key=key, value=value)
            at += len(data)


def _bytes_of(tensor: TensorProto) -> bytes | None:
    """The bytes of a tensor; None where it does not have as many as it should."""
    try:
        array = numpy_helper.to_array(tensor)
    except ValueError:
        return None
    return bytes(numpy_helper.from_array(array).raw_data)


# ---- annotating and comparing ------------------------------------------------------------------------------------------------


def _annotated(whole: ModelProto, declared: ModelProto, printed: str, weights: str | os.PathLike[str] | None) -> str:
    """The text with the annotations that it needs, read back and compared."""
    plain = printed.replace(PLACE, "")
    lines = annotate(declared, _read(read_plain, plain, weights))
    written = _put_in(printed, lines)
    for verbatim in (False, True):
        if verbatim:
            lines[0].insert(0, "#@ verbatim")
            written = _put_in(printed, lines)
        again, notes = _read(read_annotated, written, weights)
        if _serialized(again) != _serialized(declared) and any(bits := annotate_bits(declared, again, notes.places)):
            written = _put_in(printed, [a + b for a, b in zip(lines, bits, strict=True)])
            again, notes = _read(read_annotated, written, weights)
        if not verbatim:
            try:
                again = complete(again, notes)
            except ModelError:  # what `parse` does not take from anybody's hand
                continue
        if _is_same(whole, declared, again):
            return written
    where, got = _first_difference(declared, again, "model")
    raise ModelError(where, expected="what a text can hold", got=got)


def _read(read: Any, written: str, weights: str | os.PathLike[str] | None) -> Any:
    try:
        return read(written, "graph", weights)
    except ModelError as error:
        raise ModelError("model", expected="what the installed onnx can read back", got=str(error).rstrip(".")) from error


def _put_in(printed: str, lines: list[list[str]]) -> str:
    """Put lines where the text has places for them, each with the indent of the line below it."""
    first, *rest = printed.split(PLACE)
    parts = [first]
    for those, piece in zip(lines, rest, strict=True):
        indent = parts[-1][parts[-1].rfind("\n") + 1 :]
        parts.append("".join(f"{line}\n{indent}" for line in those) + piece)
    return "".join(parts)


def _is_same(whole: ModelProto, declared: ModelProto, again: ModelProto) -> bool:
    if _serialized(whole) == _serialized(again):
        return True
    if _serialized(whole) == _serialized(declared):
        return False
    # Its outputs have inferred types, and an op was redefined meanwhile: they are inferred as they are now.
    plain = ModelProto()
    plain.CopyFrom(again)
    forget_inferred(plain)
    return _serialized(plain) == _serialized(declared)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _first_difference(a: Any, b: Any, path: str) -> tuple[str, str]:
    """The path of the first field in which two messages differ, and what the first has there."""
    mine, theirs = ({d.name: v for d, v in message.ListFields()} for message in (a, b))
    for name in dict.fromkeys([*mine, *theirs]):
        one: Any = mine.get(name)
        other: Any = theirs.get(name)
        if _is_scalar(one) or _is_scalar(other):
            if repr(one) != repr(other):
                return f"{path}.{name}", "nothing" if one is None else sanitize(repr(one), 80)
            continue
        several = not hasattr(one, "ListFields")
        if several and len(one) != len(other):
            return f"{path}.{name}", f"{len(one)} entries, of which {len(other)} came back"
        for place, (item, there) in enumerate(zip(one, other, strict=True) if several else [(one, other)]):
            where = f"{path}.{name}[{place}]" if several else f"{path}.{name}"
            if _is_scalar(item):
                if repr(item) != repr(there):
                    return where, sanitize(repr(item), 80)
            elif _serialized(item) != _serialized(there):
                return _first_difference(item, there, where)
    return path, "a field that the installed onnx does not know"


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, bytes, int, float))

"""What a model loses when it is written as text: fields that describe it, and nothing that decides what it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper

from pyopnb.errors import ModelError
from pyopnb.models.tensors import is_repeated
from pyopnb.ops.messages import sanitize

__all__ = ["find_losses"]

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

_NAMED = ("graph", "node", "attribute", "initializer", "input", "output", "functions")


def find_losses(original: ModelProto, copy: ModelProto) -> list[str]:
    """List the fields that a model lost on its way through a text.

    Parameters
    ----------
    original : ModelProto
    copy : ModelProto
        The model that was read from the text.

    Returns
    -------
    list of str
        Each field once, as ``graph.node.device_configurations``.

    Raises
    ------
    ModelError
        The two compute different things. It names the first difference.
    """
    losses = dict.fromkeys(_losses(original, copy, "model", ""))
    return list(losses)


def _losses(original: Any, copy: Any, where: str, path: str) -> Iterator[str]:
    """Compare two messages field by field; `path` is the same as `where` without names and numbers."""
    if original.SerializeToString(deterministic=True) == copy.SerializeToString(deterministic=True):
        return
    if isinstance(original, TensorProto):
        if path.endswith("initializer") and original.name != copy.name:
            raise _refusal(where, "a name that did not come back")
        yield from _tensor_losses(original, copy, where)
        return
    for field in original.DESCRIPTOR.fields:
        name = field.name
        before, after = getattr(original, name), getattr(copy, name)
        field_path = f"{path}.{name}".lstrip(".")
        if name in _DESCRIPTIONS:
            if _content(original, name) != _content(copy, name):
                yield field_path
        elif name == "name" and isinstance(original, GraphProto) and path.endswith(".g"):
            # The text form has only identifiers for the names of graphs in attributes.
            if before != after:
                yield "names of graphs in nodes"
        elif is_repeated(field):
            if len(before) != len(after):
                raise _refusal(
                    f"{where}, {name}", f"{len(before)} entries, of which {len(after)} came back"
                )
            for number, (item, item_after) in enumerate(zip(before, after, strict=True)):
                yield from _entry_losses(
                    item, item_after, f"{where}, {_label(name, number, item)}", field_path
                )
        elif field.message_type is not None:
            # An empty message and none at all mean the same.
            yield from _losses(before, after, f"{where}, {_label(name, None, before)}", field_path)
        else:
            yield from _entry_losses(before, after, f"{where}, {name}", field_path)


def _entry_losses(before: Any, after: Any, where: str, path: str) -> Iterator[str]:
    if hasattr(before, "ListFields"):
        yield from _losses(before, after, where, path)
    elif repr(before) != repr(after):
        # 0.0 and -0.0 are equal, and differ here.
        raise _refusal(where, sanitize(repr(before), 80))


def _tensor_losses(original: TensorProto, copy: TensorProto, where: str) -> Iterator[str]:
    """Compare two tensors by their values, in whichever field these are stored."""
    # Type, sizes and place must be the same whatever the values are.
    if _storage(original) != _storage(copy) or original.HasField("segment"):
        raise _refusal(where, "a tensor that is stored in a way of its own")
    if original.name != copy.name:
        yield "names of constants"
    if original.doc_string != copy.doc_string or len(original.metadata_props) != len(
        copy.metadata_props
    ):
        yield "descriptions of tensors"
    if original.data_location == TensorProto.EXTERNAL:
        return
    try:
        before = numpy_helper.to_array(original)
    except (ValueError, TypeError, KeyError):
        # Broken values come back only if they are broken in the same way.
        raise _refusal(where, "values that do not fit its type and shape") from None
    after = numpy_helper.to_array(copy)
    if before.dtype == object:
        if before.tolist() != after.tolist():
            raise _refusal(where, "texts that are no UTF-8")
    elif not _same_but_nan(before, after):
        raise _refusal(where, "numbers that did not come back")


def _storage(tensor: TensorProto) -> tuple[Any, ...]:
    entries = [(entry.key, entry.value) for entry in tensor.external_data]
    return tensor.data_type, list(tensor.dims), tensor.data_location, entries


def _same_but_nan(before: np.ndarray, after: np.ndarray) -> bool:
    """Compare bits, except where both are NaN."""
    if before.tobytes() == after.tobytes():
        return True
    if before.dtype.kind == "c":
        half = np.dtype(f"f{before.dtype.itemsize // 2}")
        before, after = before.ravel().view(half), after.ravel().view(half)
    # A signalling NaN makes NumPy warn.
    with np.errstate(invalid="ignore"):
        both = np.isnan(before.astype(np.float64)) & np.isnan(after.astype(np.float64))
    return before[~both].tobytes() == after[~both].tobytes()


def _label(name: str, number: int | None, item: Any) -> str:
    """Name a part of a model for a message."""
    if name in _NAMED:
        label = getattr(item, "name", "")
    else:
        label = ""
    if label:
        return f"{name} {sanitize(str(label), 60)}"
    if number is None:
        return name
    return f"{name}[{number}]"


def _content(message: Any, field: str) -> Any:
    """Return a description in a form that can be compared."""
    value = getattr(message, field)
    # Bytes where a damaged file's text is no UTF-8.
    if isinstance(value, (str, bytes)):
        return value
    if field == "metadata_props":
        return [(entry.key, entry.value) for entry in value]
    return [item.SerializeToString(deterministic=True) for item in value]


def _refusal(where: str, got: str) -> ModelError:
    return ModelError(where, expected="what ONNX's text form can hold", got=got)

"""What a proto says: its fields as plain Python, whichever way a tensor's values or an empty text are written."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, TensorProto, numpy_helper

__all__ = ["first_difference"]

_UNORDERED = {"opset_import", "metadata_props", "value_info", "functions"}
"""Lists whose order says nothing."""


def first_difference(a: ModelProto, b: ModelProto) -> str | None:
    """The path of the first field where two models say different things; None where they say the same."""
    return _difference(_content(a), _content(b), "model")


def _content(message: Any) -> Any:
    if isinstance(message, TensorProto) and message.data_location != TensorProto.EXTERNAL:
        array = numpy_helper.to_array(message)
        values = array.tolist() if array.dtype == object else array.tobytes()
        return {
            "name": message.name,
            "type": message.data_type,
            "dims": list(message.dims),
            "values": values,
            "doc": message.doc_string,
        }
    if not hasattr(message, "DESCRIPTOR"):
        return (
            repr(message) if isinstance(message, float) else message
        )  # NaN is not equal to itself
    made: dict[str, Any] = {}
    for field, value in message.ListFields():
        if (
            field.is_repeated
            if hasattr(field, "is_repeated")
            else field.label == field.LABEL_REPEATED
        ):
            made[field.name] = [_content(item) for item in value]
            if field.name in _UNORDERED:
                made[field.name].sort(key=repr)
        elif not isinstance(value, (str, bytes, int)) or value:
            made[field.name] = _content(value)
    return made


def _difference(a: Any, b: Any, path: str) -> str | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a | b:
            if key not in a or key not in b:
                return f"{path}.{key}: only in one"
            if found := _difference(a[key], b[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next(
            filter(
                None,
                (
                    _difference(x, y, f"{path}[{n}]")
                    for n, (x, y) in enumerate(zip(a, b, strict=True))
                ),
            ),
            None,
        )
    return (
        None if a == b and type(a) is type(b) else f"{path}: {str(b)[:60]}, expected {str(a)[:60]}"
    )

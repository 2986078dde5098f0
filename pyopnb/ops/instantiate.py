"""What an op at a node promises of its outputs, before anything runs: an instance, and what its hints and ``infer`` say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyopnb.ops.registry import Version
from pyopnb.ops.schema import Schema
from pyopnb.ops.types import ANY, TensorType

__all__ = ["add_note", "instantiate", "promised_types", "resolve_type"]


def instantiate(version: Version, schema: Schema, values: dict[str, Any], where: str) -> object:
    """The instance of a version at a node; what ``__init__`` raises gets a note."""
    kwargs = schema.bind(values, where)
    try:
        return version.cls(**kwargs)
    except BaseException as error:
        add_note(error, f"in {where}, version {version.number}, __init__")
        raise


def promised_types(
    schema: Schema, instance: object, given: Sequence[TensorType | None], count: int, where: str
) -> tuple[TensorType | None, ...]:
    """What an op says of the outputs of a node; None for each it says nothing of. What ``infer`` raises gets a note."""
    try:
        said = schema.infer(instance, given, count, where)
    except BaseException as error:
        add_note(error, f"in {where}, infer")
        raise
    said = said or ()
    return tuple(said[i] if i < len(said) and said[i] != ANY else None for i in range(count))


def resolve_type(promise: TensorType | None, declared: TensorType, given: Sequence[TensorType | None]) -> TensorType | None:
    """The op's word, else the file's, else the dtype of the first input that is there."""
    first = next((t.dtype for t in given if t), None)
    if promise is None:
        return declared if declared.dtype else TensorType(first, None) if first else None
    if promise.dtype is None:
        return TensorType(declared.dtype or first, promise.shape)
    return promise


def add_note(error: BaseException, text: str) -> None:
    """Put a note on an exception once; an exception that takes none goes on without."""
    try:
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    except Exception:  # noqa: S110  # a class can forbid it or break it, and the user's error matters more than the note
        pass

"""An op at a node: its instance, the output types that its hints and ``infer`` declare, and notes on what its code raises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyopnb.ops.op import Version
from pyopnb.ops.schema import Schema
from pyopnb.ops.types import ANY, TensorType

__all__ = ["add_note", "failure_notes", "instantiate", "promised_types", "resolve_type"]


def instantiate(version: Version, schema: Schema, values: dict[str, Any], where: str) -> object:
    """Make the instance of a version at a node.

    Parameters
    ----------
    version : Version
    schema : Schema
        The version's, or one with other attrs.
    values : dict
        The node's attributes.
    where : str
        The node, for errors.

    Returns
    -------
    object

    Raises
    ------
    ModelError
        The attributes do not fit the attrs.
    Exception
        What ``__init__`` raises, with a note that names the node.
    """
    kwargs = schema.bind(values, where)
    try:
        return version.cls(**kwargs)
    except BaseException as error:
        add_note(error, f"in {where}, version {version.number}, __init__")
        raise


def promised_types(
    schema: Schema,
    instance: object,
    given: Sequence[TensorType | None],
    count: int | None,
    where: str,
) -> tuple[TensorType | None, ...]:
    """Return the types that an op declares for a node's outputs, by its hints and ``infer``.

    Parameters
    ----------
    schema : Schema
    instance : object
    given : sequence of (TensorType or None)
        Types of the inputs; None for one that is left out.
    count : int or None
        Number of outputs; None for as many as the op declares.
    where : str
        The node, for errors.

    Returns
    -------
    tuple of (TensorType or None)
        One an output; None where the op declares nothing.

    Raises
    ------
    ResultError
        ``infer`` returned what is no type, or contradicts the hints.
    Exception
        What ``infer`` raises, with a note that names the node.
    """
    try:
        types = schema.infer(instance, given, count or 0, where) or ()
    except BaseException as error:
        add_note(error, f"in {where}, infer")
        raise
    count = len(types) if count is None else count
    return tuple(types[i] if i < len(types) and types[i] != ANY else None for i in range(count))


def resolve_type(
    promise: TensorType | None, declared: TensorType, given: Sequence[TensorType | None]
) -> TensorType | None:
    """Resolve the type of an output: the op's, else the model's, else the first input's dtype.

    Parameters
    ----------
    promise : TensorType or None
        As `promised_types` returns it.
    declared : TensorType
        The model's.
    given : sequence of (TensorType or None)
        Types of the inputs.

    Returns
    -------
    TensorType or None
        None where nothing is known.
    """
    first = next((t.dtype for t in given if t), None)
    if promise is None:
        return declared if declared.dtype else TensorType(first, None) if first else None
    if promise.dtype is None:
        return TensorType(declared.dtype or first, promise.shape)
    return promise


def failure_notes(
    error: BaseException, where: str, schema: Schema, given: Sequence[TensorType | None] | None
) -> list[str]:
    """Write the notes on an exception that ``compute`` raised.

    Parameters
    ----------
    error : BaseException
    where : str
        Node, op and version.
    schema : Schema
    given : sequence of (TensorType or None) or None
        Types of the inputs, None for one that is left out; None if compute was not reached.

    Returns
    -------
    list of str
    """
    inputs = "" if given is None else f", with {schema.describe_inputs(given)}"
    notes = [f"in {where}{inputs}"]
    if (
        isinstance(error, ValueError)
        and not schema.copy_inputs
        and re.search("read-only|WRITEABLE", str(error))
    ):
        notes.append(
            "the inputs of compute are read-only. Try: copy_inputs = True in the class, for copies that can be written"
        )
    return notes


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, once.

    Parameters
    ----------
    error : BaseException
        If its class refuses notes, it stays without.
    text : str
    """
    try:
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    except Exception:  # noqa: S110  # the class can forbid or break it, and the user's error matters more than the note
        pass

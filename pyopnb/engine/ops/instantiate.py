"""Make the instance of an op at a node, and write notes on exceptions of the op's code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyopnb.engine.ops.argument_checks import describe
from pyopnb.engine.ops.op import Version
from pyopnb.engine.ops.op_schema import Schema
from pyopnb.engine.ops.types import TensorType
from pyopnb.errors import DefinitionError

__all__ = ["add_note", "failure_notes", "instantiate"]


def instantiate(version: Version, schema: Schema, values: dict[str, Any], where: str) -> object:
    """Make the instance of a version at a node.

    Parameters
    ----------
    schema : Schema
        The version's, or one with other attrs.
    values : dict
        The node's attributes.
    where : str
        The node, for errors.

    Raises
    ------
    ModelError
        The attributes do not fit the attrs.
    Exception
        The exception of ``__init__``, with a note that names the node.
    """
    arguments = schema.bind(values, where)
    try:
        instance = version.cls(**arguments)
        if not isinstance(instance, version.cls):
            raise DefinitionError(
                f"{where}, class {version.cls.__name__}, __new__",
                expected=f"an instance of {version.cls.__name__}",
                got=describe(instance),
                next="return super().__new__(cls)",
            )
        return instance
    except BaseException as error:
        add_note(error, f"in {where}, version {version.number}, __init__")
        raise


def failure_notes(
    error: BaseException, where: str, schema: Schema, inputs: Sequence[TensorType | None] | None
) -> list[str]:
    """Write the notes on an exception that ``compute`` raised.

    Parameters
    ----------
    where : str
        Node, op and version.
    inputs : sequence of (TensorType or None) or None
        Types of the inputs, None for one that is left out; None if compute was not reached.
    """
    described = "" if inputs is None else f", with {schema.describe_inputs(inputs)}"
    notes = [f"in {where}{described}"]
    if schema.copy_inputs or not isinstance(error, ValueError):
        return notes
    # NumPy says it in both ways.
    if re.search("read-only|WRITEABLE", str(error)):
        notes.append(
            "the inputs of compute are read-only. "
            "Try: copy_inputs = True in the class, for copies that can be written"
        )
    return notes


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, once.

    Parameters
    ----------
    error : BaseException
        If its class refuses notes, it stays without.
    """
    try:
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    # The class can forbid or break it, and the user's error matters more than the note.
    except Exception:  # noqa: S110
        pass

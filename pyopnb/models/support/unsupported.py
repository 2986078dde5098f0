"""Reasons why the installed ONNX Runtime cannot run a node."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MIXED", "WRONG_ATTR", "Unsupported"]

MIXED = "mixed dtypes"
"""The kind of a node whose inputs must share a dtype and do not.

The node has no meaning, and `fill` gives it none.
"""

WRONG_ATTR = "wrong attr"
"""The kind of a node with an attribute that the operator does not have.

Nothing says what it means, so `fill` also leaves the node.
"""


@dataclass(frozen=True)
class Unsupported:
    """The reason why the runtime cannot run a node.

    Attributes
    ----------
    kind, reason : str
        As `MissingNode` has them.
    since : int or None
        The version of the domain that introduced the operator, as the model or, for a
        newer one, ONNX has it.
    kernel : bool
        Whether only a kernel is lacking.
    said : str
        The error of the runtime where it has a kernel and cannot make it.
    """

    kind: str
    reason: str
    since: int | None = None
    kernel: bool = False
    said: str = ""

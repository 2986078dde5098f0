"""What the installed ONNX Runtime lacks for a node."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MIXED", "Misfit", "Unsupported"]

MIXED = "mixed dtypes"
"""The kind of lack of a node whose inputs must have one dtype and do not: it has no meaning, and `fill` gives it none."""


@dataclass(frozen=True)
class Misfit:
    """An input whose type the operator does not take, or not beside another input's.

    Attributes
    ----------
    place : int
    takes : tuple of str
        What the operator takes there, in the runtime's notation.
    other : int or None
        The input that must have the same type.
    kinds : tuple of (str or None)
        The types of all inputs.
    """

    place: int
    takes: tuple[str, ...]
    other: int | None
    kinds: tuple[str | None, ...]


@dataclass(frozen=True)
class Unsupported:
    """What the runtime lacks for a node.

    Attributes
    ----------
    kind, reason : str
        As `MissingNode` has them.
    since : int or None
        The version of the domain that introduced the operator, as the model or, for a newer one, ONNX has it.
    kernel : bool
        Whether only a kernel is lacking.
    misfit : Misfit or None
        The input that is wrong, where it is one.
    """

    kind: str
    reason: str
    since: int | None = None
    kernel: bool = False
    misfit: Misfit | None = None

"""A change between two models: its kind, its place, and the difference."""

from __future__ import annotations

from dataclasses import dataclass

from pyopnb.diffs.arrays.diff import Diff

__all__ = ["KINDS", "Change", "Fact", "NodeAt"]

_OF_NODES = ("changed", "fused", "split", "removed", "added", "rewired")
KINDS = ("input", "output", *_OF_NODES, "weight", "function", "opset")
"""Kinds of changes, in the order of the list."""


@dataclass(frozen=True)
class NodeAt:
    """A node of one of the two models.

    Attributes
    ----------
    place : int
        Its index in the graph.
    op : str
        ``Gelu``, or with a domain ``com.microsoft::BiasGelu``.
    """

    place: int
    op: str
    name: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """One difference: its name, and its text in a and in b; None on a side that lacks it."""

    what: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class Change:
    """One change between two models.

    Attributes
    ----------
    kind : str
        ``changed`` (op or attrs), ``rewired`` (reads other tensors), ``added``, ``removed``;
        ``fused`` (many to one, to fewer or to as many others), ``split`` (one to many); ``weight``;
        ``input``, ``output``, ``function``, ``opset``.
    path : str
        ``""`` in the main graph, else ``"If 'choose', then_branch"`` or
        ``"function local::Twice"``.
    a, b : tuple of NodeAt
        The nodes concerned, of each model; for a weight, its readers.
    facts : tuple of Fact
        What differs, such as an attr with its two values.
    values : Diff or None
        Of a weight that both models have.
    """

    kind: str
    path: str = ""
    a: tuple[NodeAt, ...] = ()
    b: tuple[NodeAt, ...] = ()
    facts: tuple[Fact, ...] = ()
    values: Diff | None = None

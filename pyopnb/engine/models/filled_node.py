"""A node that a stand-in runs, in sessions and in the warning that says so."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FilledNode"]


@dataclass(frozen=True)
class FilledNode:
    """A node that the runtime cannot run, and its stand-in from `fill`, if there is one.

    Attributes
    ----------
    where : str
        The original node as messages name it.
    op : str
        The op that replaces it; empty if there is none.
    reason : str
        What the runtime lacks, and for a node without a stand-in, why there is none.
    """

    where: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"

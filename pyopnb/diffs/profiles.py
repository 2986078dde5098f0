"""What differs between two profiles: nodes that became slower or faster by more than their runs vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyopnb.diffs.base import DiffBase, fit_lines
from pyopnb.models.disjoint_sets import DisjointSets
from pyopnb.ops.messages import sanitize
from pyopnb.traces.profile import NodeProfile, Profile
from pyopnb.traces.spread import Spread, microseconds

__all__ = ["NodeChange", "ProfileDiff", "diff_profiles"]

_CLOCK = 1.0  # microseconds, which ONNX Runtime counts


@dataclass(frozen=True)
class NodeChange:
    """The times of a node in two profiles; of nodes that one side ran as one, and the other apart, those of all of them.

    Attributes
    ----------
    node, op_type : str
        Of b, or of a where only that has it.
    a, b : Spread or None
        None where a profile lacks the node.
    """

    node: str
    op_type: str
    a: Spread | None
    b: Spread | None

    @property
    def verdict(self) -> str:
        """``"slower"``, ``"faster"``, ``"same"``, ``"only in a"`` or ``"only in b"``.

        It is slower or faster if the middle halves of the runs do not overlap, and the medians are over 1 µs apart.
        """
        if self.a is None or self.b is None:
            return "only in b" if self.a is None else "only in a"
        if abs(self.b.median - self.a.median) <= _CLOCK:
            return "same"
        return (
            "slower"
            if self.b.low > self.a.high
            else "faster"
            if self.b.high < self.a.low
            else "same"
        )

    @property
    def ratio(self) -> float | None:
        """Divide the median of b by that of a; None where there are not both, or that of a is 0."""
        return (
            self.b.median / self.a.median
            if self.a is not None and self.b is not None and self.a.median
            else None
        )

    @property
    def cost(self) -> float:
        """Microseconds that b takes more, by the medians."""
        return (self.b.median if self.b else 0.0) - (self.a.median if self.a else 0.0)

    def __str__(self) -> str:
        times = " → ".join(str(side) if side else "none" for side in (self.a, self.b))
        ratio = "" if self.ratio is None else f", {self.ratio:.2f} ×"
        return f"{self.verdict}: {sanitize(self.op_type, 40)} {sanitize(self.node, 60)!r}, {times}{ratio}"


@dataclass(frozen=True, repr=False)
class ProfileDiff(DiffBase):
    """The difference of two profiles, as `pyopnb.diff` finds it. It has no truth value, as a `Diff` has none.

    Attributes
    ----------
    run : NodeChange
        The whole run.
    nodes : tuple of NodeChange
        Nodes of the main graph, those first that changed most.
    """

    _FORMAT = "pyopnb.profile-diff"

    run: NodeChange
    nodes: tuple[NodeChange, ...]

    @property
    def verdict(self) -> str:
        """``"slower"`` or ``"faster"``: the run in b against that in a; ``"same"`` within the spread of the runs."""
        return self.run.verdict

    @property
    def ok(self) -> bool:
        """Tell whether neither the run nor a node is slower in b."""
        return all(change.verdict != "slower" for change in (self.run, *self.nodes))

    def _headline(self) -> list[str]:
        counts = [
            f"{len(some)} {verdict}"
            for verdict in ("slower", "faster", "only in a", "only in b", "same")
            if (some := [change for change in self.nodes if change.verdict == verdict])
        ]
        ratio = "" if self.run.ratio is None else f", {self.run.ratio:.2f} ×"
        return [
            f"{self.verdict}: a run {self.run.a} → {self.run.b}{ratio}",
            f"nodes: {', '.join(counts)}",
        ]

    def __str__(self) -> str:
        return fit_lines(
            [*self._headline(), *(str(change) for change in self.nodes if change.verdict != "same")]
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the nodes as texts: verdict, node, op, median and quartiles of a and of b, ratio, cost.

        Returns
        -------
        list of tuple of str
        """
        return [
            (
                change.verdict,
                sanitize(change.node, 60),
                sanitize(change.op_type, 60),
                "" if change.a is None else str(change.a),
                "" if change.b is None else str(change.b),
                "" if change.ratio is None else f"{change.ratio:.2f}",
                f"{'+' * (change.cost > 0)}{microseconds(change.cost)}",
            )
            for change in self.nodes
        ]

    @classmethod
    def _from_fields(cls, document: Any) -> ProfileDiff:
        diff = super()._from_fields(document)
        if diff.run.a is None or diff.run.b is None:
            raise ValueError("a run that one of the profiles lacks")
        return diff


def diff_profiles(a: Profile, b: Profile) -> ProfileDiff:
    """Compare two profiles; see `pyopnb.diff`.

    Returns
    -------
    ProfileDiff
    """
    changes = sorted(_changes(a, b), key=lambda change: -abs(change.cost))
    return ProfileDiff(NodeChange("the whole run", "", a.wall, b.wall), tuple(changes))


def _changes(a: Profile, b: Profile) -> Iterator[NodeChange]:
    """Nodes of the main graphs by their first outputs; groups that share a node belong together."""
    sides = [[node for node in side.nodes if not node.inside] for side in (a, b)]
    sets: DisjointSets[str] = DisjointSets()
    for node in (*sides[1], *sides[0]):
        for output in node.outputs:
            sets.join(output, node.key)
    groups: dict[str, tuple[list[NodeProfile], list[NodeProfile]]] = {}
    for place, side in enumerate(sides):
        for node in side:
            groups.setdefault(sets.root(node.key), ([], []))[place].append(node)
    for found in groups.values():
        named = found[1] or found[0]
        yield NodeChange(
            ", ".join(node.node for node in named),
            ", ".join(node.op_type for node in named),
            _sum(found[0]),
            _sum(found[1]),
        )


def _sum(nodes: Sequence[NodeProfile]) -> Spread | None:
    return Spread.of(np.sum([node.totals for node in nodes], axis=0)) if nodes else None

"""The difference of two profiles: nodes slower or faster by more than the spread of their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyopnb.common import DisjointSets, sanitize
from pyopnb.diffs.base import DiffBase, fit_lines
from pyopnb.traces import NodeProfile, Profile, Spread

__all__ = ["NodeChange", "ProfileDiff", "diff_profiles"]

# ONNX Runtime reports times in whole microseconds.
_CLOCK = 1.0
_VERDICTS = ("slower", "faster", "only in a", "only in b", "same")


@dataclass(frozen=True)
class NodeChange:
    """The times of a node in two profiles, or of several nodes that one side ran fused.

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
        """Return ``"slower"``, ``"faster"``, ``"same"``, ``"only in a"`` or ``"only in b"``.

        It is slower or faster if the middle halves of the runs do not overlap, and the medians
        are over 1 µs apart.
        """
        if self.a is None:
            return "only in b"
        if self.b is None:
            return "only in a"
        # Medians of noisy runs nearly always differ. Only a gap between the
        # middle halves is a change.
        if abs(self.b.median - self.a.median) > _CLOCK:
            if self.b.low > self.a.high:
                return "slower"
            if self.b.high < self.a.low:
                return "faster"
        return "same"

    @property
    def ratio(self) -> float | None:
        """Divide the median of b by the median of a; None if one is missing or a's is 0."""
        if self.a is None or self.b is None or not self.a.median:
            return None
        return self.b.median / self.a.median

    @property
    def cost(self) -> float:
        """Subtract the median of a from the median of b, in microseconds."""
        cost = 0.0
        if self.b is not None:
            cost += self.b.median
        if self.a is not None:
            cost -= self.a.median
        return cost

    def __str__(self) -> str:
        times = f"{self.a or 'none'} → {self.b or 'none'}{_times(self.ratio)}"
        op_type = sanitize(self.op_type, 40)
        node = sanitize(self.node, 60)
        return f"{self.verdict}: {op_type} {node!r}, {times}"


def _times(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f", {ratio:.2f} ×"


@dataclass(frozen=True, repr=False)
class ProfileDiff(DiffBase):
    """The difference of two profiles, as `pyopnb.diff` finds it.

    Like a `Diff`, it has no truth value.

    Attributes
    ----------
    run : NodeChange
        The whole run.
    nodes : tuple of NodeChange
        Nodes of the main graph, largest change first.
    """

    _FORMAT = "pyopnb.profile-diff"

    run: NodeChange
    nodes: tuple[NodeChange, ...]

    @property
    def verdict(self) -> str:
        """Return ``"slower"`` or ``"faster"`` for the run in b against the run in a, or ``"same"``.

        It is the same within the spread of the runs.
        """
        return self.run.verdict

    @property
    def ok(self) -> bool:
        """Tell whether neither the run nor a node is slower in b."""
        # A faster run must not hide a node that became slower.
        return all(change.verdict != "slower" for change in (self.run, *self.nodes))

    def headline(self) -> list[str]:
        counts = Counter(change.verdict for change in self.nodes)
        listed = [f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict]]
        run = f"{self.verdict}: a run {self.run.a} → {self.run.b}{_times(self.run.ratio)}"
        return [run, f"nodes: {', '.join(listed)}"]

    def __str__(self) -> str:
        changed = [str(change) for change in self.nodes if change.verdict != "same"]
        return fit_lines([*self.headline(), *changed])

    def rows(self) -> list[tuple[str, ...]]:
        """Write the nodes as texts, for a table.

        Returns
        -------
        list of tuple of str
            Verdict, node, op, median and quartiles of a and of b, ratio, cost.
        """
        rows: list[tuple[str, ...]] = []
        for change in self.nodes:
            names = sanitize(change.node, 60), sanitize(change.op_type, 60)
            spreads = str(change.a or ""), str(change.b or "")
            ratio = _times(change.ratio).strip(", ×")
            cost = f"{'+' if change.cost > 0 else ''}{Spread.write(change.cost)}"
            rows.append((change.verdict, *names, *spreads, ratio, cost))
        return rows


def diff_profiles(a: Profile, b: Profile) -> ProfileDiff:
    """Compare two profiles; see `pyopnb.diff`."""
    changes = sorted(_changes(a, b), key=lambda change: -abs(change.cost))
    return ProfileDiff(NodeChange("the whole run", "", a.wall, b.wall), tuple(changes))


def _changes(a: Profile, b: Profile) -> Iterator[NodeChange]:
    """Compare the nodes of the main graphs by their first outputs.

    The runtime may have fused nodes in only one of them, so groups that share a node are merged.
    """
    sets: DisjointSets[str] = DisjointSets()
    for node in (*b.nodes, *a.nodes):
        # The names of nodes change when ONNX Runtime fuses them, the names of their outputs do not.
        for output in node.outputs:
            sets.join(output, node.key)
    groups: dict[str, tuple[list[NodeProfile], list[NodeProfile]]] = {}
    for side, nodes in enumerate((a.nodes, b.nodes)):
        for node in nodes:
            groups.setdefault(sets.root(node.key), ([], []))[side].append(node)
    for group_a, group_b in groups.values():
        names = ", ".join(node.node for node in group_b or group_a)
        op_types = ", ".join(node.op_type for node in group_b or group_a)
        yield NodeChange(names, op_types, _sum(group_a), _sum(group_b))


def _sum(nodes: Sequence[NodeProfile]) -> Spread | None:
    if not nodes:
        return None
    return Spread.of(np.sum([node.totals for node in nodes], axis=0))

"""Which of ONNX Runtime's optimizers changed the numbers of a model, found by runs without some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.traces.steps import Tolerances
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import read_model
from pyopnb.models.nodes import first_output
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.messages import plural, sanitize
from pyopnb.ops.progress import advance, tracking
from pyopnb.runtime.plan import is_op
from pyopnb.traces.optimized_run import OptimizedRun, optimization_levels, run_optimized
from pyopnb.traces.origins import origins

__all__ = ["OptimizerDiff", "find_level", "find_optimizers"]

_NODES_SHOWN = 6


@dataclass(frozen=True)
class OptimizerDiff(Displayable):
    """Which of ONNX Runtime's optimizers changed the numbers of a model.

    Attributes
    ----------
    diff : Diff
        The outputs with all optimisations (a) against those without any (b).
    optimizers : tuple of str
        Those without which the outputs are within the tolerance; empty where nothing differs, or where none accounts for it.
    remaining : Diff or None
        The outputs without these optimizers (a) against those without any (b).
    smallest : bool
        Whether fewer of them were tried and did not do.
    nodes : tuple of str
        What they made of the nodes of the model: ``"conv + relu (Conv + Relu) → FusedConv"``.
    level : str
        The lowest level of optimisation that changes the numbers, where levels were compared; empty otherwise.
    suspects : tuple of str
        The optimizers that changed the graph, or the levels.
    sessions : int
        How many sessions it took.
    """

    diff: Diff
    optimizers: tuple[str, ...] = ()
    remaining: Diff | None = None
    smallest: bool = True
    nodes: tuple[str, ...] = ()
    level: str = ""
    suspects: tuple[str, ...] = ()
    sessions: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether all optimisations leave the outputs within the tolerance."""
        return self.diff.ok

    @property
    def workaround(self) -> str:
        """Return the line of Python that gives the numbers of the unoptimised run; empty where there is none."""
        if self.optimizers:
            return f"pyopnb.Session(model, disabled_optimizers={list(self.optimizers)!r})"
        # The level below is the last one that gave the right numbers.
        if self.level:
            before = "ORT_DISABLE_ALL"
            position = self.suspects.index(self.level)
            if position:
                before = self.suspects[position - 1]
            return f"options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{before}"
        return ""

    def __repr__(self) -> str:
        tried = f"{plural(len(self.suspects), 'suspect')}, {self.sessions} sessions"
        if self.ok:
            return f"no optimizer changes the numbers: {self.diff.verdict} ({tried})"
        lines = [f"all optimisations against none: {_first_line(self.diff)}"]
        if not self.optimizers and not self.level:
            lines.append(
                f'no optimizer that ONNX Runtime names accounts for it ({tried}): over="levels", or a node that is not steady'
            )
            return "\n".join(lines)
        if self.level:
            lines.insert(0, f"{self.level} changes the numbers ({tried})")
        else:
            amount = "" if self.smallest else "; fewer may do"
            lines.insert(
                0, f"{' and '.join(self.optimizers)} changed the numbers ({tried}{amount})"
            )
        if self.remaining is not None:
            lines.append(f"without: {_first_line(self.remaining)}")
        shown = self.nodes[:_NODES_SHOWN]
        lines += [f"  {sanitize(text, 150)}" for text in shown]
        if len(shown) < len(self.nodes):
            lines.append(f"  … and {len(self.nodes) - len(shown)} more")
        lines.append(f"to go on without: {self.workaround}")
        return "\n".join(lines)


def _first_line(diff: Diff) -> str:
    return str(diff).partition("\n")[0]


@dataclass
class _Trials:
    """Runs of one model on the same feeds, each in a session of its own."""

    model: Any
    feeds: Mapping[str, Any]
    tolerances: Tolerances
    sessions: int = 0
    plain: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plain = self.run("ORT_DISABLE_ALL").outputs

    def run(self, level: str, disabled: Sequence[str] = ()) -> OptimizedRun:
        """Run the model at a level of optimisation, with these optimizers disabled."""
        run = run_optimized(self.model, self.feeds, level, disabled)
        self.sessions += 1
        advance("sessions", 1)
        return run

    def compare(self, run: OptimizedRun) -> Diff:
        """Compare the outputs of a run with those of the run without optimisations."""
        return compared(run.outputs, self.plain, *self.tolerances)


def find_optimizers(model: Any, feeds: Mapping[str, Any], tolerances: Tolerances) -> OptimizerDiff:
    """Find the smallest set of optimizers without which the outputs are those of the unoptimised run.

    At most ``2 * log2(n) + 4`` sessions are made, where n optimizers changed the graph: a set is only named after a run
    without it was within the tolerance.
    """
    with tracking("sessions", None):
        trials = _Trials(model, feeds, tolerances)
        full = trials.run("ORT_ENABLE_ALL")
        diff = trials.compare(full)
        names = full.modifying
        # Within the tolerance, or nothing is named that could be disabled.
        if diff.ok or not names:
            return OptimizerDiff(diff, suspects=names, sessions=trials.sessions)
        search = _Search(trials, names)
        smallest = search.smallest()
        names = search.names
        sessions = trials.sessions
    if not smallest:
        return OptimizerDiff(diff, suspects=names, sessions=sessions)
    run = search.good[smallest]
    return OptimizerDiff(
        diff,
        smallest,
        trials.compare(run),
        search.is_smallest,
        nodes=tuple(_changed_nodes(model, full.executed, run.executed)),
        suspects=names,
        sessions=sessions,
    )


class _Search:
    """A search among optimizers for few that must be disabled together."""

    def __init__(self, trials: _Trials, names: Sequence[str]) -> None:
        self.trials, self.names = trials, tuple(names)
        self.good: dict[tuple[str, ...], OptimizedRun] = {}
        # With the names of what changed the graph while these were disabled.
        self.bad: dict[tuple[str, ...], tuple[str, ...]] = {(): self.names}
        self.is_smallest = True

    def suffices(self, disabled: Sequence[str]) -> bool:
        """Tell whether the outputs are right without these; False as well where no session is left to find out."""
        key = tuple(name for name in self.names if name in disabled)
        # What was tried once is not tried again.
        if key in self.good or key in self.bad:
            return key in self.good
        most = math.floor(2 * math.log2(len(self.names))) + 4
        if self.trials.sessions >= most:
            self.is_smallest = False
            return False
        run = self.trials.run("ORT_ENABLE_ALL", key)
        if self.trials.compare(run).ok:
            self.good[key] = run
            return True
        self.bad[key] = run.modifying
        return False

    def smallest(self) -> tuple[str, ...]:
        """Find a set that suffices, as small as the sessions allow; empty where there is none.

        The shortest beginning of the list that suffices ends with an optimizer that is needed. With that one disabled, the
        same is done with what comes before it, until those that are needed suffice by themselves.
        """
        self._search()
        # Where one fusion is off, another one may take its nodes: it is a suspect as well from then on.
        while not self.good and self._learn():
            self._search()
        # What is named was tried, even if no session was left to try less.
        return min(self.good, key=len, default=())

    def _learn(self) -> bool:
        """Add the optimizers that change the graph only without all those that are known; tell whether there are any."""
        modifying = self.bad.get(self.names, ())
        new = [name for name in modifying if name not in self.names]
        self.names += tuple(new)
        return bool(new)

    def _search(self) -> None:
        needed: list[str] = []
        candidates = list(self.names)
        # Mostly one optimizer is to blame, and the first one found suffices.
        while candidates and not self.suffices(needed):
            count = self._shortest(needed, candidates)
            # Where all of them together do not suffice, none of them accounts for the difference.
            if not self.suffices([*needed, *candidates[:count]]):
                break
            needed.append(candidates[count - 1])
            candidates = candidates[: count - 1]

    def _shortest(self, needed: Sequence[str], names: Sequence[str]) -> int:
        """Count how many of the first names suffice together with those that are needed; all of them where less do not."""
        low, high = 1, len(names)
        while low < high:
            # Nobody has tried all of them where less do not suffice: the caller does.
            middle = (low + high) // 2
            if self.suffices([*needed, *names[:middle]]):
                high = middle
            else:
                low = middle + 1
        return high


def _changed_nodes(model: Any, full: GraphProto, without: GraphProto) -> list[str]:
    """Say what became of the nodes that run otherwise with the optimizers than without them."""
    # Labels are those of the user's graph, in which functions with ops are inlined, as in the session.
    source = read_model(model, data=False)
    graph = inline_ops(source.proto, is_op(source.proto, frozenset())).graph
    with_them, without_them = _kernels(graph, full), _kernels(graph, without)
    lines = []
    for indices in sorted(
        with_them.keys() - without_them.keys() | _differing(with_them, without_them)
    ):
        lines.append(f"{_label(graph, indices)} → {' + '.join(with_them[indices])}")
    # A node that no group has any more did not come to run.
    ran = {index for indices in with_them for index in indices}
    ran_before = {index for indices in without_them for index in indices}
    for index in sorted(ran_before - ran):
        lines.append(f"{_label(graph, (index,))} → nothing: folded or eliminated")
    return lines


def _differing(
    a: Mapping[tuple[int, ...], tuple[str, ...]], b: Mapping[tuple[int, ...], tuple[str, ...]]
) -> set[tuple[int, ...]]:
    return {indices for indices in a.keys() & b.keys() if a[indices] != b[indices]}


def _kernels(graph: GraphProto, executed: GraphProto) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Map groups of the model's nodes to the op types of the nodes that run in their place."""
    kernels = {}
    for origin in origins(graph, executed):
        if origin.nodes:
            op_types = [executed.node[index].op_type for index in origin.executed]
            kernels[origin.nodes] = tuple(op_types)
    return kernels


def _label(graph: GraphProto, indices: Sequence[int]) -> str:
    nodes = [graph.node[index] for index in indices]
    names = " + ".join(node.name or first_output(node) for node in nodes)
    return f"{names} ({' + '.join(node.op_type for node in nodes)})"


def find_level(model: Any, feeds: Mapping[str, Any], tolerances: Tolerances) -> OptimizerDiff:
    """Find the lowest level of optimisation that changes the numbers."""
    levels = tuple(optimization_levels())
    with tracking("sessions", len(levels) + 1):
        trials = _Trials(model, feeds, tolerances)
        diffs = []
        for level in levels:
            diffs.append(trials.compare(trials.run(level)))
            if not diffs[-1].ok:
                remaining = diffs[-2] if len(diffs) > 1 else None
                return OptimizerDiff(
                    diffs[-1],
                    remaining=remaining,
                    level=level,
                    suspects=levels,
                    sessions=trials.sessions,
                )
    return OptimizerDiff(diffs[-1], suspects=levels, sessions=trials.sessions)

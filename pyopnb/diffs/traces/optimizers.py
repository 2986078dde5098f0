"""Find the ONNX Runtime optimizers that changed a model's numbers, by runs without some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto

from pyopnb.common import Displayable, plural, progress, sanitize
from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.engine import model_files, model_functions, node_plans, protos
from pyopnb.traces import optimized_run, origins

__all__ = ["OptimizerDiff", "find_optimizers"]

_NODES_SHOWN = 6


@dataclass(frozen=True)
class OptimizerDiff(Displayable):
    """Which of the ONNX Runtime optimizers changed the numbers of a model.

    Attributes
    ----------
    diff : Diff
        The outputs with all optimizations (a) against the outputs without any (b).
    optimizers : tuple of str
        Disabling these brings the outputs within the tolerance; empty if nothing differs, or no
        optimizer explains it.
    remaining : Diff or None
        The outputs without these optimizers (a) against the outputs without any optimizer (b).
    nodes : tuple of str
        How they changed the model's nodes: ``"conv + relu (Conv + Relu) → FusedConv"``.
    suspects : tuple of str
        The optimizers that changed the graph.
    sessions : int
        The number of sessions that were built.
    """

    diff: Diff
    optimizers: tuple[str, ...] = ()
    remaining: Diff | None = None
    nodes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    sessions: int = 0

    @property
    def ok(self) -> bool:
        """Tell whether all optimizations leave the outputs within the tolerance."""
        return self.diff.ok

    @property
    def workaround(self) -> str:
        """Return the line of Python that restores the unoptimized numbers; empty if none does."""
        if not self.optimizers:
            return ""
        return f"pyopnb.Session(model, disabled_optimizers={list(self.optimizers)!r})"

    def __repr__(self) -> str:
        tried = f"({plural(len(self.suspects), 'suspect')}, {self.sessions} sessions)"
        if self.ok:
            return f"no optimizer changes the numbers: {self.diff.verdict} {tried}"
        lines = [f"all optimizations against none: {self.diff.headline()[0]}"]
        if not self.optimizers:
            advice = "pyopnb.stability(model, feeds), or a node that is not steady"
            lines.append(f"no optimizer that ONNX Runtime names accounts for it {tried}: {advice}")
            return "\n".join(lines)
        lines.insert(0, f"{' and '.join(self.optimizers)} changed the numbers {tried}")
        if self.remaining is not None:
            lines.append(f"without: {self.remaining.headline()[0]}")
        for text in self.nodes[:_NODES_SHOWN]:
            # The result of many nodes is shown even where not all of them are.
            nodes, arrow, kernels = text.rpartition(" → ")
            lines.append(f"  {sanitize(nodes, 110)}{arrow}{sanitize(kernels, 60)}")
        if len(self.nodes) > _NODES_SHOWN:
            lines.append(f"  … and {len(self.nodes) - _NODES_SHOWN} more")
        lines.append(f"to go on without: {self.workaround}")
        return "\n".join(lines)


class _Trials:
    """Runs of one model on the same feeds, each in a separate session.

    Attributes
    ----------
    good : dict
        The runs within the tolerance, by the optimizers that were disabled.
    """

    def __init__(self, model: Any, feeds: Mapping[str, Any], tolerances: Tolerances) -> None:
        self.model = model
        self.feeds = feeds
        self.tolerances = tolerances
        self.sessions = 0
        self.good: dict[frozenset[str], optimized_run.OptimizedRun] = {}
        self.plain = self.run("ORT_DISABLE_ALL").outputs

    def run(self, level: str, disabled: Sequence[str] = ()) -> optimized_run.OptimizedRun:
        """Run the model at a level of optimization, with these optimizers disabled."""
        run = optimized_run.run_optimized(self.model, self.feeds, level, disabled)
        self.sessions += 1
        progress.advance("sessions", 1)
        return run

    def compare(self, run: optimized_run.OptimizedRun) -> Diff:
        """Compare the outputs of a run with the run without optimizations."""
        return compared(run.outputs, self.plain, self.tolerances)

    def suffices(self, disabled: Sequence[str]) -> bool:
        """Tell whether disabling some optimizers restores the outputs."""
        key = frozenset(disabled)
        if disabled and key not in self.good:
            run = self.run("ORT_ENABLE_ALL", disabled)
            if self.compare(run).ok:
                self.good[key] = run
        return key in self.good


def find_optimizers(model: Any, feeds: Mapping[str, Any], tolerances: Tolerances) -> OptimizerDiff:
    """Find a small set of optimizers without which the outputs equal the unoptimized run.

    The shortest beginning of the list that suffices ends with an optimizer that is needed. With
    that one disabled, the same is done with the optimizers before it, until the needed ones
    suffice by themselves. Each search halves; a set is only named after a run without it was within
    the tolerance.
    """
    with progress.tracking("sessions", None):
        trials = _Trials(model, feeds, tolerances)
        full = trials.run("ORT_ENABLE_ALL")
        diff = trials.compare(full)
        names = full.modifying
        needed: tuple[str, ...] = ()
        candidates: tuple[str, ...] = ()
        if not diff.ok:
            candidates = names
        # Mostly one optimizer is to blame, and the first one found suffices.
        while candidates and not trials.suffices(needed):
            low = 1
            high = len(candidates)
            while low < high:
                middle = (low + high) // 2
                if trials.suffices((*needed, *candidates[:middle])):
                    high = middle
                else:
                    low = middle + 1
            # If disabling all of them is not enough, none of them explains the difference.
            if not trials.suffices((*needed, *candidates[:high])):
                break
            needed = (*needed, candidates[high - 1])
            candidates = candidates[: high - 1]
    if not trials.good:
        return OptimizerDiff(diff, suspects=names, sessions=trials.sessions)
    # Only optimizers that were tried are named.
    smallest = min(trials.good, key=len)
    run = trials.good[smallest]
    nodes = tuple(_changed_nodes(model, full.executed, run.executed))
    in_order = tuple(name for name in names if name in smallest)
    remaining = trials.compare(run)
    return OptimizerDiff(diff, in_order, remaining, nodes, names, trials.sessions)


def _changed_nodes(model: Any, full: GraphProto, without: GraphProto) -> Iterator[str]:
    """Yield how the optimizers changed the nodes."""
    # Labels come from the user's graph, in which functions with ops are inlined, as in the
    # session.
    source = model_files.read_model(model, data=False)
    graph = model_functions.inline_ops(
        source.proto, node_plans.is_op(source.proto, frozenset())
    ).graph
    with_them = _kernels(graph, full)
    without_them = _kernels(graph, without)
    for indices, kernels in sorted(with_them.items()):
        if without_them.get(indices) != kernels:
            yield f"{_label(graph, indices)} → {' + '.join(kernels)}"
    # A node in no group was optimized away.
    ran = {index for indices in with_them for index in indices}
    for index in sorted({index for indices in without_them for index in indices} - ran):
        yield f"{_label(graph, (index,))} → nothing: folded or eliminated"


def _kernels(graph: GraphProto, executed: GraphProto) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Map groups of the model's nodes to the op types of the nodes that run in their place."""
    kernels = {}
    for origin in origins(graph, executed):
        kernels[origin.nodes] = tuple(executed.node[index].op_type for index in origin.executed)
    # Nodes that ONNX Runtime inserted replace none of the model's nodes.
    kernels.pop((), None)
    return kernels


def _label(graph: GraphProto, indices: Sequence[int]) -> str:
    nodes = [graph.node[index] for index in indices]
    names = " + ".join(node.name or protos.first_output(node) for node in nodes)
    return f"{names} ({' + '.join(node.op_type for node in nodes)})"

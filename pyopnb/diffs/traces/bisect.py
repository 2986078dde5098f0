"""The first divergence of two models, found in few runs that each record few tensors: for models too large to trace."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.traces.align import align
from pyopnb.diffs.traces.compare import TraceComparison
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.half import in_one_precision
from pyopnb.diffs.traces.isolate import Run, as_made, runner
from pyopnb.diffs.traces.optimizers import OptimizerDiff, find_level, find_optimizers
from pyopnb.diffs.traces.precision import precisions
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.diffs.traces.steps import (
    ComparedStep,
    ComparedTensor,
    Tolerances,
    default_stol,
    scales_by_dtype,
    widened,
)
from pyopnb.errors import InputError
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.external_data import take_in_all
from pyopnb.models.io import read_model, to_model
from pyopnb.ops.arguments import check_arguments, check_by_name
from pyopnb.ops.messages import closest, hide_internal_frames, sanitize
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.registry import registry
from pyopnb.runtime.plan import is_op
from pyopnb.traces.elsewhere import other_python
from pyopnb.traces.environments import is_other_runtime
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.trace import Trace

__all__ = ["first_divergence"]


@hide_internal_frames
@check_arguments
def first_divergence(
    a: Any,
    b: Any,
    feeds: Mapping[str, Any] | None = None,
    *,
    over: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    on: str | os.PathLike[str] | tuple[str | os.PathLike[str], ...] = "onnxruntime",
    optimised: bool | tuple[bool, bool] = True,
    at_once: int = 8,
) -> TraceDiff | OptimizerDiff:
    """Find where two models diverge, without holding more than a few of their tensors at a time.

    ``first_divergence(model, feeds, over="optimizers")`` finds which of ONNX Runtime's optimizers changed the numbers of one
    model.

    This is a bisection: both models run repeatedly, each time recording a few tensors in the middle of the nodes that are still
    suspected, so that each pair of runs about halves them. `diff` of two traces, which holds all tensors, says more.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
        May be the same model, run in two ways.
    feeds : mapping
        Arrays by the names of a's inputs; the second argument with ``over``.
    over : {"optimizers", "levels"}, optional
        Compare one model with itself without optimisations, and find the fewest optimizers to disable so that it gives the same
        numbers, or the lowest level of optimisation that changes them.
    rtol, atol, stol : float, optional
        As for `diff`.
    on : str, path or tuple of two
        ``"onnxruntime"``, ``"reference"``, ``"onnxruntime==1.25.0"`` or the path of another Python, as for `trace`; a tuple for
        a and b, which may be the same model.
    optimised : bool or tuple of bool
        Whether ONNX Runtime optimises the graph; a tuple for a and b.
    at_once : int
        How many tensors a run may record.

    Returns
    -------
    TraceDiff
        Its ``origin`` is a node whose inputs agree and an output of which does not, in the last pair of runs, or None if the
        models' outputs agree; ``runs`` is the number of pairs of runs. With ``over``, an OptimizerDiff: ``optimizers`` or
        ``level``, ``nodes`` that they fused or moved, ``diff`` and ``remaining`` (the outputs with and without them, against
        those without any optimisation), and ``workaround``, the line that goes on without them.

    Raises
    ------
    InputError
        The models have no output in common, or ``at_once``, ``on``, ``optimised`` or a tolerance is not valid.

    Notes
    -----
    The search goes from an output that differs back towards the feeds. It misses a node whose error later nodes hide, and of
    several origins it finds one, not always the first. ONNX Runtime does not optimise recorded tensors away, so that what is
    recorded can change how the rest is rounded.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> graph = "(float[N] x) => (float[N] y) { a = Abs(x)  b = Elu<alpha = %s>(a)  c = Neg(b)  y = Elu<alpha = %s>(c) }"
    >>> a, b = (pyopnb.parse(graph % alphas) for alphas in (("1.0", "1.0"), ("1.0", "2.0")))
    >>> diff = first_divergence(a, b, {"x": np.float32([1, 2])})
    >>> diff.origin.name, diff.origin.changes
    ('y (Elu)', ('attr alpha: 1.0 → 2.0',))
    """
    if over is not None:
        if feeds is not None or on != "onnxruntime" or optimised is not True:
            expected, got = "one model and its feeds", "more, or on=, or optimised="
            advice = 'first_divergence(model, feeds, over="optimizers")'
            raise InputError("first_divergence, over", expected=expected, got=got, next=advice)
        return _over(over, a, b, (rtol, atol, stol))
    if feeds is None:
        expected, got = "two models and their feeds, or over=", "no feeds"
        raise InputError("first_divergence, feeds", expected=expected, got=got, next='{"x": x}')
    if not isinstance(at_once, int) or at_once < 1:
        expected = "a number of tensors, at least 1"
        raise InputError("first_divergence, at_once", expected=expected, got=sanitize(at_once))
    on_a, on_b = _pair(on, "on")
    optimised_a, optimised_b = _pair(optimised, "optimised")
    for flag in (optimised_a, optimised_b):
        if not isinstance(flag, (bool, np.bool_)):
            got = sanitize(repr(flag), 80)
            raise InputError("first_divergence, optimised", expected="True or False", got=got)
    sides = _Side(a, on_a, optimised_a), _Side(b, on_b, optimised_b)
    runtimes = sides[0].trace.runtime, sides[1].trace.runtime
    tolerances = rtol, atol, default_stol(runtimes, rtol, atol, stol)
    search = _Search(sides, feeds, tolerances, at_once)
    suspected = len(sides[1].proto.graph.node)
    with tracking("nodes ruled out", suspected):
        # The outputs first: where they agree, no run has to be made to look for a node.
        search.compare(search.outputs())
        while search.bad is not None and (names := search.middle()):
            before, suspected = suspected, len(search.suspects())
            advance("nodes ruled out", before - suspected)
            search.compare(names)
        return search.diff()


def _over(over: str, model: Any, feeds: Any, tolerances: Tolerances) -> OptimizerDiff:
    """Find what in ONNX Runtime's optimisations changed the numbers of a model."""
    check_by_name(feeds, "first_divergence, feeds", '{"x": x}')
    searches = {"optimizers": find_optimizers, "levels": find_level}
    if over not in searches:
        advice = closest(str(over), searches)
        raise InputError(
            "first_divergence, over",
            expected=" or ".join(map(repr, searches)),
            got=sanitize(repr(over), 80),
            next=advice and f'over="{advice}"',
        )
    if tolerances == (None, None, None):
        # Fused kernels add up in another order, as in two traces at different levels.
        tolerances = None, None, True
    return searches[over](model, feeds, tolerances)


def _pair(value: Any, name: str) -> tuple[Any, Any]:
    """Return what holds for a and for b of an argument that may be a tuple."""
    if not isinstance(value, tuple):
        return value, value
    if len(value) != 2:
        got = sanitize(repr(value), 80)
        raise InputError(f"first_divergence, {name}", expected="two, for a and b", got=got)
    return value[0], value[1]


class _Side:
    """A model that can run with any of its tensors as outputs."""

    def __init__(self, model: Any, on: str | os.PathLike[str], optimised: bool) -> None:
        is_elsewhere = is_other_runtime(on, "first_divergence")
        source = read_model(model)
        self.proto = inline_ops(to_model(source), is_op(source.proto, frozenset()))
        self.graph = TraceGraph(self.proto)
        proto, folder = self.proto, source.folder
        if on != "onnxruntime" and folder is not None:
            # The reference evaluator does not look for external data, and it is not in the folder that goes elsewhere.
            take_in_all(proto, folder)
        runtime = "onnx.reference"
        python = None
        if on != "reference":
            # The other one is named as the user names it: it says its version in each trace.
            runtime = f"{os.fspath(on)}, {'all' if optimised else 'no'} optimisations"
        if is_elsewhere:
            python = other_python(on, proto)
        self.trace = Trace(
            proto,
            feeds={},
            values={},
            summaries={},
            initializers=Initializers(lambda: (proto.graph.initializer, folder)),
            versions={op.name: op.current for op in registry},
            runtime=runtime,
            other_python=python,
        )
        self.declared = {info.name: info.SerializeToString() for info in proto.graph.output}
        self.run: Run = runner(self.trace)

    def show(self, names: Sequence[str]) -> dict[str, Any]:
        """Run the model and return these tensors."""
        proto = self.proto
        # The tensors become the only outputs, so that nothing else is kept in memory.
        del proto.graph.output[:]
        for name in names:
            info = proto.graph.output.add(name=name)
            if name in self.declared:
                info.MergeFromString(self.declared[name])
        return self.run(proto, [self.trace.feeds])[0]


@dataclass
class _Search:
    """The state of the bisection.

    Attributes
    ----------
    bad : str or None
        The earliest tensor of b known to differ.
    good : set of str
        Tensors of b known to agree.
    compared : dict
        Every comparison so far, by the name in b.
    runs : int
        Pairs of runs so far.
    """

    sides: tuple[_Side, _Side]
    feeds: Mapping[str, Any]
    tolerances: Tolerances
    at_once: int
    bad: str | None = None
    good: set[str] = field(default_factory=set)
    compared: dict[str, ComparedTensor] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        check_by_name(self.feeds, "first_divergence, feeds", '{"x": x}')
        a, b = self.sides
        self.alignment = align(a.graph, b.graph, (a.trace, b.trace))
        self.pairs = {pair.b: pair for pair in self.alignment.pairs}
        names = {pair.a: pair.b for pair in self.alignment.pairs}
        self.coarse = self._coarse()
        a.trace.feeds = dict(self.feeds)
        b.trace.feeds = {names.get(name, name): value for name, value in self.feeds.items()}

    def _coarse(self) -> dict[str, str]:
        """Find the coarser dtypes on the way to the tensors of b, and to their partners."""
        if self.tolerances not in ((None, None, None), (None, None, True)):
            return {}
        in_a, in_b = (precisions(side.proto, side.graph, {}) for side in self.sides)
        # Where one model alone is in half precision, what it rounded is no difference.
        if bool(in_a) != bool(in_b):
            self.tolerances = None, None, True
        if not scales_by_dtype(self.tolerances):
            return {}
        coarse = {}
        for name, pair in self.pairs.items():
            coarse[name] = in_b.get(name) or in_a.get(pair.a, "")
        return coarse

    def outputs(self) -> list[str]:
        """Return the outputs of b that have a partner."""
        b = self.sides[1].graph
        names = []
        for name in b.outputs:
            if name in self.pairs and name in b.producer:
                names.append(name)
        if not names:
            expected = "two models with an output in common"
            raise InputError("first_divergence", expected=expected, got="none that corresponds")
        return names

    def compare(self, names: Sequence[str]) -> None:
        """Compare tensors, in as many pairs of runs as it takes to record them."""
        for start in range(0, len(names), self.at_once):
            self._run(names[start : start + self.at_once])

    def _run(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        a, b = self.sides
        arrays = a.show([self.pairs[name].a for name in names]), b.show(names)
        self.runs += 1
        maker = b.graph.producer
        for name in names:
            pair = self.pairs[name]
            precision = self.coarse.get(name, "")
            value_a, value_b = as_made(arrays[0][pair.a]), as_made(arrays[1][name])
            tolerances = widened(self.tolerances, precision)
            value_a, value_b, tolerances = in_one_precision(value_a, value_b, tolerances)
            diff = compared({name: value_a}, {name: value_b}, *tolerances)
            self.compared[name] = ComparedTensor(pair.a, name, pair.by, diff, precision=precision)
            if diff.ok:
                self.good.add(name)
            elif self.bad is None or maker[name] < maker[self.bad]:
                self.bad = name
        return arrays

    def suspects(self) -> tuple[int, ...]:
        """Return the nodes between the tensors that agree and the one that differs."""
        assert self.bad is not None  # noqa: S101  # asked only then
        return self.sides[1].graph.between(self.bad, self.good).nodes

    def middle(self) -> list[str]:
        """Choose tensors that cut the suspected nodes into two halves.

        That is a smallest cut in the middle third of their order.
        """
        graph, suspects = self.sides[1].graph, self.suspects()
        results = {name: None for position in suspects for name in graph.nodes[position].output}
        last_reader = {}
        for p in suspects:
            for name in graph.reads[p]:
                if name in results:
                    last_reader[name] = p
        candidates = []
        for name in results:
            if name in last_reader and name in self.pairs and name not in self.compared:
                candidates.append(name)
        size = len(candidates)
        # A cut is all that is alive at one position of the order. A small one costs few recorded
        # tensors, and one in the middle halves the suspects.
        best: tuple[tuple[int, int], list[str]] | None = None
        for at in range(size // 3, size - size // 3):
            position = graph.producer[candidates[at]]
            cut = []
            for name in candidates[: at + 1]:
                if last_reader[name] > position:
                    cut.append(name)
            rank = len(cut), abs(2 * at - size)
            if best is None or rank < best[0]:
                best = rank, cut
        if best:
            return best[1]
        return []

    def diff(self) -> TraceDiff:
        """Build the result, after a last pair of runs that records all that the node at fault reads."""
        a, b = self.sides
        steps: list[ComparedStep] = []
        if self.bad is not None:
            # The last pair of runs records all that the node at fault reads, and its output.
            reads = b.graph.between(self.bad, self.good).ends
            names = [*(name for name in reads if name in b.graph.producer), self.bad]
            arrays = self._run(names)
            comparison = TraceComparison(
                (a.trace, b.trace),
                (a.graph, b.graph),
                arrays,
                [self.pairs[name] for name in names],
                self.tolerances,
                only=self.bad,
            )
            tensors = comparison.tensors()
            steps = comparison.steps(tensors)
            self.compared |= tensors
        alignment = self.alignment
        return TraceDiff(
            a.trace.runtime,
            b.trace.runtime,
            feeds=(),
            tensors=tuple(self.compared[name] for name in b.graph.order if name in self.compared),
            steps=tuple(steps),
            outputs=tuple(name for name in b.graph.outputs if name in self.compared),
            outputs_only_a=tuple(name for name in a.graph.outputs if name in alignment.only_a),
            outputs_only_b=tuple(name for name in b.graph.outputs if name in alignment.only_b),
            runs=self.runs,
        )

"""Where two models part, found in few runs that each show a few tensors: for what does not fit into memory as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import load_external_data_for_model

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.traces.align import Alignment, Pair, align
from pyopnb.diffs.traces.compare import TraceComparison
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.isolate import Run, runner
from pyopnb.diffs.traces.segments import Segments
from pyopnb.diffs.traces.steps import Tensor
from pyopnb.models.edit.inline import inline_ops
from pyopnb.models.io import read_model, to_model
from pyopnb.ops.errors import FeedError, hide_internal_frames, sanitize
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.registry import registry
from pyopnb.runtime.plan import is_op
from pyopnb.runtime.trace.initializers import Initializers
from pyopnb.runtime.trace.trace import Trace

__all__ = ["first_divergence"]


@hide_internal_frames
def first_divergence(
    a: Any,
    b: Any,
    feeds: Mapping[str, Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    on: str | tuple[str, str] = "onnxruntime",
    optimised: bool | tuple[bool, bool] = True,
    at_once: int = 8,
) -> TraceDiff:
    """Find where two models part, without ever holding more than a few of their tensors.

    Both models run again and again, each time showing a few tensors in the middle of what is still suspected; that halves with
    every pair of runs. `diff` of two traces, which holds all tensors, tells more.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
        May be one model, run in two ways.
    feeds : mapping
        Arrays by the names of a's inputs.
    rtol, atol : float, optional
        As for `diff`.
    on : str or tuple of str
        ``"onnxruntime"`` or ``"reference"``, which is ONNX's reference evaluator; a tuple for a and b.
    optimised : bool or tuple of bool
        Whether ONNX Runtime optimises.
    at_once : int
        How many tensors a run may show.

    Returns
    -------
    TraceDiff
        ``origin`` is a node of which the inputs agree and an output does not, in the last pair of runs; ``runs`` says how many
        pairs there were. None where the models' outputs agree.

    Raises
    ------
    FeedError
        The models have no output in common, or ``at_once``, ``on`` or a tolerance is none.

    Notes
    -----
    The search goes from an output that differs back towards the feeds. A node that errs and whose error later nodes hide is not
    found, and of several that err it may be any: it is one, but not always the first. What is shown is not optimised away, so
    that other tensors shown can mean other rounding.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> graph = "(float[N] x) => (float[N] y) { a = Abs(x)  b = Elu<alpha = %s>(a)  c = Neg(b)  y = Elu<alpha = %s>(c) }"
    >>> a, b = (pyopnb.parse(graph % alphas) for alphas in (("1.0", "1.0"), ("1.0", "2.0")))
    >>> found = first_divergence(a, b, {"x": np.float32([1, 2])})
    >>> found.origin.name, found.origin.changes
    ('y (Elu)', ('attr alpha: 1.0 → 2.0',))
    """
    if not isinstance(at_once, int) or at_once < 1:
        raise FeedError("first_divergence, at_once", expected="a number of tensors, at least 1", got=sanitize(at_once))
    sides = tuple(
        _Side(model, how, best) for model, how, best in zip((a, b), _pair(on, "on"), _pair(optimised, "optimised"), strict=True)
    )
    search = _Search((sides[0], sides[1]), feeds, rtol, atol, at_once)
    suspected = len(sides[1].proto.graph.node)
    with tracking("nodes ruled out", suspected):
        search.look(search.ends())
        while search.bad is not None and (names := search.middle()):
            before, suspected = suspected, search.suspected
            advance("nodes ruled out", before - suspected)
            search.look(names)
        return search.diff()


def _pair(value: Any, name: str) -> tuple[Any, Any]:
    pair = value if isinstance(value, tuple) else (value, value)
    allowed = ("onnxruntime", "reference") if name == "on" else (True, False)
    if len(pair) != 2 or any(one not in allowed for one in pair):
        raise FeedError(f"first_divergence, {name}", expected=" or ".join(map(repr, allowed)), got=sanitize(repr(value), 80))
    return pair[0], pair[1]


class _Side:
    """A model that can be run with any of its tensors as its outputs."""

    def __init__(self, model: Any, on: str, optimised: bool) -> None:
        source = read_model(model)
        self.proto = inline_ops(to_model(source), is_op(source.proto, frozenset()))
        self.graph = Segments(self.proto)
        said = f"onnxruntime, {'all' if optimised else 'no'} optimisations" if on == "onnxruntime" else "onnx.reference"
        proto, folder = self.proto, source.folder
        if on == "reference" and folder is not None:
            load_external_data_for_model(proto, folder)  # the evaluator looks for none
        self.trace = Trace(
            proto,
            feeds={},
            values={},
            summaries={},
            initializers=Initializers(lambda: (proto.graph.initializer, folder)),
            versions={op.name: op.current for op in registry},
            runtime=said,
        )
        self.declared = {info.name: info.SerializeToString() for info in proto.graph.output}
        self.run: Run = runner(self.trace)

    def show(self, names: Sequence[str]) -> dict[str, Any]:
        """A run's tensors."""
        proto = self.proto
        del proto.graph.output[:]
        for name in names:
            info = proto.graph.output.add(name=name)
            if name in self.declared:
                info.MergeFromString(self.declared[name])
        return self.run(proto, [self.trace.feeds])[0]


@dataclass
class _Search:
    """What is known by now: tensors that agree, and one that does not."""

    sides: tuple[_Side, _Side]
    given: Mapping[str, Any]
    rtol: float | None
    atol: float | None
    at_once: int
    bad: str | None = None
    good: set[str] = field(default_factory=set)
    seen: dict[str, Tensor] = field(default_factory=dict)
    runs: int = 0

    def __post_init__(self) -> None:
        a, b = self.sides
        self.found = align(a.graph, b.graph, (a.trace, b.trace))
        self.pairs = {pair.b: pair for pair in self.found.pairs}
        names = {pair.a: pair.b for pair in self.found.pairs}
        a.trace.feeds = dict(self.given)
        b.trace.feeds = {names.get(name, name): value for name, value in self.given.items()}

    def ends(self) -> list[str]:
        """The outputs that have a partner."""
        b = self.sides[1]
        names = [name for name in b.graph.outputs if name in self.pairs and name in b.graph.maker]
        if not names:
            raise FeedError("first_divergence", expected="two models with an output in common", got="none that corresponds")
        return names

    def look(self, names: Sequence[str]) -> None:
        """One pair of runs, or more for as many tensors as one may not show."""
        for start in range(0, len(names), self.at_once):
            self._look(names[start : start + self.at_once])

    def _look(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        a, b = self.sides
        ones, others = a.show([self.pairs[name].a for name in names]), b.show(names)
        self.runs += 1
        maker = b.graph.maker
        for name in names:
            pair = self.pairs[name]
            diff = compared({name: ones[pair.a]}, {name: others[name]}, self.rtol, self.atol)
            self.seen[name] = Tensor(pair.a, name, pair.by, diff)
            if diff.ok:
                self.good.add(name)
            elif self.bad is None or maker[name] < maker[self.bad]:
                self.bad = name
        return ones, others

    @property
    def suspected(self) -> int:
        """How many nodes may still be the one."""
        assert self.bad is not None  # noqa: S101  # asked only then
        return len(self.sides[1].graph.between(self.bad, self.good).nodes)

    def middle(self) -> list[str]:
        """Tensors that cut what is suspected in two halves, as few as there are near its middle."""
        graph = self.sides[1].graph
        assert self.bad is not None  # noqa: S101  # asked only then
        nodes = graph.between(self.bad, self.good).nodes
        inside = set(nodes)
        open_ = [
            name
            for place in nodes
            for name in graph.nodes[place].output
            if name in self.pairs and name not in self.seen and place != graph.maker[self.bad]
        ]
        if not open_:
            return []
        last: dict[str, int] = {}
        for place in nodes:
            last |= dict.fromkeys((name for name in graph.reads[place] if graph.maker.get(name) in inside), place)
        open_ = [name for name in open_ if name in last]
        best: tuple[tuple[int, int], list[str]] | None = None
        for at, name in enumerate(open_):
            if len(open_) // 3 <= at <= len(open_) - 1 - len(open_) // 3:
                cut = [other for other in open_[: at + 1] if last[other] > graph.maker[name]]
                key = len(cut), abs(2 * at - len(open_))
                if best is None or key < best[0]:
                    best = key, cut
        return best[1] if best else []

    def diff(self) -> TraceDiff:
        """What was found, the node at fault looked at once more with all that it reads."""
        a, b = self.sides
        feeds: tuple[Tensor, ...] = ()
        steps: Sequence[Any] = ()
        if self.bad is not None:
            ends = [name for name in b.graph.between(self.bad, self.good).ends if name in b.graph.maker]
            ones, others = self._look([*ends, self.bad])
            pairs = [Pair(self.pairs[name].a, name, self.pairs[name].by) for name in (*ends, self.bad)]
            parted = TraceComparison(
                (a.trace, b.trace), (a.graph, b.graph), (ones, others), pairs, self.rtol, self.atol, only=self.bad
            )
            tensors = parted.tensors()
            steps = parted.steps(tensors)
            self.seen |= tensors
        place = {name: at for at, name in enumerate(b.graph.order)}
        tensors_seen = tuple(self.seen[name] for name in sorted(self.seen, key=place.__getitem__))
        lone = Alignment((), self.found.only_a, self.found.only_b)
        return TraceDiff(
            a.trace.runtime,
            b.trace.runtime,
            feeds,
            tensors_seen,
            tuple(steps),
            tuple(name for name in b.graph.outputs if name in self.seen),
            outputs_only_a=tuple(name for name in a.graph.outputs if name in lone.only_a),
            outputs_only_b=tuple(name for name in b.graph.outputs if name in lone.only_b),
            runs=self.runs,
        )

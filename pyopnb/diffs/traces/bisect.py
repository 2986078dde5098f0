"""Find the first divergence of two models, of which one is in memory at a time.

If all tensors fit into memory, one more run of each model records them, and they are compared as
`pyopnb.diff` compares two traces. If not, a few runs bisect the nodes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.common import progress, sanitize
from pyopnb.diffs.tolerances import SCALED, Tolerances
from pyopnb.diffs.traces.align import Alignment, Pair, align
from pyopnb.diffs.traces.compare import TraceComparison, diff_sides
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.half import HALVES
from pyopnb.diffs.traces.half_insides import opened
from pyopnb.diffs.traces.half_model import in_half
from pyopnb.diffs.traces.isolate import Run, runner
from pyopnb.diffs.traces.optimizers import OptimizerDiff, find_optimizers
from pyopnb.diffs.traces.precision import precisions
from pyopnb.diffs.traces.segments import Side, TraceGraph
from pyopnb.diffs.traces.side_feeds import feed_both
from pyopnb.diffs.traces.steps import ComparedTensor, for_runtimes
from pyopnb.diffs.traces.tensor_sizes import (
    check_room,
    default_memory,
    inferred_sizes,
    parts_that_fit,
    spread_that_fits,
)
from pyopnb.engine import (
    argument_checks,
    check_arguments,
    external_files,
    model_files,
    model_functions,
    node_plans,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import InputError, ModelError
from pyopnb.models import lacking
from pyopnb.traces import Initializers, Trace, elsewhere, is_other_runtime

__all__ = ["first_divergence"]

_MANY = 1000  # megabytes, which take ONNX Runtime seconds


@check_arguments
def first_divergence(
    a: Any,
    b: Any,
    feeds: Mapping[str, Any] | tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
    *,
    over: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    on: str | os.PathLike[str] | tuple[str | os.PathLike[str], ...] = "onnxruntime",
    memory: float | None = None,
    accumulate: str = "float32",
) -> TraceDiff | OptimizerDiff:
    """Find where two models diverge, without holding more of their tensors than fit into memory.

    ``first_divergence(model, "float16", feeds)`` finds where a float32 model leaves the range or
    the precision of float16 or bfloat16: each tensor is rounded, as on an accelerator, and sums are
    added up in float32. ``first_divergence(model, feeds, over="optimizers")`` finds which of the
    ONNX Runtime optimizers changed the numbers of one model.

    Both models run, one after the other, until their outputs are compared. If these differ, they
    run once more, and all tensors are compared as `diff` does; only nodes whose results differ run
    in isolation. If the tensors do not fit into memory, each pair of runs records as many as fit,
    spread over the remaining suspects, until the tensors of these fit.

    Parameters
    ----------
    a, b : ModelProto, bytes or path
        The models; they may be the same one, if ``on`` says how it runs in two ways. As ``b``,
        ``"float16"`` or ``"bfloat16"`` means ``a`` in that precision.
    feeds : mapping or tuple of two mappings
        Arrays by the names of the inputs; a tuple has one mapping for ``a`` and one for ``b``. In
        one mapping, the names of one model's inputs go to that model, and inputs that are not named
        get what the corresponding input gets: ``{"x": x, "images": np.moveaxis(x, 1, -1)}`` for
        images as NCHW and as NHWC. With ``over``, this is the second argument.
    over : {"optimizers"}, optional
        Compare one model with itself without optimizations, and find the fewest optimizers to
        disable so that the numbers are the same.
    rtol, atol, stol : float, optional
        As for `diff`.
    on : str, path or tuple of two
        ``"onnxruntime"``, ``"reference"``, ``"onnxruntime==1.25.0"`` or the path of another Python,
        as for `trace`; a tuple has one for ``a`` and one for ``b``.
    memory : float, optional
        The bytes that recorded tensors may take, of both models together; a quarter of the memory
        that is free, if not given. The weights of one model come on top. A tensor that does not fit
        is recorded alone.
    accumulate : str
        How nodes add up in half precision: ``"float32"``, or the same as ``b``. Then the inside of
        reductions, Softmax, normalizations, Gemm and MatMul is in half precision, too, and sums are
        rounded after each term; it takes longer.

    Returns
    -------
    TraceDiff
        Its ``origin`` is a node whose inputs agree and whose outputs do not, or None if the models'
        outputs agree; ``runs`` is the number of pairs of runs. In half precision,
        ``node_block_list`` names the nodes to keep in float32. With ``over``, an OptimizerDiff:
        ``optimizers``, the ``nodes`` that they fused or moved, ``diff`` and ``remaining`` (the
        outputs with and without them, against a run without any optimization), and ``workaround``,
        the line that disables them.

    Raises
    ------
    InputError
        The models have no output in common, or ``memory``, ``on`` or a tolerance is not valid.

    Notes
    -----
    Where the tensors do not fit into memory, the search goes back from an output that differs
    toward the feeds, and finds only one of several origins, not always the first. It looks for no
    error that later nodes hide. ONNX Runtime does not optimize recorded tensors away, so recording
    can change how other tensors are rounded.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> graph = '''(float[N] x) => (float[N] y)
    ...     { a = Abs(x)  b = Elu<alpha = %s>(a)  c = Neg(b)  y = Elu<alpha = %s>(c) }'''
    >>> a, b = (pyopnb.parse(graph % alphas) for alphas in (("1.0", "1.0"), ("1.0", "2.0")))
    >>> diff = first_divergence(a, b, {"x": np.float32([1, 2])})
    >>> diff.origin.name, diff.origin.changes
    ('y (Elu)', ('attr alpha: 1.0 → 2.0',))
    """
    tolerances = Tolerances(rtol, atol, stol)
    if over is not None:
        if feeds is not None or over != "optimizers":
            expected = 'one model and its feeds, and "optimizers"'
            got = sanitize(over)
            advice = 'first_divergence(model, feeds, over="optimizers")'
            raise InputError("first_divergence, over", expected=expected, got=got, next=advice)
        argument_checks.check_by_name(b, "first_divergence, feeds", '{"x": x}')
        # Fused kernels add up in another order, as in two traces at different levels.
        return find_optimizers(a, b, tolerances.or_scaled())
    if memory is not None and not memory > 0:
        raise InputError(
            "first_divergence, memory",
            expected="a number of bytes",
            got=sanitize(memory),
            next="memory=2e9",
        )
    names = on if isinstance(on, tuple) else (on, on)
    if len(names) != 2:
        advice = 'on=("onnxruntime", "reference")'
        raise InputError(
            "first_divergence, on", expected="two, for a and b", got=sanitize(on), next=advice
        )
    model_a = _Model(a, names[0])
    is_half = isinstance(b, str) and b in HALVES
    model_b = _Model(a if is_half else b, names[1])
    memory = default_memory() if memory is None else memory
    # Plain numbers and lists become arrays of the declared types once, for all runs.
    arrays = feed_both(model_a.trace.model, model_b.trace.model, feeds)
    if accumulate not in ("float32", b):
        half = b if is_half else "float16"
        expected = f'"float32" or "{half}"' if is_half else '"float32" where b is a model'
        advice = f'first_divergence(model, "{half}", feeds, accumulate="{half}")'
        raise InputError(
            "first_divergence, accumulate", expected=expected, got=sanitize(accumulate), next=advice
        )
    if is_half:
        return _search_in_half(
            (model_a, model_b), b, arrays, tolerances.or_scaled(), memory, accumulate
        )
    tolerances = for_runtimes(tolerances, (model_a.trace.runtime, model_b.trace.runtime))
    with _tracking(model_a, model_b):
        return _Search(model_a, model_b, arrays, tolerances, memory).result()


def _tracking(a: _Model, b: _Model) -> AbstractContextManager[None]:
    """Show how much of two models was loaded for a search."""
    # Mostly, each model runs twice.
    total = 2 * (a.megabytes + b.megabytes)
    return progress.tracking(progress.LOADED, total, is_long=total > _MANY)


def _search_in_half(
    models: tuple[_Model, _Model],
    half: str,
    feeds: tuple[dict[str, Any], dict[str, Any]],
    tolerances: Tolerances,
    memory: float,
    accumulate: str,
) -> TraceDiff:
    """Find the first divergence in half precision, and the nodes to keep in float32."""
    a, b = models
    diffs = []
    kept: dict[str, str] = {}
    sums = accumulate == half
    proto, owners = opened(b.trace.model, sums=sums)
    a.set_model(opened(a.trace.model, sums=sums)[0])
    # Each search finds one origin: with its nodes in float32, the next one finds another.
    while True:
        b.set_model(in_half(proto, half, kept, sums=sums))
        with _tracking(a, b):
            search = _Search(a, b, feeds, tolerances, memory, half)
            diffs.append(search.result())
        lossy = search.lossy
        if lossy and not kept:
            # Where one tensor overflows, many do, and each would take a search of its own.
            lossy = lossy.union(_overflowing(a, half, memory))
        known = len(kept)
        for position in sorted(lossy):
            _keep(a.graph.nodes[position], owners, kept)
        if len(kept) == known:
            break
    last = diffs[-1]
    return replace(
        diffs[0],
        b=f"{last.b}, each tensor{' and sum' if sums else ''} in {half}",
        node_block_list=tuple(dict.fromkeys(kept.values())),
        with_block_list=last.verdict if kept else "",
    )


def _keep(node: NodeProto, owners: Mapping[str, NodeProto], kept: dict[str, str]) -> None:
    """Keep a node in float32, or all of the node that it is a part of."""
    output = protos.first_output(node)
    owner = owners.get(output, node)
    name = owner.name or protos.first_output(owner)
    kept[output] = name
    for part, other in owners.items():
        if other is owner:
            kept[part] = name


def _overflowing(model: _Model, half: str, memory: float) -> Iterator[int]:
    """Yield the nodes that make or read a tensor beyond the range of half precision."""
    most = float(ml_dtypes.finfo(half).max)  # type: ignore[no-untyped-call]
    for part in parts_that_fit(model.results, model.size, memory):
        for name, value in model.recorded(part).items():
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                sizes = np.abs(value[np.isfinite(value)])
                if sizes.max(initial=0) > most:
                    yield from model.graph.around(name)


class _Model:
    """A model that can run with any of its tensors as outputs."""

    def __init__(self, model: Any, on: str | os.PathLike[str]) -> None:
        is_elsewhere = is_other_runtime(on, "first_divergence")
        source = model_files.read_model(model)
        proto = model_functions.inline_ops(
            to_model(source), node_plans.is_op(source.proto, frozenset())
        )
        folder = source.folder
        if on != "onnxruntime":
            # The reference evaluator does not look for external data, and it is not in the folder
            # that goes elsewhere.
            external_files.take_in_all(proto, folder)
        self.files = external_files.FileStamps(external_files.data_paths(proto, folder))
        # Another runtime is named as the user names it: it says its version in each trace.
        runtime = f"{os.fspath(on)}, all optimizations"
        if on == "reference":
            runtime = "onnx.reference"
        self.trace = Trace(
            proto,
            feeds={},
            values={},
            initializers=Initializers(lambda: (proto.graph.initializer, folder)),
            versions={op.name: op.current for op in registry},
            runtime=runtime,
            other_python=elsewhere.other_python(on, proto) if is_elsewhere else None,
        )
        self.run: Run = runner(self.trace)
        self.set_model(proto)

    def set_model(self, proto: ModelProto) -> None:
        """Run another model from now on."""
        self.trace.model = proto
        self.graph = TraceGraph(proto)
        self.results = [name for name in self.graph.order if name in self.graph.producer]
        self.declared = {info.name: info.SerializeToString() for info in proto.graph.output}
        # Models without weights take time, too.
        self.megabytes = 1 + external_files.weight_bytes(proto) // 1_000_000
        self._sizes: dict[str, int] | None = None
        self._largest = 0

    def size(self, name: str) -> int:
        """Return the bytes of a tensor; the most that is known of any if its own are not known."""
        return self.sizes.get(name, self._largest)

    @property
    def sizes(self) -> dict[str, int]:
        """Return the bytes of the tensors whose sizes are known from the feeds."""
        if self._sizes is None:
            feeds = self.trace.feeds
            self._sizes = inferred_sizes(self.trace.model, feeds)
            known = (*self._sizes.values(), *(np.asarray(x).nbytes for x in feeds.values()))
            self._largest = max(known, default=0)
        return self._sizes

    def recorded(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Run the model, and record some tensors.

        To record a tensor keeps ONNX Runtime from removing its node, which may have no kernel: then
        it is left out.
        """
        if not names:
            return {}
        try:
            return self._recorded(names)
        except ModelError:
            unserved = lacking.unserved_outputs(self.trace.model)
            kept = [name for name in names if name not in unserved]
            # A model that does not give its own outputs does not run.
            if len(kept) == len(names) or self.declared.keys() >= set(names):
                raise
            return self._recorded(kept) if kept else {}

    def _recorded(self, names: Sequence[str]) -> Mapping[str, Any]:
        # The tensors become the only outputs, so that nothing else is kept in memory.
        graph = self.trace.model.graph
        del graph.output[:]
        for name in names:
            info = graph.output.add(name=name)
            info.MergeFromString(self.declared.get(name, b""))
        self.trace.values = {}  # of the run before
        # Nodes that run alone get their inputs in the dtypes and ranks that this run has.
        with progress.tracking(progress.LOADED, self.megabytes):
            self.trace.values = self.run(self.trace.model, [self.trace.feeds])[0]
        self.files.check("the same weights in all runs", "first_divergence(a, b, feeds), once more")
        return self.trace.values


@dataclass
class _Search:
    """The state of the search.

    Attributes
    ----------
    differing : set of str
        Tensors of b known to differ.
    good : set of str
        Tensors of b known to agree.
    compared : dict
        Every comparison so far, by the name in b.
    half : str
        ``"float16"`` or ``"bfloat16"`` if b is a with its tensors in half precision.
    runs : int
        Pairs of runs so far.
    lossy : set of int
        Nodes of a that make or read a tensor that half precision does not hold.
    plain : tuple of ComparedTensor
        The outputs, compared while nothing else was recorded.
    """

    a: _Model
    b: _Model
    feeds: tuple[dict[str, Any], dict[str, Any]]
    tolerances: Tolerances
    memory: float
    half: str = ""
    differing: set[str] = field(default_factory=set)
    good: set[str] = field(default_factory=set)
    compared: dict[str, ComparedTensor] = field(default_factory=dict)
    runs: int = 0
    lossy: set[int] = field(default_factory=set)
    plain: tuple[ComparedTensor, ...] = ()

    def __post_init__(self) -> None:
        self.graph = self.b.graph
        self.models = self.a, self.b
        self.a.trace.feeds, self.b.trace.feeds = self.feeds
        self.last: tuple[Mapping[str, Any], Mapping[str, Any]] = {}, {}
        self.tried: set[str] = set()
        self._pair()
        # The coarser dtypes on the way to tensors, for normal runs and for recorded ones.
        self.normal: dict[str, str] = {}
        self.coarse: dict[str, str] = {}
        if self.half:
            self.coarse = dict.fromkeys(self.pairs, self.half)
        else:
            self._find_precisions()

    def _pair(self) -> None:
        """Pair the tensors, as far as that is possible before they are recorded."""
        alignment = self._alignment()
        self.pairs = {pair.b: pair for pair in alignment.pairs}
        self.only_a, self.only_b = set(alignment.only_a), set(alignment.only_b)
        # One model may compute what the other one passes on from an input, which has a partner.
        for name in set(self.a.graph.outputs).intersection(self.graph.outputs):
            if name in self.a.graph.inputs or name in self.graph.inputs:
                self.pairs[name] = Pair(name, name, "output")
                self.only_a.discard(name)
                self.only_b.discard(name)

    def _alignment(self) -> Alignment:
        if self.half:
            return Alignment(tuple(Pair(name, name) for name in self.a.graph.order), (), ())
        outputs = [m.graph.outputs for m in self.models]
        are_same = set(outputs[0]) == set(outputs[1])
        # Values tell which outputs correspond where the names are others.
        if not are_same or self._fit(outputs):
            self._record(outputs)
        if are_same and self._fit(self._all()):
            # All other tensors are paired once they are recorded.
            return Alignment(tuple(Pair(name, name) for name in outputs[1]), (), ())
        return align(*self._sides())

    def _find_precisions(self) -> None:
        """Find out which tensors depend on others in half precision."""
        in_a, in_b = (precisions(x.trace.model, x.graph, {}) for x in self.models)
        # If only one model is in half precision, its rounding does not count as a difference.
        if self.tolerances.by_dtype and bool(in_a) != bool(in_b):
            self.tolerances = SCALED
        for name, pair in self.pairs.items():
            self.normal[name] = in_b.get(name) or in_a.get(pair.a, "")
        if self.tolerances == SCALED:
            self.coarse = self.normal

    def result(self) -> TraceDiff:
        """Search until the suspected tensors fit into memory, or none is left to compare."""
        # Compare the outputs first; if they agree, no search is needed.
        tensors = self.outputs()
        self.compare(tensors)
        self.plain = tuple(map(self._in_normal_run, self.compared.values()))
        while True:
            while tensors := self.spread():
                self.compare(tensors)
            bad = self.bad
            diff = self.diff()
            # Beside the tensors around it, one that differs may have another partner, and agree.
            if bad not in self.good or self._fit(self._all()):
                return diff

    def _in_normal_run(self, tensor: ComparedTensor) -> ComparedTensor:
        """Judge an output as `diff` judges it: a fusion adds up in another order, and may round."""
        precision = tensor.precision or self.normal.get(tensor.b, "")
        return replace(tensor, precision=precision).judged(self.tolerances.or_scaled())

    def outputs(self) -> list[str]:
        """Return the outputs of b that have a partner."""
        graph = self.graph
        names = [name for name in graph.outputs if name in self.pairs]
        if not names:
            expected = "two models with an output in common"
            raise InputError("first_divergence", expected=expected, got="none")
        return names

    def compare(self, names: Sequence[str]) -> None:
        """Compare tensors, in as many pairs of runs as it takes to record them."""
        self.tried.update(names)
        for chosen in parts_that_fit(names, self._size, self.memory):
            pairs = [self.pairs[name] for name in chosen]
            comparison = self._comparison(pairs)
            self._note(map(comparison.tensor, comparison.pairs))

    def _note(self, tensors: Iterable[ComparedTensor]) -> None:
        for tensor in tensors:
            self.compared[tensor.b] = tensor
            self.pairs[tensor.b] = Pair(tensor.a, tensor.b, tensor.by)
            known, other = self.differing, self.good
            if tensor.diff.ok:
                known, other = self.good, self.differing
            known.add(tensor.b)
            other.discard(tensor.b)

    def _comparison(self, pairs: Sequence[Pair]) -> TraceComparison:
        """Record the tensors of pairs."""
        # Feeds are there already; one model may pass on what the other one computes.
        a, b = self.a.graph.inputs, self.b.graph.inputs
        self._record([[x.a for x in pairs if x.a not in a], [x.b for x in pairs if x.b not in b]])
        sides = self._sides()
        return TraceComparison(
            sides,
            [pair for pair in pairs if pair.a in sides[0].arrays and pair.b in sides[1].arrays],
            self.tolerances,
            coarse=self.coarse,
            half=self.half,
            known=self.good,
            sparing=True,
        )

    def _record(self, names: Sequence[Sequence[str]]) -> None:
        """Record tensors of both models, unless the last pair of runs did."""
        if not all(x.keys() >= set(own) for x, own in zip(self.last, names, strict=True)):
            # These need not be in memory any more.
            self.last = {}, {}
            sizes = Counter({name: self.a.sizes.get(name, 0) for name in names[0]})
            check_room(sizes + Counter({name: self.b.sizes.get(name, 0) for name in names[1]}))
            self.last = self.a.recorded(names[0]), self.b.recorded(names[1])
            self.runs += 1

    def _sides(self) -> tuple[Side, Side]:
        """Return both models with their feeds and the arrays of the last runs."""
        a, b = self.models
        return (
            Side(a.trace, a.graph, {**a.trace.feeds, **self.last[0]}),
            Side(b.trace, b.graph, {**b.trace.feeds, **self.last[1]}),
        )

    @property
    def bad(self) -> str | None:
        """Return the earliest tensor that differs and leads to an output that differs.

        What differs before tensors that agree is another way to the same numbers.
        """
        ends = [name for name in self.graph.outputs if name in self.differing]
        for position in self.graph.between(ends, self.good).nodes:
            for name in self.graph.nodes[position].output:
                if name in self.differing:
                    return str(name)
        return None

    def spread(self) -> list[str]:
        """Choose tensors that are spread evenly over the suspected nodes, unless all fit."""
        bad = self.bad
        if bad is None or self._window(bad):
            return []
        while names := [x for x in self._made(bad) if x not in self.tried]:
            if self.half:
                names = [name for name in names if name in self.pairs]
                return spread_that_fits(names, self._size, self.memory)
            names = self._paired(bad, spread_that_fits(names, self.b.size, self.memory / 2))
            if names:
                return names
        return []

    def _made(self, bad: str) -> list[str]:
        """List the tensors that the suspected nodes make."""
        positions = self.graph.between(bad, self.good).nodes
        names = {x for p in positions for x in self.graph.nodes[p].output}
        return [name for name in self.b.results if name in names]

    def _paired(self, bad: str, names: list[str]) -> list[str]:
        """Pair tensors whose partners are not sure by their values; return the ones that have one.

        Structure and names do not tell what corresponds where nodes were folded or written in
        another way.
        """
        self.tried.update(names)
        # A tensor says something beside its likely partner.
        likely = {self.pairs[name].a if name in self.pairs else name for name in names}
        names_a = self._suspected(bad)[0]
        names_a = [name for name in names_a if name in likely] or names_a
        self._record([spread_that_fits(names_a, self.a.size, self.memory / 2), names])
        for name in names:
            self.pairs.pop(name, None)
        for pair in align(*self._sides()).pairs:
            # A name alone says little where not all values that could be the partner's are known.
            are_recorded = pair.a in self.last[0] and pair.b in self.last[1]
            if pair.by != "name" and pair.b in names and are_recorded:
                self.pairs[pair.b] = pair
        return [name for name in names if name in self.pairs]

    def _all(self) -> list[list[str]]:
        # An output may be a weight, which no node gives.
        return [list(dict.fromkeys([*m.results, *m.graph.outputs])) for m in self.models]

    def _window(self, bad: str) -> list[list[str]]:
        """List all tensors of both models, or else the suspected ones; none if these do not fit."""
        windows = self._all(), self._suspected(bad)
        return next(filter(self._fit, windows), [])

    def _suspected(self, bad: str) -> list[list[str]]:
        """List what the suspected nodes of both models make and read."""
        a, b = self.a.graph, self.b.graph
        # Where b reads another tensor, the partner of that one is elsewhere in a.
        names_b = [*self._made(bad), *b.between(bad, self.good).ends]
        known = {self.pairs[name].a for name in self.good}
        names_a = [x for p in a.between(self.pairs[bad].a, known).nodes for x in a.nodes[p].output]
        names_a += [self.pairs[name].a for name in names_b if name in self.pairs]
        names = {*names_a, *names_b}, set(names_b)
        return [
            [x for x in m.results if x in own] for m, own in zip(self.models, names, strict=True)
        ]

    def _size(self, name: str) -> int:
        """Return the bytes of a tensor in both models."""
        return self.a.size(self.pairs[name].a) + self.b.size(name)

    def _fit(self, names: Sequence[Sequence[str]]) -> bool:
        """Tell whether tensors of both models can be recorded at once."""
        sizes = [sum(map(x.size, own)) for x, own in zip(self.models, names, strict=True)]
        return not self.half and sum(sizes) <= self.memory

    def diff(self) -> TraceDiff:
        """Compare all tensors as `pyopnb.diff` does, or else what the suspected nodes make."""
        diff = TraceDiff(self.a.trace.runtime, self.b.trace.runtime, (), (), ())
        bad = self.bad
        # An output that is a weight differs, too, and no node makes it.
        is_weight = bad is None and bool(self.differing) and self._fit(self._all())
        if bad is not None or is_weight:
            names = self._all() if bad is None else self._window(bad)
            if names:
                self._record(names)
                known = () if names == self._all() else self.good
                diff = diff_sides(self._sides(), self.tolerances, known, sparing=True)
            elif bad is not None:
                around = [*self.graph.between(bad, self.good).ends, bad]
                comparison = self._comparison([self.pairs[x] for x in around if x in self.pairs])
                diff = comparison.diff()
                self.lossy = comparison.lossy
        b = self.graph
        self._note(diff.tensors)
        tensors = self.compared
        return replace(
            diff,
            tensors=tuple(tensors[name] for name in b.order if name in tensors),
            outputs=tuple(name for name in b.outputs if name in tensors),
            plain=self.plain,
            outputs_only_a=tuple(x for x in self.a.graph.outputs if x in self.only_a),
            outputs_only_b=tuple(x for x in b.outputs if x in self.only_b),
            models=None,
            runs=self.runs,
        )

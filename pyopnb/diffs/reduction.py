"""The smallest model that still fails, found by removing nodes and shrinking arrays."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from pyopnb.common import Displayable, messages, plural, progress, sanitize
from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.extraction import ModelCut, cut_out
from pyopnb.diffs.reproduction import Failure, write_reproduction
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.diffs.traces.segments import TraceGraph, called
from pyopnb.engine import (
    ModelSource,
    check_arguments,
    external_files,
    model_files,
    model_functions,
    node_plans,
    op_names,
    protos,
    registry,
    to_model,
    type_of,
)
from pyopnb.errors import InputError
from pyopnb.onnx_reference import has_reference
from pyopnb.traces import elsewhere, is_other_runtime, reference_run, trace

__all__ = ["Reduction", "reduce"]

_Judge = Callable[[ModelProto, dict[str, Any]], Failure | None]

_ALL = "ORT_ENABLE_ALL"
_NONE = "ORT_DISABLE_ALL"
_NODES_SHOWN = 6
# Names, sizes and paths in the ONNX Runtime messages, which differ for a smaller model.
_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\{[^{}]*\}|[/\\]\S+|\d+")


@dataclass(frozen=True, repr=False)
class Reduction(Displayable):
    """The smallest failing model that the search has found.

    Attributes
    ----------
    model : ModelProto
        It fails as the original does.
    feeds : dict
        Arrays by the names of its inputs.
    failure : Failure
        ``text`` says how it fails; ``outputs`` has the outputs of both sides if two runs differ.
    before : int
        The number of nodes in the original model.
    trials : int
        The number of models that were tried.
    seconds : float
        How long it took.
    finished : bool
        Whether the search finished within the time limit; otherwise a smaller model may exist.
    """

    model: ModelProto
    feeds: dict[str, Any]
    failure: Failure
    before: int
    trials: int
    seconds: float
    finished: bool

    @property
    def headline(self) -> str:
        """Say how small the model became, and how it fails."""
        count = len(self.model.graph.node)
        verb = "fail"
        if count == 1:
            verb = "fails"
        limit = "" if self.finished else ", and the time limit was reached"
        amount = f"{plural(self.trials, 'trial')}, {self.seconds:.0f} s{limit}"
        return f"{count} of {plural(self.before, 'node')} still {verb} ({amount})"

    def __str__(self) -> str:
        lines = [self.headline, sanitize(self.failure.text, 300)]
        nodes = list(self.model.graph.node)
        lines += [f"  {called(node)}" for node in nodes[:_NODES_SHOWN]]
        if len(nodes) > _NODES_SHOWN:
            lines.append(f"  … and {len(nodes) - _NODES_SHOWN} more")
        feeds = []
        for name, value in self.feeds.items():
            type_text = type_of(value) if isinstance(value, np.ndarray) else type(value).__name__
            feeds.append(f"{sanitize(name, 60)}: {type_text}")
        if feeds:
            lines.append(f"feeds {', '.join(feeds)}")
        lines.append('for a bug report: .write("folder")')
        return "\n".join(lines)

    __repr__ = __str__

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model, its feeds, a script that reproduces the failure, and a report.

        The report has the versions and outputs. The script, ``reproduce.py``, needs only
        onnxruntime and NumPy. If the model has ops of yours and pyopnb is not installed, it shows
        the outputs that were recorded here. Existing files are replaced.

        Returns
        -------
        Path
            The folder, which is created if it does not exist.

        Raises
        ------
        InputError
            The folder cannot be written, or a feed has a dtype that NumPy lacks.
        """
        return write_reproduction(self.model, self.feeds, self.failure, Path(folder))


class _OutOfTimeError(Exception):
    """End the search with the smallest model so far."""


@check_arguments
def reduce(
    model: Any,
    feeds: Mapping[str, Any],
    fails: Any = None,
    *,
    on: str | os.PathLike[str] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    seconds: float = 60.0,
) -> Reduction:
    """Find the smallest model that still fails, to debug it or for a bug report.

    Nodes are removed by bisection from the end and from the beginning, then in groups; outputs of
    removed nodes become feeds. Then arrays are made smaller.

    Parameters
    ----------
    model : ModelProto, bytes or path
        A model in memory, its serialized bytes, or a file.
    feeds : mapping
        Arrays by the names of the model's inputs.
    fails : callable, optional
        A function of a model and its feeds that returns whether the model fails. If it raises for a
        smaller model, that model counts as failing in another way. By default, ONNX Runtime runs
        each model in another process, and the failure is the first of these that occurs: the
        process ends, the session cannot be made, the run raises, the outputs with all optimizations
        differ from a run without any, or the outputs differ from the ONNX reference
        implementation.
    on : str or path, optional
        Another onnxruntime, as for `trace`. The failure is then that its outputs differ from this
        process.
    rtol, atol, stol : float, optional
        As for `diff`, but the default is ``stol=True``, because kernels add up in different orders.
    seconds : float
        The time limit; after it, the smallest model so far is returned.

    Returns
    -------
    Reduction
        ``model``, ``feeds``, and ``write("folder")``.

    Raises
    ------
    InputError
        The model does not fail, a feed does not fit, or the other onnxruntime cannot be installed.
    ModelError
        The model cannot be read.

    Notes
    -----
    The reduced model fails in the same way (the same error apart from names and numbers, or outputs
    beyond the tolerance) but not necessarily for the same reason.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.parse('''(float[N] x) => (float[N] y)
    ...     { a = Exp(x)  b = Sqrt(a)  c = Neg(b)  d = Sqrt(c)  y = Abs(d) }''')
    >>> nan = lambda model, feeds: any(np.isnan(y).any() for y in pyopnb.run(model, feeds))
    >>> smallest = reduce(model, {"x": np.float32([1, 2, 3])}, nan)
    >>> [node.op_type for node in smallest.model.graph.node], smallest.feeds["c"].shape
    (['Sqrt'], (1,))
    """
    tolerances = Tolerances(rtol, atol, stol)
    tolerances.check()
    if fails is not None and not callable(fails):
        advice = "lambda model, feeds: …"
        got = sanitize(repr(fails), 80)
        raise InputError("reduce, fails", expected="a function", got=got, next=advice)
    begin = time.monotonic()
    source = model_files.read_model(model)
    proto = to_model(source)
    # onnx would refuse functions that call themselves with a message of its own.
    model_functions.check_functions(proto)
    # The parts of the model have no folder.
    external_files.take_in_all(proto, source.folder)
    arrays = reference_run.check_feeds(proto, feeds)
    with ExitStack() as stack, progress.tracking("trials", None):
        if fails is not None:
            recorder: str | Path = "onnxruntime"
            judge: _Judge = partial(_failure_by_caller, fails)
            failure = judge(proto, arrays)
        else:
            # A crash must not take this process down.
            recorder = Path(sys.executable)
            sides = _Sides(stack, on, proto, tolerances.or_scaled())
            judge = sides.failure
            failure = judge(proto, arrays)
            if failure is None and sides.against == "levels":
                sides.against = "reference"
                failure = judge(proto, arrays)
        if failure is None:
            advice = "pyopnb.reduce(model, feeds, fails), or rtol= and atol="
            got = "one that does not"
            raise InputError("reduce", expected="a model that fails", got=got, next=advice)
        search = _Search(ModelCut(proto, arrays), failure, judge, recorder, begin + seconds)
        finished = search.run()
    best = search.best
    before = len(proto.graph.node)
    elapsed = time.monotonic() - begin
    return Reduction(
        best.model, best.feeds, search.failure, before, search.trials, elapsed, finished
    )


def _failure_by_caller(
    fails: Callable[..., Any], model: ModelProto, feeds: dict[str, Any]
) -> Failure | None:
    # An exception on the original model is the user's to see.
    if not fails(model, feeds):
        return None
    name = getattr(fails, "__name__", "fails")
    return Failure("fails", f"{sanitize(name, 60)}(model, feeds) says that it fails", fails=fails)


# ---- failures that are looked for ----------------------------------------------------------------


class _Sides:
    """ONNX Runtime in another process, and the side that its outputs are compared with."""

    def __init__(
        self,
        stack: ExitStack,
        on: str | os.PathLike[str] | None,
        model: ModelProto,
        tolerances: Tolerances,
    ) -> None:
        self.tolerances = tolerances
        # A crash of the runtime must end that process and not the notebook's.
        this_python = elsewhere.OtherPython(Path(sys.executable), "this Python")
        self.here = stack.enter_context(elsewhere.OtherProcess(this_python))
        # Outputs are compared with another level, or else the reference, or another runtime.
        self.against = "levels"
        if on == "reference":
            self.against = "reference"
        elif on is not None and is_other_runtime(on, "reduce"):
            self.there = stack.enter_context(
                elsewhere.OtherProcess(elsewhere.other_python(on, model))
            )
            self.against = "runtimes"

    def failure(self, model: ModelProto, feeds: dict[str, Any]) -> Failure | None:
        """Say how a model fails, or return None."""
        names = [info.name for info in model.graph.output]
        levels = [_ALL]
        if self.against == "levels":
            levels.append(_NONE)
        outcome = self.here.attempt(model, [feeds], [(names, level) for level in levels])
        if outcome.stage:
            return _error(outcome)
        outputs = [runs[0] for runs in outcome.outputs]
        label = "all optimizations against none"
        if self.against == "runtimes":
            there = self.there.attempt(model, [feeds], [(names, _ALL)])
            on = sanitize(self.there.python.on, 80)
            if there.stage:
                return _error(there, f"on {on}, ")
            outputs.append(there.outputs[0][0])
            label = f"onnxruntime {outcome.report['version']} against {on}"
        elif self.against == "reference":
            expected = _reference_outputs(model, feeds)
            if expected is None:
                return None
            outputs.append(expected)
            label = "ONNX Runtime against the ONNX reference implementation"
        diff = compared(outputs[0], outputs[1], self.tolerances)
        if diff.ok:
            return None
        return Failure(self.against, f"{label}: {diff.headline()[0]}", tuple(outputs))


_STAGES = {
    "session": "no session can be made",
    "run": "the run raises",
    "process": "the run ends the process",
}


def _error(outcome: elsewhere.Outcome, where: str = "") -> Failure:
    return Failure(
        outcome.stage,
        f"{where}{_STAGES[outcome.stage]}: {messages.one_line(sanitize(outcome.error, 2000))}",
    )


def _reference_outputs(model: ModelProto, feeds: dict[str, Any]) -> dict[str, Any] | None:
    """Run a model on the ONNX reference implementation; None if it cannot run it."""
    # An op of the registry with the name of an ONNX operator may itself be wrong.
    imported = protos.imported_versions(model)
    defined = set()
    for node in (site.node for site in protos.walk(model)):
        domain = op_names.canonical_domain(node.domain)
        if domain in imported and has_reference(node, imported[domain]):
            defined.add(f"{domain}::{node.op_type}")
    ops = [op for op in registry if op.name not in defined]
    try:
        source = model_files.read_model(model)
        source.proto = model_functions.inline_ops(
            source.proto, node_plans.is_op(source.proto, frozenset())
        )
        run = reference_run.trace_on_reference(source, feeds, None, keep=False, ops=ops)
    except Exception:
        return None
    return {name: run[name] for name in run.outputs}


def _gist(failure: Failure) -> str:
    """Return how a model fails without names and numbers; outputs may differ in any way."""
    if failure.outputs:
        return failure.kind
    return failure.kind + _PARTICULARS.sub("", _PARTICULARS.sub("", failure.text))


# ---- the search ----------------------------------------------------------------------------------


@dataclass
class _Search:
    """A search for the smallest failing model; ``best`` is the smallest so far."""

    best: ModelCut
    failure: Failure
    judge: _Judge
    recorder: str | Path
    deadline: float
    trials: int = 0

    def run(self) -> bool:
        """Shrink the model as far as possible, and tell whether the search finished in time."""
        try:
            if self.best.model.functions:
                # So that their nodes can also be left out. Most models have no functions.
                import onnx.inliner

                inlined = onnx.inliner.inline_local_functions(self.best.model)
                self._still_fails(ModelCut(inlined, self.best.feeds))
            self._leave_out_nodes()
            self._leave_out_outputs()
            self._shrink_arrays()
        except _OutOfTimeError:
            return False
        return True

    def _still_fails(self, cut: ModelCut | None) -> bool:
        """Try a smaller model, and keep it where it fails in the same way."""
        if cut is None:
            return False
        if time.monotonic() > self.deadline:
            raise _OutOfTimeError
        self.trials += 1
        progress.advance("trials", 1)
        try:
            failure = self.judge(cut.model, cut.feeds)
        except Exception:
            # The smaller model fails in another way, for instance because sizes no longer match.
            return False
        if failure is None or _gist(failure) != _gist(self.failure):
            return False
        self.best = cut
        self.failure = failure
        return True

    def _leave_out_nodes(self) -> None:
        parts = _Parts(*self.best)
        nodes = parts.nodes

        def shortest(part_of: Callable[[int], Sequence[int]], longest: int) -> int:
            """Find by halving how many nodes still fail."""
            low = 0
            high = longest
            while high - low > 1:
                middle = (low + high) // 2
                if self._still_fails(parts.cut(part_of(middle))):
                    high = middle
                else:
                    low = middle
            return high

        # From the end: the first node with which it fails is the last one.
        end = shortest(lambda count: nodes[:count], len(nodes))
        # The nodes before it give the feeds of the remaining ones.
        self._record(parts, nodes[: end - 1])
        nodes = nodes[:end]
        # From the beginning: the last node from which on it fails.
        length = shortest(lambda count: nodes[end - count :], end)
        self._leave_out_groups(parts, nodes[end - length :])

    def _record(self, parts: _Parts, nodes: Sequence[int]) -> None:
        """Record the outputs of the first nodes, of fewer if these also fail."""
        options: dict[str, Any] = {"optimized": False, "check": False, "times": False}
        while (before := parts.cut(nodes)) is not None:
            try:
                parts.values |= trace(*before, on=self.recorder, **options).items()
                return
            except Exception:
                nodes = nodes[: len(nodes) - 1 - len(nodes) // 16]

    def _leave_out_groups(self, parts: _Parts, nodes: Sequence[int]) -> None:
        """Leave out groups of nodes, first large and finally single ones, until none can go."""
        size = len(nodes)
        is_smaller = True
        while size > 1 or is_smaller:
            size = max(1, size // 2)
            is_smaller = False
            start = 0
            while start < len(nodes) > 1:
                remaining = [*nodes[:start], *nodes[start + size :]]
                if remaining and self._still_fails(parts.cut(remaining)):
                    nodes = remaining
                    is_smaller = True
                else:
                    start += size

    def _leave_out_outputs(self) -> None:
        names = [info.name for info in self.best.model.graph.output]
        for name in names[len(names) == 1 :]:
            copy = ModelSource(_copied(self.best.model))
            if self._still_fails(cut_out(copy, self.best.feeds, None, name)):
                return

    def _shrink_arrays(self) -> None:
        """Make axes shorter: first axes of one size together, then each alone."""
        for axes in _groups_of_axes(self.best):
            size = _size(self.best, axes[0])
            while size > 1:
                half = (size + 1) // 2
                # One element may do, or else the first half, or the second one.
                for kept in (slice(0, 1), slice(0, half), slice(size - half, size)):
                    if self._still_fails(_sliced(self.best, axes, kept)):
                        break
                else:
                    break
                size = _size(self.best, axes[0])


class _Parts:
    """A model whose nodes can be removed; their recorded outputs become feeds.

    Attributes
    ----------
    nodes : list of int
        Positions of the nodes in the graph; Constant nodes come along with the nodes that
        read them.
    values : dict
        The known values of its tensors.
    """

    def __init__(self, model: ModelProto, feeds: dict[str, Any]) -> None:
        self.model = model
        self.graph = TraceGraph(model)
        constants = self.graph.constants
        self.nodes = [p for p in range(len(self.graph.nodes)) if p not in constants]
        self.values = dict(feeds)

    def cut(self, positions: Sequence[int]) -> ModelCut | None:
        """Build a model of some nodes; None if there are none or an input was not recorded."""
        graph = self.graph
        reads = dict.fromkeys(name for p in positions for name in graph.reads[p])
        # Constants come along with the nodes that read them.
        inside = {*positions, *graph.constants}
        inputs = list(graph.inputs)
        for name in reads:
            if graph.producer.get(name, positions[0]) not in inside:
                inputs.append(name)
        outputs = []
        for position in positions:
            names = [name for name in graph.nodes[position].output if name]
            asked_for = [name for name in names if name in graph.outputs]
            # An unused output keeps nodes from being fused.
            if not asked_for and reads.keys().isdisjoint(names):
                asked_for = names[:1]
            outputs += asked_for
        try:
            return cut_out(ModelSource(_copied(self.model)), self.values, inputs or None, outputs)
        except InputError:
            return None


def _copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


# ---- sizes ---------------------------------------------------------------------------------------

_Axis = tuple[str, int]
"""The name of a feed or weight, and one of its axes."""


def _arrays(cut: ModelCut) -> dict[str, np.ndarray]:
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in cut.model.graph.initializer}
    for name, value in cut.feeds.items():
        # A sequence stays as it is.
        if isinstance(value, np.ndarray):
            arrays[name] = value
    return arrays


def _groups_of_axes(cut: ModelCut) -> list[list[_Axis]]:
    """List the axes to shorten: all of one size, which often belong together, then each."""
    by_size: dict[int, list[_Axis]] = {}
    for name, array in _arrays(cut).items():
        for axis, size in enumerate(array.shape):
            if size > 1:
                by_size.setdefault(size, []).append((name, axis))
    groups = [by_size[size] for size in sorted(by_size, reverse=True)]
    singles = [[axis] for group in groups for axis in group]
    return [*groups, *singles]


def _size(cut: ModelCut, axis: _Axis) -> int:
    return int(_arrays(cut)[axis[0]].shape[axis[1]])


def _sliced(cut: ModelCut, axes: Sequence[_Axis], kept: slice) -> ModelCut:
    """Shorten some axes; the runtime infers the sizes that depend on them."""
    arrays = _arrays(cut)
    for name, axis in axes:
        index = [slice(None)] * arrays[name].ndim
        index[axis] = kept
        arrays[name] = np.ascontiguousarray(arrays[name][tuple(index)])
    model = _copied(cut.model)
    changed = {name for name, _ in axes}
    for tensor in model.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    for info in model.graph.input:
        if info.name in arrays:
            info.type.CopyFrom(protos.type_proto(type_of(arrays[info.name])))
    for info in model.graph.output:
        for dim in info.type.tensor_type.shape.dim:
            dim.Clear()
    del model.graph.value_info[:]
    return ModelCut(model, {name: arrays.get(name, value) for name, value in cut.feeds.items()})

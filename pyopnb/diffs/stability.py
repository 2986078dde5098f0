"""How steady the numbers of a model are: one row for each way in which it may answer otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from google.protobuf.message import EncodeError
from onnx import ModelProto, NodeProto

from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import format_number
from pyopnb.diffs.tolerances import check_tolerances, is_float
from pyopnb.diffs.traces.compare import diff_traces, diff_with_arrays
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.optimizers import find_optimizers
from pyopnb.diffs.traces.steps import Tolerances
from pyopnb.errors import PyopError
from pyopnb.models.edit.widen import widen
from pyopnb.models.external_data import take_in_all
from pyopnb.models.io import read_model, to_model
from pyopnb.models.versions import FILL
from pyopnb.onnx_reference.evaluator import Evaluator
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.messages import hide_internal_frames, moved, plural, sanitize
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.registry import registry
from pyopnb.ops.text_table import Table
from pyopnb.runtime.node_kernel import NodeKernel
from pyopnb.runtime.one_run import session_for_run
from pyopnb.runtime.session.session import Session
from pyopnb.traces.optimized_run import session_at
from pyopnb.traces.run import runtime_text
from pyopnb.traces.trace import Trace

__all__ = ["HEAD", "Stability", "StabilityRow", "stability"]

# So many more runs of one session, and so many samples that run alone.
_REPEATS, _SAMPLES = 3, 4
# MaxPool only picks numbers, in float64 as well, and ONNX's takes a hundred times as long in Python. No model has this domain.
_IN_RUNTIME = "pyopnb.onnxruntime"


@dataclass(frozen=True)
class StabilityRow:
    """One way in which a model may answer otherwise.

    Attributes
    ----------
    name : str
        ``"run to run"``, ``"1 thread"``, ``"no optimizations"``, ``"basic optimizations"``, ``"sample alone"``,
        ``"inputs + 1 ULP"`` or ``"float64"``.
    diff : Diff or None
        The outputs in this way (a) against those of the usual run (b). In ``"float64"`` the usual run is a. None if the row
        cannot be, or was left out.
    reason : str
        Why it cannot be, or why no node was found, or what to type to have what was left out; else empty.
    argmax, order : dict
        By the names of float outputs: in how many places the largest element, or the order of all elements, is another one,
        and of how many. They are along the last axis, or along axis 1 where there are four axes or more.
    node : str
        The first node that differs; empty where none was looked for.
    """

    name: str
    diff: Diff | None = None
    reason: str = ""
    argmax: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    order: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    node: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether all outputs are within the tolerance and no argmax changed; True where the row cannot be."""
        changed = any(count for count, _ in self.argmax.values())
        return self.diff is None or (self.diff.ok and not changed)

    def cells(self, part: Part) -> tuple[str, ...]:
        """Write what is known of an output: verdict, largest difference, argmax and order.

        Parameters
        ----------
        part : Part
            One of ``diff.parts``.

        Returns
        -------
        tuple of str
        """
        largest = relative = ulp = ""
        facts = part.facts
        if facts is not None and facts.largest:
            largest = format_number(facts.largest)
            if facts.relative is not None:
                relative = format_number(facts.relative)
            if facts.ulp is not None:
                ulp = f"{facts.ulp:,}"
        output = str(part.path[0])
        argmax = _fraction(self.argmax.get(output))
        order = _fraction(self.order.get(output))
        return part.verdict, largest, relative, ulp, argmax, order


HEAD = ("verdict", "|a-b|", "× |b|", "ULP", "argmax changed", "order changed")


def _fraction(counts: tuple[int, int] | None) -> str:
    if counts is None or not counts[0]:
        return ""
    return f"{counts[0]:,} of {counts[1]:,}"


@dataclass(frozen=True, repr=False)
class Stability(Displayable):
    """How steady the numbers of a model are.

    Attributes
    ----------
    rows : tuple of StabilityRow
    runtime : str
        What the usual run was.
    """

    rows: tuple[StabilityRow, ...]
    runtime: str

    @property
    def ok(self) -> bool:
        """Tell whether no row is beyond the tolerance, nor changes an argmax."""
        return all(row.ok for row in self.rows)

    def __getitem__(self, name: str) -> StabilityRow:
        """Return the row of this name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def headline(self) -> str:
        """Say how many rows are beyond the tolerance."""
        first = self.rows[0]
        if not first.ok:
            return f"other numbers from run to run on {self.runtime}: {sanitize(first.node, 80)}"
        compared_rows = [row for row in self.rows if row.diff is not None]
        beyond = [row.name for row in compared_rows if not row.ok]
        total = plural(len(compared_rows), "way")
        if not beyond:
            return f"steady in {total}, against {self.runtime}"
        return f"unsteady in {len(beyond)} of {total}, against {self.runtime}: {', '.join(beyond)}"

    def __str__(self) -> str:
        lines, remarks = [], []
        for row in self.rows:
            reason = sanitize(row.reason, 200)
            if row.diff is None:
                remarks.append(f"{row.name}: {reason}")
                continue
            worst = row.diff.worst
            output = sanitize(str(worst.path[0]), 30)
            lines.append((row.name, output, *row.cells(worst), sanitize(row.node, 60)))
            if reason:
                remarks.append(f"{row.name}: {reason}")
        head = ("against the usual run", "worst output", *HEAD, "first node")
        texts = [self.headline, repr(Table(head, lines)), *remarks]
        return "\n".join(texts)

    __repr__ = __str__


@hide_internal_frames
@check_arguments
def stability(
    model: Any,
    /,
    *feeds: Any,
    rtol: float | None = None,
    atol: float | None = None,
    stol: float | None = None,
    search: bool = False,
    yardstick: bool = False,
    fill: bool = False,
    **named: Any,
) -> Stability:
    """Tell in which ways a model gives other numbers, and by how much.

    The model runs in ONNX Runtime with all optimizations and on all threads. Then it runs again: from run to run, on 1 thread,
    without optimizations and with the basic ones, with each of a few samples alone, and with inputs that are moved by one unit
    in the last place. Float64 on ONNX's reference implementation is the yardstick, where it is asked for.

    Parameters
    ----------
    model : ModelProto, bytes, path or Session
        A session gives its model with its attrs, and its providers; its other options are not used.
    *feeds, **named
        By name, or in the order of the model's inputs, or one dict of all by name.
    rtol, atol, stol : float, optional
        As for `diff`; without any, ``stol=True``, as kernels add up in different orders.
    search : bool
        Whether the first node is looked for where outputs are beyond the tolerance, or an argmax changed: a trace and its diff
        with that of the usual run for each such row, about eight times what a session and its run take.
    yardstick : bool
        Whether the model runs in float64 as well, node by node in Python, which takes most of the time where it is asked for.
    fill : bool
        As for `Session`: for a model with nodes that ONNX Runtime lacks.

    Returns
    -------
    Stability
        Its rows by name, as in ``stability(model, x)["1 thread"]``. A row that cannot be says why.

    Raises
    ------
    InputError
        A feed does not fit, or a tolerance is negative or not finite.
    ModelError
        The model cannot be used.
    Exception
        Whatever an op raised in the usual run.

    Notes
    -----
    It makes four sessions and at most thirteen runs, and so many calls of an op's ``compute``: about five times what
    ``pyopnb.run(model, x)`` costs. The rows say what ``search=True`` and ``yardstick=True`` would add.

    Axis 0 is that of samples where the first input has two axes or more and this one is not fixed; a single sample is repeated
    to make a batch. Inputs move up or down at random, always in the same way; zeros stay.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model([pyopnb.node("Exp", "x", "y")], {"x": "float32[N,2]"}, "y")
    >>> table = stability(model, np.float32([[0, 1], [2, 3]]), yardstick=True)
    >>> table["run to run"].diff.verdict, table["float64"].diff.ok
    ('bit-identical', True)
    """
    check_tolerances(rtol, atol, stol)
    if rtol is None and atol is None and stol is None:
        stol = True
    trials = _Trials(model, feeds, named, (rtol, atol, stol), search, fill)
    ways: list[tuple[str, Callable[[], StabilityRow]]] = [
        ("run to run", trials.run_to_run),
        ("1 thread", trials.one_thread),
        ("no optimizations", lambda: trials.level("no optimizations", "ORT_DISABLE_ALL")),
        ("basic optimizations", lambda: trials.level("basic optimizations", "ORT_ENABLE_BASIC")),
        ("sample alone", trials.samples_alone),
        ("inputs + 1 ULP", trials.moved_inputs),
        ("float64", lambda: trials.float64(yardstick)),
    ]
    rows = []
    with tracking("ways", len(ways)):
        for name, make_row in ways:
            try:
                row = make_row()
            except _CannotBeError as error:
                row = StabilityRow(name, reason=str(error))
            except Exception as error:
                # A kernel that only some levels have, or an operator without reference: the row says so.
                row = StabilityRow(name, reason=_first_line(error))
            rows.append(row)
            advance("ways", 1)
    return Stability(tuple(rows), trials.runtime)


_HIDDEN = "no node differs once its tensors are exposed, which changes what ONNX Runtime fuses"


class _CannotBeError(Exception):
    """Say why a row cannot be."""


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


class _Trials:
    """The usual run of a model, and runs of it in other ways."""

    def __init__(
        self,
        model: Any,
        feeds: Sequence[Any],
        named: Mapping[str, Any],
        tolerances: Tolerances,
        search: bool,
        fill: bool,
    ) -> None:
        self.tolerances, self.search = tolerances, search
        # Whether runs of one session differ, so that no other row can tell why its run does.
        self.is_random = False
        self.providers: list[Any] | None = None
        if isinstance(model, Session):
            provider_options = model.get_provider_options()
            self.providers = [(name, provider_options[name]) for name in model.get_providers()]
            model = model.to_model_proto()
        elif fill:
            # What stands in for nodes is in the model of the session, for all the sessions that follow.
            model = session_for_run(model, fill).to_model_proto()
        if isinstance(model, ModelProto):
            # Each of four sessions would write it to bytes again, which takes as long as to make one. Asking for its size
            # first would take as long; more than 2 GB are refused, and go to each session by themselves.
            with suppress(EncodeError):
                model = model.SerializeToString()
        self.model = model
        try:
            self.session = session_at(self.model, providers=self.providers)
        except PyopError as error:
            if error.next != FILL:
                raise
            raise moved(error, error.where, "fill=True") from None
        self.names = [info.name for info in self.session.get_outputs()]
        self.feeds = self.session._feeds.arrays(self.session._feeds.by_name(feeds, named))
        self.outputs = self.run(self.session, self.feeds)
        self.runtime = runtime_text(self.session._state, optimised=True)

    def run(self, session: Session, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run a session, and give the outputs by name."""
        return dict(zip(self.names, session.run(None, dict(feeds)), strict=True))

    @cached_property
    def trace(self) -> Trace:
        """Trace the usual run."""
        return _traced(self.session, self.feeds)

    def compare(
        self, name: str, a: Any, b: Any, find: Callable[[], TraceDiff], *, strict: bool = False
    ) -> StabilityRow:
        """Make the row of two runs; ``find`` compares their traces where a node is wanted."""
        diff = compared(a, b, *self.tolerances)
        argmax, order = _changed_order(a, b)
        row = StabilityRow(name, diff, "", argmax, order)
        # From run to run, one bit is of interest.
        is_steady = row.ok and not (strict and diff.verdict != "bit-identical")
        if is_steady:
            return row
        if self.is_random:
            reason = "not to be told from what differs from run to run"
            return StabilityRow(name, diff, reason, argmax, order)
        if not self.search:
            # A trace has a session of its own and holds all tensors: it costs more than all the rows.
            return StabilityRow(name, diff, "search=True finds the first node", argmax, order)
        try:
            node = _first_node(find())
        except Exception as error:
            reason = f"no node was looked for: {_first_line(error)}"
            return StabilityRow(name, diff, reason, argmax, order)
        reason = ""
        if not node and diff.ok:
            reason = "each node is within the tolerance"
        elif not node:
            reason = _HIDDEN
        return StabilityRow(name, diff, reason, argmax, order, node)

    # ---- the rows ------------------------------------------------------------------------------------------------------------

    def run_to_run(self) -> StabilityRow:
        """Run the same session again, and keep the run that differs most."""
        worst = self.outputs
        rank = -1
        for _ in range(_REPEATS):
            outputs = self.run(self.session, self.feeds)
            verdict = compared(outputs, self.outputs, *self.tolerances).verdict
            if VERDICTS.index(verdict) > rank:
                worst, rank = outputs, VERDICTS.index(verdict)

        def find() -> TraceDiff:
            # Sessions of one model draw the same numbers: nodes that run alone, twice in a session, do not.
            again = _traced(self.session, self.feeds)
            return diff_traces(again, self.trace, *self.tolerances)

        row = self.compare("run to run", worst, self.outputs, find, strict=True)
        self.is_random = not row.ok
        return row

    def one_thread(self) -> StabilityRow:
        """Run on one thread."""
        if (os.cpu_count() or 1) == 1:
            raise _CannotBeError("this machine has one core")
        return self._other_session(
            "1 thread", session_at(self.model, threads=1, providers=self.providers)
        )

    def level(self, name: str, level: str) -> StabilityRow:
        """Run at another level of optimization."""
        row = self._other_session(name, session_at(self.model, level, providers=self.providers))
        if row.reason != _HIDDEN or level != "ORT_DISABLE_ALL" or self.providers is not None:
            return row
        # What was exposed was not fused: runs without some of the optimizers expose nothing.
        optimizers = find_optimizers(self.model, self.feeds, self.tolerances)
        return replace(
            row, node=next(iter(optimizers.nodes), ""), reason=optimizers.workaround or _HIDDEN
        )

    def _other_session(self, name: str, session: Session) -> StabilityRow:
        def find() -> TraceDiff:
            return diff_traces(_traced(session, self.feeds), self.trace, *self.tolerances)

        return self.compare(name, self.run(session, self.feeds), self.outputs, find)

    def samples_alone(self) -> StabilityRow:
        """Run a few samples alone, and compare each with the same sample in the batch."""
        batched = self._batched_inputs()
        feeds, batch = dict(self.feeds), self.outputs
        size = len(feeds[batched[0]])
        if size == 1:
            # One sample is its own batch once it is repeated.
            size = _SAMPLES
            for name in batched:
                feeds[name] = np.repeat(feeds[name], size, axis=0)
            batch = self.run(self.session, feeds)
        alone: dict[str, list[Any]] = {}
        feeds_alone = []
        for index in range(min(size, _SAMPLES)):
            sample = dict(feeds)
            for name in batched:
                sample[name] = feeds[name][index : index + 1]
            feeds_alone.append(sample)
            for name, output in self.run(self.session, sample).items():
                alone.setdefault(name, []).append(output)
        a, b = {}, {}
        for name, outputs in alone.items():
            # Outputs of the whole batch, such as a mean, are not those of a sample.
            if _has_samples(batch[name], outputs[0], size):
                a[name] = np.concatenate(outputs)
                b[name] = batch[name][: len(outputs)]
        if not a:
            raise _CannotBeError("no output has a row for each sample")

        def find() -> TraceDiff:
            index = _worst_sample(compared(a, b, *self.tolerances))
            trace_alone = _traced(self.session, feeds_alone[index])
            arrays = {}
            for name, value in _results(_traced(self.session, feeds)):
                if name in trace_alone and _has_samples(value, trace_alone[name], size):
                    arrays[name] = value[index : index + 1]
            return diff_with_arrays(trace_alone, arrays, *self.tolerances, first=True)

        return self.compare("sample alone", a, b, find)

    def _batched_inputs(self) -> list[str]:
        """Name the inputs that have the samples on axis 0."""
        infos = [info for info in self.session.get_inputs() if info.name in self.feeds]
        if not infos or len(infos[0].shape) < 2:
            raise _CannotBeError("the first input has no axis of samples before another one")
        dim = infos[0].shape[0]
        if isinstance(dim, int):
            raise _CannotBeError(f"the batch is fixed at {dim}")
        size = self.feeds[infos[0].name].shape[0]
        names = []
        for info in infos:
            value = self.feeds[info.name]
            # An axis without a name is taken for that of samples where it is as long.
            is_open = bool(info.shape) and info.shape[0] in (dim, None)
            if is_open and len(value) == size:
                names.append(info.name)
        if not size:
            raise _CannotBeError("the batch has no samples")
        return names

    def moved_inputs(self) -> StabilityRow:
        """Move each float input by one unit in the last place, up or down at random."""
        feeds = dict(self.feeds)
        generator = np.random.default_rng(0)
        is_moved = False
        for name, value in self.feeds.items():
            if isinstance(value, np.ndarray) and value.size and is_float(value):
                signs = generator.integers(0, 2, value.shape) * 2 - 1
                target = np.copysign(np.inf, signs).astype(value.dtype)
                # Zeros are padding and masks more often than results, and below 0 a Log is NaN.
                is_number = np.isfinite(value) & (value != 0)
                feeds[name] = np.where(is_number, np.nextafter(value, target), value)
                is_moved = True
        if not is_moved:
            raise _CannotBeError("no input has floats")

        def find() -> TraceDiff:
            arrays = dict(_results(self.trace))
            return diff_with_arrays(
                _traced(self.session, feeds), arrays, *self.tolerances, first=True
            )

        return self.compare("inputs + 1 ULP", self.run(self.session, feeds), self.outputs, find)

    def float64(self, wanted: bool) -> StabilityRow:
        """Run the model in float64 on the reference implementation."""
        if not wanted:
            # A convolution in Python takes a hundred times as long as its kernel.
            raise _CannotBeError("not run: yardstick=True")
        source = read_model(self.model)
        model = to_model(source)
        if source.folder is not None:
            take_in_all(model, source.folder)
        wide = widen(model)
        for node in wide.graph.node:
            is_ours = registry.find(node.domain, node.op_type) is not None
            if node.op_type == "MaxPool" and not node.domain and not is_ours:
                node.domain = _IN_RUNTIME
        evaluator = Evaluator(wide, registry, _kernel)
        feeds = {}
        for name, value in self.feeds.items():
            is_number = isinstance(value, np.ndarray) and is_float(value)
            feeds[name] = value.astype(np.float64) if is_number else value
        values = evaluator.run(feeds)
        _check_wide(model, values)
        expected = {}
        for name in self.names:
            expected[name] = _rounded(values[name], self.outputs[name])

        def find() -> TraceDiff:
            arrays = {}
            for name, value in _results(self.trace):
                if name in values:
                    arrays[name] = _rounded(values[name], value)
            return diff_with_arrays(self.trace, arrays, *self.tolerances, first=True)

        return self.compare("float64", self.outputs, expected, find)


def _kernel(node: NodeProto, versions: Mapping[str, int]) -> NodeKernel:
    """Make the kernel of a node that the reference implementation does not run."""
    copied = NodeProto()
    copied.CopyFrom(node)
    if copied.domain == _IN_RUNTIME:
        copied.domain = ""
    return NodeKernel(copied, versions)


def _traced(session: Session, feeds: Mapping[str, Any]) -> Trace:
    trace: Trace = session.trace(dict(feeds), times=False, check=False)
    return trace


def _results(trace: Trace) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a trace that nodes made."""
    for name, value in trace.items():
        if name not in trace.feeds:
            yield name, value


def _first_node(diff: TraceDiff) -> str:
    """Name the first node that is not steady or is beyond the tolerance, after those that could not be compared."""
    over = []
    for step in diff.steps:
        if step.nondeterministic:
            return step.name
        if step.verdict not in ("same", "hides"):
            over.append(step)
    first = diff.origin
    if first is None:
        first = next(iter(over), None)
    if first is None:
        return ""
    if first.between:
        return f"{first.between[0]} … {first.name}"
    return first.name


def _has_samples(batch: Any, alone: Any, size: int) -> bool:
    """Tell whether an array has a row for each sample, and the other one that of one sample."""
    if not isinstance(batch, np.ndarray) or not isinstance(alone, np.ndarray):
        return False
    return bool(batch.shape[:1] == (size,) and alone.shape == (1, *batch.shape[1:]))


def _worst_sample(diff: Diff) -> int:
    """Return the sample whose element is the farthest off."""
    facts = diff.worst.facts
    if facts is not None and facts.worst:
        return int(facts.worst[0].index[0])
    return 0


def _changed_order(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Count in how many places the argmax, and the order of all elements, is another one."""
    argmax, order = {}, {}
    for name, value in a.items():
        expected = b[name]
        is_array = isinstance(value, np.ndarray) and isinstance(expected, np.ndarray)
        if not is_array or not is_float(value) or value.shape != expected.shape:
            continue
        if not value.size or not value.ndim:
            continue
        # Images and their scores have the classes on axis 1.
        axis = 1 if value.ndim >= 4 else -1
        rankings = value.size // value.shape[axis]
        if value.shape[axis] < 2:
            continue
        tops = np.argmax(value, axis) != np.argmax(expected, axis)
        argmax[name] = int(np.count_nonzero(tops)), rankings
        # A stable order, so that equal elements do not count.
        sides = np.argsort(value, axis, kind="stable"), np.argsort(expected, axis, kind="stable")
        order[name] = int(np.count_nonzero((sides[0] != sides[1]).any(axis))), rankings
    return argmax, order


def _rounded(value: Any, like: Any) -> Any:
    """Round a result in float64 to the dtype of the usual run."""
    if isinstance(value, list) and isinstance(like, list) and len(value) == len(like):
        return [_rounded(item, partner) for item, partner in zip(value, like, strict=True)]
    if not isinstance(value, (np.ndarray, np.generic)) or not isinstance(like, np.ndarray):
        return value
    array = np.asarray(value)
    if array.dtype == np.float64 and is_float(like):
        with np.errstate(over="ignore", under="ignore"):
            return array.astype(like.dtype)
    if array.dtype.kind in "UT":
        return array.astype(object)
    return array


def _check_wide(model: Any, values: Mapping[str, Any]) -> None:
    """Refuse a run of which a node computed in a narrower float after all."""
    for node in model.graph.node:
        for name in node.output:
            value = values.get(name)
            if not isinstance(value, (np.ndarray, np.generic)):
                continue
            if is_float(np.asarray(value)) and value.dtype != np.float64:
                label = sanitize(node.name or name, 60)
                raise _CannotBeError(f"{label} ({node.op_type}) computes in {value.dtype}")

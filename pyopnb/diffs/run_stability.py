"""How stable a model's numbers are, with one row for each other way to run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from pyopnb.common import Displayable, NamedItems, Table, plural, progress, sanitize
from pyopnb.diffs.arrays.diff import Diff, compared
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import format_number
from pyopnb.diffs.tolerances import Tolerances, is_float
from pyopnb.diffs.traces.compare import diff_traces, diff_with_arrays
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.widening import widen
from pyopnb.engine import (
    Session,
    check_arguments,
    external_files,
    model_files,
    one_run,
    registry,
    to_model,
)
from pyopnb.onnx_reference import Evaluator
from pyopnb.traces import Trace, optimized_run

__all__ = ["HEAD", "Stability", "StabilityRow", "stability"]

HEAD = ("verdict", "|a-b|", "× |b|", "ULP", "argmax changed")

_ROWS = (
    "run to run",
    "1 thread",
    "no optimizations",
    "basic optimizations",
    "sample alone",
    "inputs + 1 ULP",
    "float64",
)
# How many more runs of one session there are, and how many samples run alone.
_REPEATS = 3
_SAMPLES = 4
_HIDDEN = (
    "no node differs once its tensors are recorded, which changes what ONNX Runtime fuses: "
    'first_divergence(model, feeds, over="optimizers")'
)


@dataclass(frozen=True)
class StabilityRow:
    """One way to run a model that may change its numbers.

    Attributes
    ----------
    name : str
        ``"run to run"``, ``"1 thread"``, ``"no optimizations"``, ``"basic optimizations"``,
        ``"sample alone"``, ``"inputs + 1 ULP"`` or ``"float64"``.
    diff : Diff or None
        The outputs of this row (a) against the outputs of the usual run (b). In ``"float64"``, the
        usual run is a. None if the row could not be measured or was left out.
    reason : str
        Why the row could not be measured, why no node was found, or what to type to include a row
        that was left out; otherwise empty.
    argmax : dict
        For each float output, in how many places the largest element changed, and out of how many.
        Elements are compared along the last axis, or along axis 1 if there are four axes or more.
    node : str
        The first node that differs; empty if it was not searched for.
    """

    name: str
    diff: Diff | None = None
    reason: str = ""
    argmax: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    node: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether all outputs are within the tolerance and no argmax changed.

        It is true if the row was not measured.
        """
        if self.diff is None:
            return True
        return self.diff.ok and not any(count for count, _ in self.argmax.values())

    def cells(self, part: Part) -> tuple[str, ...]:
        """Format an output, one of ``diff.parts``, for the columns of `HEAD`.

        Returns
        -------
        tuple of str
            One text for each column.
        """
        cells = [part.verdict, "", "", ""]
        facts = part.facts
        if facts is not None and facts.largest:
            for place, size in enumerate((facts.largest, facts.relative, facts.ulp), 1):
                cells[place] = "" if size is None else format_number(size)
        count, total = self.argmax.get(str(part.path[0]), (0, 0))
        cells.append(f"{count:,} of {total:,}" if count else "")
        return tuple(cells)


@dataclass(frozen=True, repr=False)
class Stability(NamedItems, Displayable):
    """How stable a model's numbers are.

    Attributes
    ----------
    rows : tuple of StabilityRow
        One for each way to run the model that was tried.
    runtime : str
        The runtime and level of the usual run.
    """

    rows: tuple[StabilityRow, ...]
    runtime: str

    @property
    def ok(self) -> bool:
        """Tell whether no row exceeds the tolerance or changes an argmax."""
        return all(row.ok for row in self.rows)

    def __getitem__(self, name: str) -> StabilityRow:
        """Return the row of this name."""
        return {row.name: row for row in self.rows}[name]

    @property
    def headline(self) -> str:
        """Say how many rows exceed the tolerance."""
        if not self.rows[0].ok:
            return (
                f"other numbers from run to run on {self.runtime}: "
                f"{sanitize(self.rows[0].node, 80)}"
            )
        total = plural(sum(row.diff is not None for row in self.rows), "way")
        beyond = [row.name for row in self.rows if not row.ok]
        if not beyond:
            return f"steady in {total}, against {self.runtime}"
        return f"unsteady in {len(beyond)} of {total}, against {self.runtime}: {', '.join(beyond)}"

    def __str__(self) -> str:
        lines = []
        remarks = []
        for row in self.rows:
            if row.diff is not None:
                worst = row.diff.worst
                output = sanitize(str(worst.path[0]), 30)
                lines.append((row.name, output, *row.cells(worst), sanitize(row.node, 60)))
            if row.reason:
                remarks.append(f"{row.name}: {sanitize(row.reason, 200)}")
        head = ("against the usual run", "worst output", *HEAD, "first node")
        return "\n".join([self.headline, repr(Table(head, lines)), *remarks])

    __repr__ = __str__


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
    """Measure how much a model's numbers change if it runs in other ways.

    The usual run is in ONNX Runtime with all optimizations and on all threads. Then the model runs
    again in the same way, on 1 thread, without optimizations, with the basic ones, with each of a
    few samples alone, and with inputs that are moved by one unit in the last place. With
    ``yardstick=True``, it also runs in float64 in the ONNX reference implementation.

    Parameters
    ----------
    model : ModelProto, bytes, path or Session
        Of a session, the model, its attrs and the providers are used, but no other options.
    *feeds, **named
        By name, or in the order of the model's inputs, or one dict of all by name.
    rtol, atol, stol : float, optional
        As for `diff`, but the default is ``stol=True``, because kernels add up in different orders.
    search : bool
        Whether to search for the first node that differs, in each row whose outputs exceed the
        tolerance or whose argmax changed. This traces such a row and compares the trace with
        the usual run, which takes about eight times as long as a session and its run.
    yardstick : bool
        Whether the model also runs in float64, node by node in Python, which then takes most of the
        time.
    fill : bool
        As for `Session`, for a model with nodes that ONNX Runtime lacks.

    Returns
    -------
    Stability
        The rows by name, as in ``stability(model, x)["1 thread"]``. A row that could not be
        measured says why.

    Raises
    ------
    InputError
        A feed does not fit, or a tolerance is negative or not finite.
    ModelError
        The model cannot be used.
    Exception
        The exception that an op raised in the usual run.

    Notes
    -----
    The usual run takes a session and a run, ``"run to run"`` three more runs, ``"1 thread"`` and
    each level of optimization a session and a run, ``"sample alone"`` at most five runs, and
    ``"inputs + 1 ULP"`` one. That makes four sessions and at most thirteen runs, about five times
    the cost of ``pyopnb.run(model, x)``, and each run calls ``compute`` of your ops.
    ``yardstick=True`` and ``search=True`` cost more, and the rows say where they would help.

    Samples are along axis 0 if the first input has at least two axes and the size of axis 0 is not
    fixed; a single sample is repeated to make a batch. Inputs move up or down at random, with a
    fixed seed; zeros stay.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model([pyopnb.node("Exp", "x", "y")], {"x": "float32[N,2]"}, "y")
    >>> table = stability(model, np.float32([[0, 1], [2, 3]]), yardstick=True)
    >>> table["run to run"].diff.verdict, table["float64"].diff.ok
    ('bit-identical', True)
    """
    tolerances = Tolerances(rtol, atol, stol)
    tolerances.check()
    trials = _Trials(model, feeds, named, tolerances.or_scaled(), search, fill)
    # The rows that take the usual session come first, as then it can be closed.
    ways: dict[str, Callable[[], _Way]] = {
        "run to run": trials.run_to_run,
        "sample alone": trials.samples_alone,
        "inputs + 1 ULP": trials.moved_inputs,
        "1 thread": lambda: trials.other_session(threads=1),
        "no optimizations": lambda: trials.other_session(level="ORT_DISABLE_ALL"),
        "basic optimizations": lambda: trials.other_session(level="ORT_ENABLE_BASIC"),
        "float64": trials.float64,
    }
    rows: dict[str, StabilityRow] = {}
    with progress.tracking("ways", len(ways)):
        for name, run in ways.items():
            if name == "1 thread" and not search:
                trials.session.state.close()
            if name == "float64" and not yardstick:
                # A convolution in Python takes a hundred times as long as its kernel.
                row = StabilityRow(name, reason="not run: yardstick=True")
            else:
                is_random = bool(rows) and not rows["run to run"].ok
                row = trials.row(name, run, is_random=is_random)
            rows[name] = row
            progress.advance("ways", 1)
    return Stability(tuple(rows[name] for name in _ROWS), trials.runtime)


class _CannotBeError(Exception):
    """Say why a row could not be measured."""


def _first_line(error: Exception) -> str:
    if isinstance(error, _CannotBeError):
        return str(error)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


class _Way(NamedTuple):
    """The outputs of two runs by name, and a function that compares their traces."""

    a: Mapping[str, Any]
    b: Mapping[str, Any]
    find: Callable[[], TraceDiff]


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
        self.tolerances = tolerances
        self.search = search
        self.providers: list[Any] | None = None
        if isinstance(model, Session):
            # In the order in which ONNX Runtime tries them.
            provider_options = model.get_provider_options()
            self.providers = [(name, provider_options[name]) for name in model.get_providers()]
            model = model.to_model_proto()
        self.session = one_run.session_for_run(model, fill, providers=self.providers)
        # The session's model has the filled nodes, for all the sessions that follow.
        self.model = self.session.to_model_proto() if fill else model
        if isinstance(self.model, ModelProto) and not self.session.state.taken_out:
            # Copying and serializing the weights for each of them takes as long
            # as ONNX Runtime does.
            self.model = self.model.SerializeToString()
        self.names = [info.name for info in self.session.get_outputs()]
        self.feeds = self.session.state.feeds.arrays(self.session.state.feeds.by_name(feeds, named))
        self.outputs = self.run(self.session, self.feeds)
        self.runtime = optimized_run.runtime_text(self.session.state, optimized=True)

    def run(self, session: Session, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run a session, and give the outputs by name."""
        return dict(zip(self.names, session.run(None, dict(feeds)), strict=True))

    @cached_property
    def trace(self) -> Trace:
        """Trace the usual run."""
        return _traced(self.session, self.feeds)

    def row(self, name: str, run: Callable[[], _Way], is_random: bool) -> StabilityRow:
        """Compare two runs, and find the first node that differs if asked to."""
        try:
            traces = run()
        except Exception as error:
            # A fixed batch, a kernel that only some levels have, or an operator without
            # reference: the row says so.
            return StabilityRow(name, reason=_first_line(error))
        diff = compared(traces.a, traces.b, self.tolerances)
        row = StabilityRow(name, diff, "", _changed_argmax(traces.a, traces.b))
        # Between repeated runs, even one bit counts.
        if row.ok and (name != "run to run" or diff.verdict == "bit-identical"):
            return row
        if is_random:
            return replace(row, reason="cannot be distinguished from differences between runs")
        if not self.search:
            # A trace builds its own session and holds all tensors, which costs more
            # than all rows together.
            return replace(row, reason="search=True finds the first node")
        try:
            node = _first_node(traces.find())
        except Exception as error:
            return replace(row, reason=f"the first node was not searched for: {_first_line(error)}")
        if node:
            return replace(row, node=node)
        reason = "each node is within the tolerance" if diff.ok else _HIDDEN
        return replace(row, reason=reason)

    # ---- the rows

    def run_to_run(self) -> _Way:
        """Run the same session again, and keep the run that differs most."""
        worst, least = self.outputs, -1
        for _ in range(_REPEATS):
            outputs = self.run(self.session, self.feeds)
            verdict = compared(outputs, self.outputs, self.tolerances).verdict
            if VERDICTS.index(verdict) > least:
                worst, least = outputs, VERDICTS.index(verdict)
        # Sessions of one model draw the same numbers: nodes that run alone, twice
        # in a session, do not.
        return self._usual_against(worst, self.session, self.feeds)

    def _usual_against(
        self, outputs: Mapping[str, Any], session: Session, feeds: Mapping[str, Any]
    ) -> _Way:
        def find() -> TraceDiff:
            return diff_traces(_traced(session, feeds), self.trace, self.tolerances)

        return _Way(outputs, self.outputs, find)

    def other_session(self, level: str = "ORT_ENABLE_ALL", threads: int = 0) -> _Way:
        """Run at another level of optimization or on other threads."""
        if threads and (os.cpu_count() or 1) == 1:
            raise _CannotBeError("this machine has one core")
        session = optimized_run.session_at(
            self.model, level, threads=threads, providers=self.providers
        )
        return self._usual_against(self.run(session, self.feeds), session, self.feeds)

    def samples_alone(self) -> _Way:
        """Run a few samples alone, and compare each with the same sample in the batch."""
        batched = self._batched_inputs()
        feeds = dict(self.feeds)
        batch = self.outputs
        size = len(feeds[batched[0]])
        if size == 1:
            # A batch of one sample is made larger by repeating it.
            size = _SAMPLES
            for name in batched:
                feeds[name] = np.repeat(feeds[name], size, axis=0)
            batch = self.run(self.session, feeds)
        samples = []
        for index in range(min(size, _SAMPLES)):
            alone = {name: feeds[name][index : index + 1] for name in batched}
            samples.append({**feeds, **alone})
        runs = [self.run(self.session, sample) for sample in samples]
        a = {}
        b = {}
        for name in self.names:
            # Outputs of the whole batch, such as a mean, do not belong to a sample.
            if _has_samples(batch[name], runs[0][name], size):
                a[name] = np.concatenate([run[name] for run in runs])
                b[name] = batch[name][: len(runs)]
        if not a:
            raise _CannotBeError("no output has a row for each sample")

        def find() -> TraceDiff:
            # The trace records the sample with the largest error.
            facts = compared(a, b, self.tolerances).worst.facts
            index = facts.worst[0].index[0] if facts is not None and facts.worst else 0
            trace_alone = _traced(self.session, samples[index])
            arrays = {}
            for name, value in _results(_traced(self.session, feeds)):
                if name in trace_alone and _has_samples(value, trace_alone[name], size):
                    arrays[name] = value[index : index + 1]
            return diff_with_arrays(trace_alone, arrays, self.tolerances, first=True)

        return _Way(a, b, find)

    def _batched_inputs(self) -> list[str]:
        """Name the inputs that have the samples on axis 0."""
        infos = [info for info in self.session.get_inputs() if info.name in self.feeds]
        if not infos or len(infos[0].shape) < 2:
            raise _CannotBeError("the first input has no axis of samples before another one")
        dim = infos[0].shape[0]
        if isinstance(dim, int):
            raise _CannotBeError(f"the batch is fixed at {dim}")
        size = len(self.feeds[infos[0].name])
        names = []
        for info in infos:
            # An axis without a name counts as the axis of samples if it has the same length.
            is_open = bool(info.shape) and info.shape[0] in (dim, None)
            if is_open and len(self.feeds[info.name]) == size:
                names.append(info.name)
        return names

    def moved_inputs(self) -> _Way:
        """Move each float input by one unit in the last place, up or down at random."""
        feeds = dict(self.feeds)
        generator = np.random.default_rng(0)
        for name, value in self.feeds.items():
            if isinstance(value, np.ndarray) and value.size and is_float(value):
                signs = generator.integers(0, 2, value.shape) * 2 - 1
                target = np.copysign(np.inf, signs).astype(value.dtype)
                # Zeros are padding and masks more often than results, and below 0 a Log is NaN.
                is_number = np.isfinite(value) & (value != 0)
                feeds[name] = np.where(is_number, np.nextafter(value, target), value)
        if all(feeds[name] is value for name, value in self.feeds.items()):
            raise _CannotBeError("no input has floats")
        return self._usual_against(self.run(self.session, feeds), self.session, feeds)

    def float64(self) -> _Way:
        """Run the model in float64 on the reference implementation."""
        source = model_files.read_model(self.model)
        model = to_model(source)
        external_files.take_in_all(model, source.folder)
        feeds = {name: _cast(value, np.float64) for name, value in self.feeds.items()}
        values = Evaluator(widen(model), registry).run(feeds)
        for node in model.graph.node:
            for name in node.output:
                value = np.asarray(values.get(name))
                # A user's op, or a node that casts, may compute in a
                # narrower float after all.
                if is_float(value) and value.dtype != np.float64:
                    label = sanitize(node.name or name, 60)
                    raise _CannotBeError(f"{label} ({node.op_type}) computes in {value.dtype}")

        def expected(results: Mapping[str, Any]) -> dict[str, Any]:
            arrays = {}
            for name, value in results.items():
                if name in values and isinstance(value, np.ndarray):
                    arrays[name] = _cast(np.asarray(values[name]), value.dtype)
            return arrays

        def find() -> TraceDiff:
            arrays = expected(dict(_results(self.trace)))
            return diff_with_arrays(self.trace, arrays, self.tolerances, first=True)

        arrays = expected(self.outputs)
        return _Way({name: self.outputs[name] for name in arrays}, arrays, find)


def _traced(session: Session, feeds: Mapping[str, Any]) -> Trace:
    trace: Trace = session.trace(dict(feeds), times=False, check=False)
    return trace


def _results(trace: Trace) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a trace that nodes made."""
    for name, value in trace.items():
        if name not in trace.feeds:
            yield name, value


def _first_node(diff: TraceDiff) -> str:
    """Name the first nondeterministic node, or else the first one beyond the tolerance."""
    random = [step for step in diff.steps if step.nondeterministic]
    over = [step for step in diff.steps if step.verdict not in ("same", "hides")]
    first = next(iter((*random, *diff.origins, *over)), None)
    if first is None:
        return ""
    if first.between and not random:
        return f"{first.between[0]} … {first.name}"
    return first.name


def _has_samples(batch: Any, alone: Any, size: int) -> bool:
    """Tell whether one array is the whole batch, and the other a single sample of it."""
    if not isinstance(batch, np.ndarray) or not isinstance(alone, np.ndarray):
        return False
    return bool(batch.shape[:1] == (size,) and alone.shape == (1, *batch.shape[1:]))


def _changed_argmax(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Count the places where the largest element is another one."""
    argmax = {}
    for name, value in a.items():
        if not isinstance(value, np.ndarray) or not is_float(value) or not value.size:
            continue
        # Images and their scores have the classes on axis 1.
        axis = 1 if value.ndim >= 4 else -1
        if np.shape(b[name]) != value.shape or not value.ndim or value.shape[axis] < 2:
            continue
        changed = np.argmax(value, axis) != np.argmax(b[name], axis)
        argmax[name] = int(np.count_nonzero(changed)), changed.size
    return argmax


def _cast(value: Any, dtype: Any) -> Any:
    """Give an array of floats another float dtype; leave everything else as it is."""
    if isinstance(value, np.ndarray) and is_float(value):
        with np.errstate(over="ignore", under="ignore"):
            return value.astype(dtype)
    return value

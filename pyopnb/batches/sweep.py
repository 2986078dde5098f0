"""``pyopnb.sweep``: a session run over a range of attrs or feeds, without changing it, here or by an executor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pyopnb.batches.work import Run, Work, WorkKind, check_executor
from pyopnb.errors import InputError, PyopError
from pyopnb.ops.arguments import check_arguments, describe
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize, suggest
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.result import Result
from pyopnb.ops.text_table import Table
from pyopnb.ops.types import TensorType
from pyopnb.runtime.feeds import feeds_by_name
from pyopnb.runtime.session.live_attrs import select_kernels
from pyopnb.runtime.session.session import Session
from pyopnb.traces.summary import summary_of

__all__ = ["KIND", "Sweep", "SweepRun", "sweep"]

_MOST_RUNS = 10_000
_MOST_ROWS = 50


@dataclass(frozen=True, eq=False)
class SweepRun:
    """One run of a sweep.

    Attributes
    ----------
    number : int
        Its place among the combinations.
    values : dict
        What was set, by name.
    result : Result or None
        None if the run raised.
    error : Exception or None
    seconds : float
        Of the run itself, where it ran.
    """

    number: int
    values: Mapping[str, Any]
    result: Result | None
    error: Exception | None
    seconds: float


class Sweep(Displayable, Sequence[SweepRun]):
    """The runs of a sweep, in the order of ``itertools.product``; created by `sweep`.

    It prints as a table, and displays itself as a table, a sheet of pictures with the same colours, and a plot.
    ``pyopnb.show(sweep, output="y")`` chooses the output.

    Attributes
    ----------
    axes : dict
        The values of each name that was varied.
    runs : list of SweepRun
        Those that were made.
    """

    def __init__(self, axes: Mapping[str, Sequence[Any]], runs: Sequence[SweepRun]) -> None:
        self.axes = {name: list(values) for name, values in axes.items()}
        self.runs = list(runs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return how many values each name has."""
        return tuple(map(len, self.axes.values()))

    @property
    def is_complete(self) -> bool:
        """Tell whether all runs were made; interrupting the kernel keeps those before."""
        return len(self.runs) == math.prod(self.shape)

    @property
    def missing(self) -> list[int]:
        """List the combinations without a result: not run, or their run raised."""
        match = {run.number for run in self.runs if run.result is not None}
        return [number for number in range(math.prod(self.shape)) if number not in match]

    def __getitem__(self, index: Any) -> Any:
        try:
            return self.runs[index]
        except (TypeError, IndexError) as error:
            expected = f"the number of one of {plural(len(self.runs), 'run')}, or a slice"
            refused = InputError(
                "sweep",
                expected=expected,
                got=describe(index),
                next="sweep[0]" if self.runs else None,
            )
            raise (refused if isinstance(error, TypeError) else IndexError(str(refused))) from None

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[SweepRun]:
        return iter(self.runs)

    def array(self, output: str | int = 0) -> np.ndarray:
        """Stack an output of all runs into an array whose first axes are those of the sweep.

        Parameters
        ----------
        output : str or int
            Its name or position.

        Returns
        -------
        ndarray

        Raises
        ------
        InputError
            A run raised or was not made, or the shapes differ.
        """
        arrays = [run.result[output] for run in self.runs if run.result is not None]
        shapes = {np.shape(array) for array in arrays}
        if len(arrays) < math.prod(self.shape) or len(shapes) != 1:
            got = f"{len(arrays)} results" + (
                f" of {len(shapes)} shapes" if len(shapes) > 1 else ""
            )
            expected = f"{math.prod(self.shape)} results of one shape"
            raise InputError(
                "sweep, array", expected=expected, got=got, next="[run.result for run in sweep]"
            )
        return np.stack(arrays).reshape(*self.shape, *shapes.pop())

    def labels(self, run: SweepRun) -> dict[str, str]:
        """Return what was set for a run; an array is called by its place in the list.

        Parameters
        ----------
        run : SweepRun

        Returns
        -------
        dict of str
        """
        positions = np.unravel_index(run.number, self.shape)
        return {
            name: f"{name}[{position}]" if isinstance(value, np.ndarray) else _short(value)
            for (name, value), position in zip(run.values.items(), positions, strict=True)
        }

    @hide_internal_frames
    @check_arguments
    def table(self, most: int = _MOST_ROWS) -> Table:
        """Return the runs as rows: what was set, what came out, and how long it took.

        Parameters
        ----------
        most : int
            Rows.

        Returns
        -------
        Table
        """
        outputs = list(next((run.result.keys() for run in self.runs if run.result is not None), ()))
        rows = [
            [
                *self.labels(run).values(),
                *(
                    (_words(run, output) for output in outputs)
                    if run.error is None
                    else [_error(run), *[""] * (len(outputs) - 1)]
                ),
                f"{run.seconds * 1e3:.3g}",
            ]
            for run in self.runs[:most]
        ]
        return Table([*self.axes, *outputs, "ms"], rows, "no runs")

    def __repr__(self) -> str:
        lines = [repr(self.table())]
        if len(self.runs) > _MOST_ROWS:
            lines.append(f"and {len(self.runs) - _MOST_ROWS:,} more")
        if not self.is_complete:
            lines.append(f"interrupted after {len(self.runs):,} of {math.prod(self.shape):,} runs")
        return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else sanitize(value, 40)


def _error(run: SweepRun) -> str:
    return sanitize(f"{type(run.error).__name__}: {run.error}", 80)


def _words(run: SweepRun, output: str) -> str:
    """Describe an output in a few words: its value, or its range and mean."""
    if run.result is None:
        return ""
    value = run.result[output]
    if (
        isinstance(value, (np.ndarray, np.generic))
        and value.size == 1
        and value.dtype.kind not in "OUT"
    ):
        return _short(value.item())
    kind, span, *_, special = (summary := summary_of(value)).cells
    mean = (
        f", mean {summary.mean:.4g}"
        if summary.mean is not None and summary.least != summary.greatest
        else ""
    )
    return ", ".join(filter(None, [f"{span or kind}{mean}", special]))


@hide_internal_frames
def sweep(session: Any, /, *feeds: Any, executor: Executor | None = None, **named: Any) -> Sweep:
    """Run a session for each of several values of attrs or feeds, or for each combination of them.

    The session keeps its attrs: the runs use those of `Session.with_attrs`.

    Parameters
    ----------
    session : Session, or a model
    *feeds, **named
        By name of an input of the model: an array, which is fed to every run, or a list of arrays, each for a run. Where the
        model takes a single number: a list, range or array of numbers. By name of an attr of its ops, as for `interact`:
        a list, range or array of values, or one value. Where several ops have the attr: ``**{"SoftClip.limit": [0.1, 1.0]}``.
    executor : Executor, optional
        As for `map`: threads, processes, or a cluster. This thread alone if not given.

    Returns
    -------
    Sweep
        An exception of a run is part of it, unless all runs raise. An interrupt keeps what is done; with an executor it is as
        for `map`.

    Raises
    ------
    InputError
        A name is unknown, nothing is varied, or there are more than 10,000 combinations.
    Exception
        What the first run raised, if no run succeeded.
    InputError, DefinitionError, concurrent.futures.BrokenExecutor
        As for `map`; what was done is in the attribute ``sweep`` of the exception.

    Notes
    -----
    An attr or input that is called ``executor`` is given as ``**{"SoftClip.executor": …}``, or
    by position.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Clip")
    ... class Clip:
    ...     def __init__(self, limit: float = 1.0):
    ...         self.limit = limit
    ...     def compute(self, x):
    ...         return np.clip(x, -self.limit, self.limit).astype(x.dtype)
    >>> session = Session(pyopnb.model([pyopnb.node("doctest::Clip", "x", "y")], {"x": "float32[N]"}, "y"))
    >>> found = sweep(session, x=np.float32([1, 2, 3]), limit=np.linspace(1, 3, 3))
    >>> found.array("y").tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 3.0]]
    """
    __tracebackhide__ = True
    check_executor(executor, "sweep")
    session = session if isinstance(session, Session) else Session(session)
    types = session._feeds.types
    values = feeds_by_name(list(types), feeds, named)
    fixed = {
        name: value
        for name, value in values.items()
        if name in types and not _is_varied_feed(value, types[name])
    }
    axes = {
        name: _values(session, name, value) for name, value in values.items() if name not in fixed
    }
    count = math.prod(map(len, axes.values()))
    if not axes or not 1 <= count <= _MOST_RUNS:
        got = f"{count:,} combinations" if axes else "one value of each"
        raise InputError(
            "sweep",
            expected=f"1 to {_MOST_RUNS:,} combinations",
            got=got,
            next=_suggestion(session),
        )
    if executor is not None:
        return _executed(session, executor, fixed, axes)
    if any(name not in types for name in axes):
        session = session.with_attrs()
    return Sweep(axes, _runs(session, fixed, axes, count))


def _runs(
    session: Session, fixed: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], count: int
) -> list[SweepRun]:
    runs: list[SweepRun] = []
    try:
        with tracking("runs", count):
            for number, values in enumerate(product(*axes.values())):
                runs.append(_run(session, fixed, number, dict(zip(axes, values, strict=True))))
                advance("runs", 1)
    except KeyboardInterrupt:
        if not runs:
            raise
    _refuse_failed(runs)
    return runs


def _refuse_failed(runs: Sequence[SweepRun]) -> None:
    """Raise what the first run raised, if all of them did."""
    __tracebackhide__ = True
    if runs and runs[0].error is not None and all(run.error for run in runs):
        raise runs[0].error


def _run(
    session: Session, fixed: Mapping[str, Any], number: int, values: Mapping[str, Any]
) -> SweepRun:
    __tracebackhide__ = True
    types = session._feeds.types
    start = time.perf_counter()
    try:
        for name, value in values.items():
            if name not in types:
                _set(session, name, value)
        start = time.perf_counter()
        result = session(
            **fixed,
            **{name: _feed(value, types[name]) for name, value in values.items() if name in types},
        )
    except Exception as error:
        return SweepRun(number, values, None, error, time.perf_counter() - start)
    return SweepRun(number, values, result, None, time.perf_counter() - start)


def _set(session: Session, name: str, value: Any) -> None:
    __tracebackhide__ = True
    where, _, attr = name.rpartition(".")
    session.set_attrs(where or None, **{attr: value})


# ---- by an executor


def _executed(
    session: Session,
    executor: Executor,
    fixed: Mapping[str, Any],
    axes: Mapping[str, Sequence[Any]],
) -> Sweep:
    __tracebackhide__ = True
    types = session._feeds.types
    combinations = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    def item(values: Mapping[str, Any]) -> _Item:
        varied = {
            name: _feed(value, types[name]) for name, value in values.items() if name in types
        }
        return {name: value for name, value in values.items() if name not in types}, {
            **fixed,
            **varied,
        }

    work = Work(KIND, session, executor, stops=False)

    def found() -> Sweep:
        done = sorted(work.done, key=lambda run: run.number)
        return Sweep(
            axes,
            [
                SweepRun(run.number, combinations[run.number], run.result, run.error, run.seconds)
                for run in done
            ],
        )

    try:
        with tracking("runs", len(combinations)):
            work.run(map(item, combinations))
    except KeyboardInterrupt:
        if not work.done:
            raise
    except Exception as error:
        error.sweep = found()  # type: ignore[attr-defined]  # for whoever catches it
        add_note(
            error,
            "what was run is in the attribute sweep of this exception, and sweep.missing lists the rest",
        )
        raise
    tensor = found()
    _refuse_failed(tensor.runs)
    return tensor


_Item = tuple[dict[str, Any], dict[str, Any]]  # attrs, and feeds


def _begin(session: Session, _: bool) -> Session:
    return session


def _ready(session: Session) -> Callable[[_Item], Run]:
    fixed = session.with_attrs()

    def ready(item: _Item) -> Run:
        attrs, feeds = item
        for name, value in attrs.items():
            _set(fixed, name, value)
        built = fixed._update()
        return lambda: (built.feeds.output_names, built.run(None, feeds))

    return ready


KIND = WorkKind("pyopnb.batches.sweep", "run", "runs", _begin, _ready)


# ---- what is varied


def _is_varied_feed(value: Any, type: TensorType | None) -> bool:
    if type is None or type.dtype is None or type.shape is None:
        return False
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(item, np.ndarray) for item in value)
    ):
        return all(type.accepts_shape(item.shape) for item in value)
    is_single = all(size == 1 for size in type.shape)
    return (
        is_single
        and isinstance(value, (list, tuple, range, np.ndarray))
        and np.ndim(value) == 1
        and len(value) > 1
    )


def _feed(value: Any, type: TensorType | None) -> Any:
    """Cast a value of a varied feed to the input's type; numbers carry no dtype of their own."""
    if isinstance(value, np.ndarray) or type is None or type.dtype is None:
        return value
    dtype = object if type.dtype.name == "string" else type.dtype.numpy
    return np.full((1,) * len(type.shape or ()), value, dtype)


def _values(session: Session, name: str, given: Any) -> list[Any]:
    """List the values of a name that is varied."""
    if name in session._feeds.types:
        return list(given) if not isinstance(given, np.ndarray) else given.tolist()
    kind = _attr_kind(session, name)
    is_list = isinstance(given, (list, tuple, range)) or (
        isinstance(given, np.ndarray) and given.ndim == 1
    )
    if kind.startswith("list") or kind == "tensor":
        is_list = isinstance(given, (list, tuple)) and all(
            isinstance(item, (list, tuple, np.ndarray)) for item in given
        )
    values = (
        (given.tolist() if isinstance(given, np.ndarray) else list(given)) if is_list else [given]
    )
    if kind == "int":  # np.linspace(1, 5, 5) has whole numbers that are floats
        return [
            int(value) if isinstance(value, float) and value.is_integer() else value
            for value in values
        ]
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _attr_kind(session: Session, name: str) -> str:
    where, _, attr = name.rpartition(".")
    try:
        kernels = select_kernels(session._kernels, where or None, [attr])
    except PyopError:
        settable = [
            *session._feeds.types,
            *{attr for _, _, attrs in session.nodes() for attr in attrs},
        ]
        if where or attr in settable:
            raise  # it says which nodes there are, or which of them have it
        expected = "an input of the model or an attr of its ops"
        raise InputError(
            f"sweep, {sanitize(name)}",
            expected=expected,
            got=sanitize(name),
            next=suggest(name, settable),
        ) from None
    kinds = [row.kind for row in kernels[0].op.current.schema.attrs if row.name == attr]
    return kinds[0] if kinds else "any"


def _suggestion(session: Session) -> str:
    attrs = [attr for _, _, values in session.nodes() for attr in values]
    return (
        f"{sanitize(attrs[0])}=np.linspace(0, 1, 11)"
        if attrs
        else "x=[a, b], arrays to run one after the other"
    )

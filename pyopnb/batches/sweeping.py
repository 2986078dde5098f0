"""``pyopnb.sweep``: run a session over values of attrs or feeds, without changing the session."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pyopnb.batches.cells import output_names, result_cells, short_text
from pyopnb.batches.work import BatchRun, Run, Work, WorkKind, attach_runs, check_executor
from pyopnb.common import Displayable, Table, plural
from pyopnb.engine import Session, TensorType, check_arguments, one_run, select_kernels
from pyopnb.errors import InputError

__all__ = ["KIND", "Sweep", "SweepRun", "sweep"]

_MOST_RUNS = 10_000
_MOST_ROWS = 50


@dataclass(frozen=True, eq=False)
class SweepRun(BatchRun):
    """One run of a sweep.

    Attributes
    ----------
    number : int
        Its position among the combinations.
    values : dict
        The values that were set, by name.
    result : Result or None
        None if the run raised.
    error : Exception or None
        The exception that the run raised.
    seconds : float
        Duration of the run itself, without the way to the worker.
    worker : str
        The thread or process that ran it.
    """

    values: Mapping[str, Any]


class Sweep(Displayable, Sequence[SweepRun]):
    """The runs of a sweep, in the order of ``itertools.product``; created by `sweep`.

    It prints as a table, and displays itself as a table, a sheet of pictures with the same colors,
    and a plot. ``pyopnb.show(sweep, output="y")`` chooses the output.

    Attributes
    ----------
    axes : dict
        The values of each name that was varied.
    runs : list of SweepRun
        The runs that were made.
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
        """Tell whether all runs were made; after an interrupt, only the finished ones are there."""
        return len(self.runs) == math.prod(self.shape)

    @property
    def unfinished(self) -> list[int]:
        """List the combinations without a result, because they did not run or raised."""
        finished = {run.number for run in self.runs if run.result is not None}
        return [number for number in range(math.prod(self.shape)) if number not in finished]

    def __getitem__(self, index: Any) -> Any:
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    def array(self, output: str | int = 0) -> np.ndarray:
        """Stack an output of all runs into an array that begins with the axes of the sweep.

        Parameters
        ----------
        output : str or int
            Its name or position.

        Returns
        -------
        ndarray
            The axes of the output follow the axes of the sweep.

        Raises
        ------
        InputError
            A run raised or was not made, or the shapes differ.
        """
        # A run that raised leaves a hole, and an array of numbers cannot have one.
        arrays = [run.result[output] for run in self.runs if run.result is not None]
        shapes = {np.shape(array) for array in arrays}
        count = math.prod(self.shape)
        if len(arrays) < count or len(shapes) != 1:
            raise InputError(
                "sweep, array",
                expected=f"{count} results of one shape",
                got=f"{len(arrays)} results of {plural(len(shapes), 'shape')}",
                next="[run.result for run in sweep]",
            )
        return np.stack(arrays).reshape(*self.shape, *shapes.pop())

    def labels(self, run: SweepRun) -> dict[str, str]:
        """Return the values of a run as text; an array is named by its position in the list.

        Parameters
        ----------
        run : SweepRun
            One of the runs of this sweep.

        Returns
        -------
        dict of str
            By the names that were varied.
        """
        positions = np.unravel_index(run.number, self.shape)
        labels = {}
        for (name, value), position in zip(run.values.items(), positions, strict=True):
            text = short_text(value)
            if isinstance(value, np.ndarray):
                text = f"{name}[{position}]"
            labels[name] = text
        return labels

    @check_arguments
    def table(self, most: int = _MOST_ROWS) -> Table:
        """Return the runs as rows with the values, a summary of the outputs, and the duration.

        Parameters
        ----------
        most : int
            The largest number of rows.

        Returns
        -------
        Table
            One row for each run, and at most ``most``.
        """
        outputs = output_names(self.runs)
        rows = []
        for run in self.runs[:most]:
            labels = self.labels(run).values()
            rows.append([*labels, *result_cells(run, outputs), f"{run.seconds * 1e3:.3g}"])
        return Table([*self.axes, *outputs, "ms"], rows, "no runs")

    def __repr__(self) -> str:
        lines = [repr(self.table())]
        if len(self.runs) > _MOST_ROWS:
            lines.append(f"and {len(self.runs) - _MOST_ROWS:,} more")
        if not self.is_complete:
            lines.append(f"interrupted after {len(self.runs):,} of {math.prod(self.shape):,} runs")
        return "\n".join(lines)


@check_arguments
def sweep(session: Any, /, *feeds: Any, executor: Executor | None = None, **named: Any) -> Sweep:
    """Run a session for each of several values of attrs or feeds, or for each combination of them.

    The session keeps its attrs: the runs use `Session.with_attrs`.

    Parameters
    ----------
    session : Session, or a model
        A model gets a session of its own.
    *feeds, **named
        For an input of the model: one array for every run, or a list with an array for each run.
        For an input that is a single number, also a range or an array of numbers. For an attr of
        the model's ops: one value, or a list, range or array of values, as for `interact`. If
        several ops have the attr, write ``**{"SoftClip.limit": [0.1, 1.0]}``.
    executor : Executor, optional
        As for `map`: threads, processes, or a cluster. By default, everything runs in this thread.

    Returns
    -------
    Sweep
        It lists the exceptions of single runs. After an interrupt, it has the finished runs, as
        with `map`.

    Raises
    ------
    InputError
        A name is unknown, nothing is varied, or there are more than 10,000 combinations.
    Exception
        The exception of the first run, if no run succeeded.
    InputError, DefinitionError, concurrent.futures.BrokenExecutor
        As for `map`; the exception has the finished runs in its attribute ``sweep``.

    Notes
    -----
    For an attr or input named ``executor``, write ``**{"SoftClip.executor": …}``, or pass it by
    position.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Clip")
    ... class Clip:
    ...     def __init__(self, limit: float = 1.0):
    ...         self.limit = limit
    ...     def compute(self, x):
    ...         return np.clip(x, -self.limit, self.limit).astype(x.dtype)
    >>> session = Session(
    ...     pyopnb.model([pyopnb.node("doctest::Clip", "x", "y")], {"x": "float32[N]"}, "y")
    ... )
    >>> found = sweep(session, x=np.float32([1, 2, 3]), limit=np.linspace(1, 3, 3))
    >>> found.array("y").tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 3.0]]
    """
    __tracebackhide__ = True
    check_executor(executor, "sweep")
    if not isinstance(session, Session):
        session = Session(session)
    types = session.state.feeds.types
    values = one_run.feeds_by_name(list(types), feeds, named)
    fixed: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    for name, value in values.items():
        if name in types and not _is_varied_feed(value, types[name]):
            fixed[name] = value
        else:
            axes[name] = _values(session, name, value)
    count = math.prod(map(len, axes.values()))
    if not axes or not 1 <= count <= _MOST_RUNS:
        got = f"{count:,}"
        if not axes:
            got = "one value of each"
        expected = f"1 to {_MOST_RUNS:,} combinations"
        advice = "limit=np.linspace(0, 1, 11) for an attr, or x=[a, b] for a feed"
        raise InputError("sweep", expected=expected, got=got, next=advice)
    combinations = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    work = Work(KIND, session, executor, stops=False)

    def finished() -> Sweep:
        runs = []
        for run in sorted(work.done, key=lambda run: run.number):
            facts = (run.number, run.result, run.error, run.seconds, run.worker)
            runs.append(SweepRun(*facts, combinations[run.number]))
        return Sweep(axes, runs)

    try:
        work.run_all(((values, fixed) for values in combinations), count)
    except Exception as error:
        attach_runs(error, "sweep", finished())
        raise
    runs = finished()
    # If no run succeeded, the first exception says more than a table of them.
    first_error = runs[0].error if runs else None
    if first_error is not None and all(run.error for run in runs):
        raise first_error
    return runs


_Item = tuple[Mapping[str, Any], Mapping[str, Any]]  # the varied values, and the feeds of all runs


def _begin(session: Session, _: bool) -> Session:
    return session


def _ready(session: Session) -> Callable[[_Item], Run]:
    # The session keeps its attrs, and chunks on several threads do not set each other's.
    varied = session.with_attrs()
    types = session.state.feeds.types

    def ready(item: _Item) -> Run:
        values, fixed = item
        feeds = dict(fixed)
        for name, value in values.items():
            if name in types:
                feeds[name] = _feed(value, types[name])
            else:
                # A node or an op can precede the attr, as in "SoftClip.limit".
                where, _, attr = name.rpartition(".")
                varied.set_attrs(where or None, **{attr: value})
        built = varied.update()
        feeds = built.feeds.by_name((), feeds)
        return lambda: (built.feeds.output_names, built.run(None, feeds))

    return ready


KIND = WorkKind("pyopnb.batches.sweeping", "sweep", "run", "runs", _begin, _ready)


# ---- varied values


def _is_varied_feed(value: Any, type: TensorType | None) -> bool:
    """Tell a list of feeds, each for a run, from one feed that is a list."""
    if type is None or type.dtype is None or type.shape is None:
        return False
    is_list = isinstance(value, (list, tuple))
    if is_list and value and all(isinstance(item, np.ndarray) for item in value):
        return all(type.accepts_shape(item.shape) for item in value)
    # An input of one element takes a list, range or array of numbers as one number a run.
    if any(size != 1 for size in type.shape):
        return False
    is_row = (is_list or isinstance(value, (range, np.ndarray))) and np.ndim(value) == 1
    return is_row and len(value) > 1


def _feed(value: Any, type: TensorType | None) -> Any:
    """Give a number the axes of an input of one element; the check of feeds gives it the dtype."""
    if isinstance(value, np.ndarray) or type is None:
        return value
    for _ in type.shape or ():
        value = [value]
    return value


def _values(session: Session, name: str, values: Any) -> list[Any]:
    """List the values of a name that is varied."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if name in session.state.feeds.types:
        return list(values)
    attr_kind = _attr_kind(session, name)
    is_list = isinstance(values, (list, tuple, range))
    # One value of such an attr is a list itself, so several of them are a list of lists.
    if is_list and (attr_kind.startswith("list") or attr_kind == "tensor"):
        is_list = all(isinstance(item, (list, tuple, np.ndarray)) for item in values)
    listed = [values]
    if is_list:
        listed = list(values)
    # np.linspace(1, 5, 5) has whole numbers that are floats.
    if attr_kind == "int":
        listed = [int(v) if isinstance(v, float) and v.is_integer() else v for v in listed]
    return listed


def _attr_kind(session: Session, name: str) -> str:
    where, _, attr = name.rpartition(".")
    kernel = select_kernels(session.state.kernels, where or None, [attr])[0]
    kinds = {row.name: row.kind for row in kernel.op.current.schema.attrs}
    return kinds.get(attr, "any")

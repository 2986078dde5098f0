"""``pyopnb.map``: run a session over many batches, by the workers of an executor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from concurrent.futures import Executor
from typing import Any, Literal

import numpy as np

from pyopnb.batches.cells import output_names, result_cells
from pyopnb.batches.work import BatchRun, Run, Work, WorkKind, attach_runs, check_executor
from pyopnb.common import Displayable, Table, messages, sanitize
from pyopnb.engine import Session, SessionState, check_arguments
from pyopnb.errors import InputError

__all__ = ["KIND", "BatchRun", "Batches", "map"]

_MOST_ROWS = 20


class Batches(Displayable, Sequence[Any]):
    """The results of `map`, in the order of the batches.

    A sequence of results that prints as a table. Indexing a batch whose run raised raises that
    exception again.

    Attributes
    ----------
    runs : tuple of BatchRun
        The runs that were made.
    total : int
        How many batches were read from ``batches``.
    """

    def __init__(self, runs: Iterable[BatchRun], total: int) -> None:
        # Chunks that were canceled leave gaps, so a run is found by its number
        # and not by position.
        self.runs = tuple(sorted(runs, key=lambda run: run.number))
        self.total = total
        self._by_number = {run.number: run for run in self.runs}

    @property
    def unfinished(self) -> list[int]:
        """List the numbers of the batches without a result, because they did not run or raised."""
        finished = {run.number for run in self.runs if run.result is not None}
        return [number for number in range(self.total) if number not in finished]

    @property
    def errors(self) -> dict[int, Exception]:
        """Return the exceptions of the runs, by the number of the batch."""
        return {run.number: run.error for run in self.runs if run.error is not None}

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self.total))]
        number = range(self.total)[index]
        run = self._by_number.get(number)
        if run is None:
            advice = ".unfinished, which lists the others"
            raise InputError(f"batch {number}", expected="a batch that was run", next=advice)
        if run.error is not None:
            raise run.error
        return run.result

    def array(self, output: str | int = 0) -> np.ndarray:
        """Stack an output of all batches, with the batches along the first axis.

        Parameters
        ----------
        output : str or int
            Its name or position.

        Returns
        -------
        ndarray
            Its first axis has one entry for each batch.

        Raises
        ------
        Exception
            The exception of the first batch without a result.
        """
        return np.stack([result[output] for result in self])

    def table(self, most: int = _MOST_ROWS) -> Table:
        """Return the batches as rows: what came out, how long it took, and where.

        Parameters
        ----------
        most : int
            The largest number of rows.

        Returns
        -------
        Table
            One row for each batch that ran, and at most ``most``.
        """
        # If every run raised, there are no outputs, and one column shows the exceptions.
        columns = output_names(self.runs) or ["result"]
        rows = []
        for run in self.runs[:most]:
            cells = result_cells(run, columns)
            rows.append([str(run.number), *cells, f"{run.seconds * 1e3:.3g}", run.worker])
        return Table(["batch", *columns, "ms", "worker"], rows, "no batches")

    def __repr__(self) -> str:
        return "\n".join([repr(self.table()), *self.remarks()])

    def remarks(self) -> list[str]:
        """List what the table does not show.

        Returns
        -------
        list of str
            How many rows were left out, and how many batches have no result.
        """
        lines = []
        if len(self.runs) > _MOST_ROWS:
            lines.append(f"and {len(self.runs) - _MOST_ROWS:,} more")
        if self.unfinished:
            lines.append(f"without a result: {len(self.unfinished):,} of {self.total:,}")
        return lines


@functools.partial(check_arguments, advice={"batches": '[{"x": x}]'})
def map(
    session: Any,
    batches: Iterable[Any],
    executor: Executor | None = None,
    *,
    in_flight: int | None = None,
    errors: Literal["raise", "keep"] = "raise",
) -> Batches:
    """Run a session over batches, by an executor of ``concurrent.futures`` or of a cluster.

    Parameters
    ----------
    session : Session, or a model
        Each worker process gets one pickled copy. Threads run the session itself.
    batches : iterable
        The feeds of each run: a dict by name, a tuple in the order of the inputs, or an array. A
        generator is read as the workers need it. It may refill one buffer, because batches that are
        read ahead are copied.
    executor : Executor, optional
        ``ThreadPoolExecutor``, ``ProcessPoolExecutor``, Dask's ``client.get_executor()``,
        ipyparallel's ``client.executor()``. By default, everything runs in this thread.
    in_flight : int, optional
        How many chunks of batches the executor holds at a time. A chunk has as many batches as run
        in about 50 ms, at most 256. The default is four per CPU of this machine, but at least 32;
        use more for a cluster with more workers.
    errors : {"raise", "keep"}
        ``"raise"`` starts no more batches after one has raised, and then raises the first
        exception, which has the finished runs in its attribute ``batches``. ``"keep"`` runs every
        batch and lists the exceptions in the table.

    Returns
    -------
    Batches
        After an interrupt, the batches that were finished; batches that the executor has not
        started are canceled.

    Raises
    ------
    Exception
        The exception that an op raised, with a note that names the batch; an `InputError` for a
        batch that does not fit; or the exception of the iterable ``batches``, after the batches
        before it have run.
    InputError
        A worker has no pyopnb, or a batch cannot be pickled. The finished runs are in its attribute
        ``batches``.
    DefinitionError
        An op cannot be sent to a worker.
    concurrent.futures.BrokenExecutor, or another exception of the engine
        A worker died and the engine does not restart it, or the executor was shut down.

    Notes
    -----
    All batches run with the versions and attrs from the beginning of the call, in threads and in
    processes. If an op is redefined meanwhile, the next call uses the new version.

    State on ``self`` belongs to a worker: each process has its own copies of the session's
    instances, and keeps them for the next call with the same session. Threads share one new set of
    instances.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> session = Session(pyopnb.model(pyopnb.node("Neg", "x", "y"), {"x": "float32[N]"}, "y"))
    >>> with ThreadPoolExecutor(2) as threads:
    ...     results = pyopnb.map(session, (np.float32([n]) for n in range(100)), threads)
    >>> len(results), results[7]["y"], results.array("y").sum()
    (100, array([-7.], dtype=float32), np.float32(-4950.0))
    """
    __tracebackhide__ = True
    if errors not in ("raise", "keep"):
        raise InputError(
            "map, errors",
            expected='"raise" or "keep"',
            got=sanitize(repr(errors), 40),
            next='errors="keep"',
        )
    check_executor(executor, "map")
    # A dict would be read as its names. Python also iterates over objects with __getitem__ alone.
    iterates = hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")
    if isinstance(batches, (Mapping, str, bytes)) or not iterates:
        raise InputError(
            "map, batches",
            expected="an iterable with the feeds of each run",
            got=f"one {type(batches).__name__}",
            next='[{"x": x} for x in arrays], or [feeds] for a single run',
        )
    if not isinstance(session, Session):
        session = Session(session)
    work = Work(KIND, session, executor, in_flight=in_flight, stops=errors == "raise")
    # A generator does not say how long it is: the bar then counts without an end.
    total = len(batches) if isinstance(batches, Sized) else None
    try:
        work.run_all(batches, total)
    except Exception as error:
        attach_runs(error, "batches", Batches(work.done, work.begun))
        raise
    table = Batches(work.done, work.begun)
    # An exception of a run is part of the work's results, so it is raised here.
    if errors == "raise" and table.errors:
        failure = next(iter(table.errors.values()))
        if isinstance(batches, np.ndarray) and isinstance(failure, InputError):
            advice = "map(session, [x]), as each row of one array is a batch"
            failure = messages.moved(failure, f"map, batch 0, {failure.where}", advice)
        attach_runs(failure, "batches", table)
        raise failure
    return table


# ---- in a worker ---------------------------------------------------------------------------------


def _begin(session: Session, is_copy: bool) -> tuple[Session, SessionState]:
    """Return a session with the current versions and attrs, and its state.

    A copy in a worker has them already, with its instances.
    """
    fixed = session if is_copy else session.with_attrs()
    return fixed, fixed.update()


def _ready(state: tuple[Session, SessionState]) -> Callable[[Any], Run]:
    built = state[1]

    def ready(batch: Any) -> Run:
        # A single array, or a dict, is the first argument of a call.
        arguments = batch if isinstance(batch, tuple) else (batch,)

        def run() -> tuple[Sequence[str], Sequence[Any]]:
            feeds = built.feeds.by_name(arguments, {})
            return built.feeds.output_names, built.run(None, feeds)

        return run

    return ready


KIND = WorkKind("pyopnb.batches.mapping", "map", "batch", "batches", _begin, _ready)

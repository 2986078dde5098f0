"""``pyopnb.map``: a session run over many batches, by the threads, processes or machines of an executor.

The engine is the executor's: this module sends it chunks of batches, few at a time, and puts together what comes back. The
session goes to a worker when that says that it lacks it, and stays there under the digest of its pickle.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import threading
import time
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

from pyopnb.ops.displayable import Displayable
from pyopnb.ops.errors import ArgumentError, hide_internal_frames, sanitize
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.locks import locked
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.result import Result
from pyopnb.ops.text_table import Table
from pyopnb.runtime.built import Built
from pyopnb.runtime.session import Session
from pyopnb.runtime.trace.summary import summary_of

__all__ = ["BatchRun", "Batches", "map"]

_CHUNK_SECONDS = 0.05  # of work in a chunk, so that what an engine spends on each is small beside it
_MOST_IN_CHUNK = 256
_SMALL = 16_384  # bytes of a session that goes along with each chunk, and saves asking
_KEPT = 4  # sessions that a worker keeps
_MOST_ROWS = 20


@dataclass(frozen=True, eq=False)
class BatchRun:
    """One batch of a map.

    Attributes
    ----------
    number : int
        Its place among the batches.
    result : Result or None
        None if the run raised.
    error : Exception or None
    seconds : float
        Of the run itself, where it ran.
    worker : str
        Host and process that ran it.
    """

    number: int
    result: Result | None
    error: Exception | None
    seconds: float
    worker: str


class Batches(Displayable, Sequence[Any]):
    """The results of `map`, in the order of the batches.

    It is a sequence of results: to index one whose run raised raises that exception. It prints as a table.

    Attributes
    ----------
    runs : tuple of BatchRun
        Those that were made.
    total : int
        How many batches there were, as far as they were asked for.
    """

    def __init__(self, runs: Iterable[BatchRun], total: int) -> None:
        self.runs = tuple(sorted(runs, key=lambda run: run.number))
        self.total = total
        self._by_number = {run.number: run for run in self.runs}

    @property
    def missing(self) -> list[int]:
        """The numbers of the batches without a result: not run, or their run raised."""
        return [n for n in range(self.total) if n not in self._by_number or self._by_number[n].result is None]

    @property
    def errors(self) -> dict[int, Exception]:
        """What runs raised, by the number of the batch."""
        return {run.number: run.error for run in self.runs if run.error is not None}

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self.total))]
        number = range(self.total)[index]
        run = self._by_number.get(number)
        if run is None:
            raise ArgumentError(
                f"batch {number}", expected="one that was run", got="one that was not", next="missing lists them"
            )
        if run.error is not None:
            raise run.error
        return run.result

    def array(self, output: str | int = 0) -> np.ndarray:
        """An output of all batches as one array, with the batches along its first axis.

        Parameters
        ----------
        output : str or int
            Its name or position.

        Returns
        -------
        ndarray

        Raises
        ------
        Exception
            What the first batch without a result raised.
        """
        return np.stack([result[output] for result in self])

    def table(self, most: int = _MOST_ROWS) -> Table:
        """The batches as rows: what came out, how long it took, and where.

        Parameters
        ----------
        most : int
            Rows.

        Returns
        -------
        Table
        """
        names = list(next((run.result.keys() for run in self.runs if run.result is not None), ()))
        rows = [[str(run.number), *_cells(run, names), f"{run.seconds * 1e3:.3g}", run.worker] for run in self.runs[:most]]
        return Table(["batch", *names, "ms", "worker"], rows, "no batches")

    def to_pandas(self) -> Any:
        """A row for each batch, with the numbers that outputs of one element have, else the arrays themselves.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas

        def value(array: Any) -> Any:
            return array.item() if isinstance(array, np.ndarray) and array.size == 1 else array

        rows = [
            {
                **({} if run.result is None else {name: value(array) for name, array in run.result.items()}),
                "seconds": run.seconds,
                "worker": run.worker,
                "error": run.error,
            }
            for run in self.runs
        ]
        return pandas.DataFrame(rows, index=[run.number for run in self.runs])

    def __repr__(self) -> str:
        return "\n".join([repr(self.table()), *self.remarks()])

    def remarks(self) -> list[str]:
        """What the table does not show.

        Returns
        -------
        list of str
        """
        more, missing = len(self.runs) - _MOST_ROWS, len(self.missing)
        lines = [f"and {more:,} more"] if more > 0 else []
        return [*lines, f"without a result: {missing:,} of {self.total:,}"] if missing else lines


def _cells(run: BatchRun, names: Sequence[str]) -> list[str]:
    if run.result is None:
        text = sanitize(f"{type(run.error).__name__}: {run.error}", 80)
        return [text, *[""] * (len(names) - 1)][: max(len(names), 1)]
    return [", ".join(filter(None, summary_of(run.result[name]).cells[:2])) for name in names]


@hide_internal_frames
def map(
    session: Any,
    batches: Iterable[Any],
    executor: Executor | None = None,
    *,
    in_flight: int | None = None,
    errors: str = "raise",
) -> Batches:
    """Run a session over batches, by an executor of ``concurrent.futures`` or of a cluster.

    Parameters
    ----------
    session : Session, or a model
        It goes to each worker once, as `pickle` sends it. Threads run the session itself.
    batches : iterable
        The feeds of each run: a dict by name, a tuple in the order of the inputs, or an array. A generator is read as the
        workers need it.
    executor : Executor, optional
        ``ThreadPoolExecutor``, ``ProcessPoolExecutor``, Dask's ``client.get_executor()``, ipyparallel's ``client.executor()``.
        This thread alone if not given.
    in_flight : int, optional
        Chunks of batches that are with the executor at a time. A chunk is as many as take about 50 ms, 256 at most. By default
        four for each CPU here, and 32 at least: more for a cluster with more workers.
    errors : {"raise", "keep"}
        ``"raise"`` begins no more batches once one has raised, and raises the first exception; what was done is in its
        attribute ``batches``. ``"keep"`` runs all of them, and has exceptions in the table.

    Returns
    -------
    Batches
        An interrupt cancels what has not begun, and returns what is there.

    Raises
    ------
    Exception
        What an op raised, as itself, with a note that says in which batch; `FeedError` for a batch that does not fit.
    DefinitionError
        An op cannot be sent.
    concurrent.futures.BrokenExecutor
        A worker is gone, and its engine does not start it again.

    Notes
    -----
    The versions and attrs at the beginning of the call serve all batches, in threads and in processes: an op that is defined
    anew meanwhile serves from the next call on.

    An op that counts on ``self`` counts the batches of its worker: a process has copies of the session's instances, which it
    keeps for the next call with the same session; threads share new ones.

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
        raise ArgumentError("map, errors", expected='"raise" or "keep"', got=sanitize(repr(errors), 40))
    if not (executor is None or hasattr(executor, "submit")):
        next_ = "concurrent.futures.ProcessPoolExecutor(), or client.get_executor() of Dask's"
        raise ArgumentError("map, executor", expected="one with submit", got=type(executor).__name__, next=next_)
    session = session if isinstance(session, Session) else Session(session)
    work = _Map(session, executor, in_flight or max(32, 4 * (os.cpu_count() or 1)), stops=errors == "raise")
    total = len(batches) if isinstance(batches, Sized) else 0
    try:
        with tracking("batches", total or 1):
            work.run(iter(batches))
    except KeyboardInterrupt:
        if not work.done:
            raise
    except Exception as error:
        _attach(error, work.table)
        raise
    table = work.table
    if errors == "raise" and table.errors:
        failure = next(iter(table.errors.values()))
        _attach(failure, table)
        raise failure
    return table


def _attach(error: Exception, table: Batches) -> None:
    """Give an exception what was done before it."""
    try:
        error.batches = table  # type: ignore[attr-defined]  # for whoever catches it
    except AttributeError:  # its class has slots
        return
    add_note(error, f"{len(table.runs) - len(table.errors):,} other results are in the attribute batches of this exception")


# ---- here --------------------------------------------------------------------------------------------------------------------


class _Map:
    """Chunks that were given to an executor, and what came back."""

    def __init__(self, session: Session, executor: Executor | None, in_flight: int, *, stops: bool) -> None:
        self.done: list[BatchRun] = []
        self._executor, self._in_flight, self._stops = executor, in_flight, stops
        self._begun = 0
        self._size = 1
        self._flying: dict[Future[Any], _Chunk] = {}
        self._versions: set[str] = set()
        self._sent = None if executor is None or isinstance(executor, ThreadPoolExecutor) else _Sent.of(session)
        self._session = (
            session.with_attrs()
        )  # its attrs and versions are what this call begins with, whoever changes the other's
        self._built = self._session._update()

    @property
    def table(self) -> Batches:
        return Batches(self.done, self._begun)

    @property
    def _is_over(self) -> bool:
        return self._stops and any(run.error is not None for run in self.done)

    def run(self, batches: Iterator[Any]) -> None:
        try:
            while True:
                while len(self._flying) < self._in_flight and not self._is_over and (chunk := self._next(batches)):
                    self._submit(chunk, None if self._sent is None else self._sent.small)
                if not self._flying:
                    return
                done = wait(self._flying, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=lambda future: self._flying[future].first):
                    self._take(self._flying.pop(future), future)
        finally:
            for future in self._flying:
                future.cancel()

    def _next(self, batches: Iterator[Any]) -> _Chunk | None:
        held = tuple(itertools.islice(batches, self._size))
        first, self._begun = self._begun, self._begun + len(held)
        return _Chunk(first, held) if held else None

    def _submit(self, chunk: _Chunk, session: bytes | None) -> None:
        try:
            self._flying[self._future(chunk, session)] = chunk
        except BrokenExecutor as error:
            self._explain_lost(error, chunk)
            raise

    def _future(self, chunk: _Chunk, session: bytes | None) -> Future[Any]:
        if self._sent is not None and self._executor is not None:
            return self._executor.submit(_run_sent, self._sent.digest, session, chunk)
        if self._executor is not None:
            return self._executor.submit(_run_chunk, self._built, chunk)
        done: Future[Any] = Future()
        done.set_result(_run_chunk(self._built, chunk))
        return done

    def _explain_lost(self, error: Exception, chunk: _Chunk) -> None:
        first = min(each.first for each in (chunk, *self._flying.values()))
        add_note(
            error,
            f"a worker ended while it had batches, the first of them number {first}: killed, or out of memory. "
            "With a new executor, run those again that the attribute missing of the batches lists",
        )

    def _take(self, chunk: _Chunk, future: Future[Any]) -> None:
        try:
            reply = future.result()
        except BrokenExecutor as error:
            self._explain_lost(error, chunk)
            raise
        except Exception as error:  # the engine's, or what its worker could not even begin
            add_note(error, f"in a worker, before batch {chunk.first} began; it needs pyopnb, as here, and what the ops import")
            raise
        if reply is None:  # it has no such session
            assert self._sent is not None  # noqa: S101  # threads have the session itself
            self._submit(chunk, self._sent.data)
            return
        self._check_versions(reply)
        self.done += reply.runs()
        advance("batches", len(chunk.batches))
        seconds = sum(run.seconds for run in self.done[-len(chunk.batches) :]) / len(chunk.batches)
        self._size = min(_MOST_IN_CHUNK, max(1, int(_CHUNK_SECONDS / max(seconds, 1e-5))), 2 * self._size)

    def _check_versions(self, reply: _Reply) -> None:
        if reply.version != onnxruntime.__version__ and reply.version not in self._versions:
            self._versions.add(reply.version)
            warnings.warn(
                f"{reply.worker} has onnxruntime {sanitize(reply.version)}, and this process {onnxruntime.__version__}: "
                "their results can differ. Install the same on all workers",
                UserWarning,
                stacklevel=6,
            )


@dataclass(frozen=True)
class _Chunk:
    """Some batches, and the number of the first."""

    first: int
    batches: tuple[Any, ...]


@dataclass(frozen=True)
class _Sent:
    """A session as its pickle."""

    data: bytes
    digest: str

    @classmethod
    def of(cls, session: Session) -> _Sent:
        data = pickle.dumps(session, pickle.HIGHEST_PROTOCOL)
        return cls(data, hashlib.sha256(data).hexdigest())

    @property
    def small(self) -> bytes | None:
        return self.data if len(self.data) <= _SMALL else None


# ---- in a worker -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reply:
    """What a chunk gave: for each batch the outputs or the pickle of an exception, and the seconds."""

    worker: str
    version: str
    first: int
    outcomes: tuple[tuple[Mapping[str, Any] | None, _Failure | None, float], ...]

    def runs(self) -> Iterator[BatchRun]:
        for number, (outputs, failure, seconds) in enumerate(self.outcomes, self.first):
            error = None if failure is None else failure.error(number)
            yield BatchRun(number, None if outputs is None else Result(outputs), error, seconds, self.worker)


@dataclass(frozen=True)
class _Failure:
    """An exception that crosses processes: pickle keeps neither its traceback nor, of some, its notes."""

    kind: str
    text: str
    notes: tuple[str, ...]
    trace: str
    data: bytes | None
    itself: Exception | None = None

    @classmethod
    def of(cls, error: Exception, *, stays: bool) -> _Failure:
        try:
            data = None if stays else pickle.dumps(error)
        except Exception:  # a user's class can raise anything here
            data = None
        trace = "" if stays else "".join(traceback.format_exception(error))
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(type(error).__name__, str(error), notes, trace, data, error if stays else None)

    def error(self, number: int) -> Exception:
        """The exception itself; where this process does not know its class, a RuntimeError that names it."""
        error = self.itself
        if error is None:
            try:
                error = pickle.loads(self.data) if self.data else None  # noqa: S301  # this process's own workers wrote it
            except Exception:  # as above
                error = None
            error = error if isinstance(error, Exception) else RuntimeError(f"{self.kind}: {self.text}")
            error.__cause__ = _RemoteTraceback(self.trace)
        for note in (*self.notes, f"in batch {number}"):
            add_note(error, note)
        return error


class _RemoteTraceback(Exception):
    """The traceback in the worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


_sessions: OrderedDict[str, tuple[Session, Built]] = OrderedDict()
_opening = threading.Lock()


def _run_sent(digest: str, data: bytes | None, chunk: _Chunk) -> _Reply | None:
    """Run a chunk in a worker; None if it has neither the session nor its pickle."""
    built = locked(_opening, _open, digest, data)
    return None if built is None else _run_chunk(built, chunk, stays=False)


def _open(digest: str, data: bytes | None) -> Built | None:
    if digest not in _sessions:
        if data is None:
            return None
        session = pickle.loads(data)  # noqa: S301  # whoever maps a session sent it
        _sessions[digest] = session, session._update()  # in these versions, whatever this process defines
        while len(_sessions) > _KEPT:
            _sessions.popitem(last=False)
    _sessions.move_to_end(digest)
    return _sessions[digest][1]


def _run_chunk(built: Built, chunk: _Chunk, *, stays: bool = True) -> _Reply:
    outcomes = tuple(_run(built, batch, stays=stays) for batch in chunk.batches)
    worker = threading.current_thread().name if stays else f"process {os.getpid()}"
    return _Reply(worker, onnxruntime.__version__, chunk.first, outcomes)


def _run(built: Built, batch: Any, *, stays: bool) -> tuple[Mapping[str, Any] | None, _Failure | None, float]:
    begin = time.perf_counter()
    try:
        values = built.run(None, built.feeds.by_name(batch if isinstance(batch, tuple) else (batch,), {}))
    except Exception as error:
        return None, _Failure.of(error, stays=stays), time.perf_counter() - begin
    return dict(zip(built.feeds.output_names, values, strict=True)), None, time.perf_counter() - begin

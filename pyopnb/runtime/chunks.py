"""Runs of a session in chunks, by the threads, processes or machines of an executor.

The engine is the executor's: this module sends it chunks of work, few at a time, and takes what comes back. The session goes to
a worker when that says that it lacks it, and stays there under the digest of its pickle.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import onnxruntime

from pyopnb.ops.errors import ArgumentError, sanitize
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.locks import locked
from pyopnb.ops.progress import advance
from pyopnb.ops.result import Result
from pyopnb.runtime.session import Session

__all__ = ["BatchRun", "Kind", "Run", "Work", "check_executor"]

_CHUNK_SECONDS = 0.05  # of work in a chunk, so that what an engine spends on each is small beside it
_MOST_IN_CHUNK = 256
_SMALL = 16_384  # bytes of a session that goes along with each chunk, and saves asking
_KEPT = 4  # sessions that a worker keeps

Run = Callable[[], tuple[Sequence[str], Sequence[Any]]]
"""One run, made ready: the names of its outputs, and their values."""


@dataclass(frozen=True)
class Kind:
    """A kind of work. Its functions are a module's, so that they go to other processes by name.

    Attributes
    ----------
    one, many : str
        What is counted.
    begin : callable
        Called once in each worker, with the session and whether that is the worker's own copy; what it returns serves all
        chunks there.
    ready : callable
        Called with that for each chunk; returns what makes an item of work ready to run.
    """

    one: str
    many: str
    begin: Callable[[Session, bool], Any]
    ready: Callable[[Any], Callable[[Any], Run]]


def check_executor(executor: Any, where: str) -> None:
    """Raise `ArgumentError` for what is neither an executor nor None.

    Parameters
    ----------
    executor : object
    where : str
        Whose argument it is.
    """
    if not (executor is None or hasattr(executor, "submit")):
        next_ = "concurrent.futures.ProcessPoolExecutor(), or client.get_executor() of Dask's"
        raise ArgumentError(f"{where}, executor", expected="one with submit", got=type(executor).__name__, next=next_)


@dataclass(frozen=True, eq=False)
class BatchRun:
    """One batch of a map, or one run of a sweep.

    Attributes
    ----------
    number : int
        Its place among them.
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


# ---- here --------------------------------------------------------------------------------------------------------------------


class Work:
    """Chunks that are given to an executor, and what came back.

    Parameters
    ----------
    kind : Kind
    session : Session
    executor : Executor or None
        None: this thread runs them.
    in_flight : int, optional
        Chunks that are with the executor at a time.
    stops : bool
        Begin nothing more once a run has raised.

    Attributes
    ----------
    done : list of BatchRun
    begun : int
        How many items were asked for.
    """

    def __init__(
        self, kind: Kind, session: Session, executor: Executor | None, *, in_flight: int | None = None, stops: bool
    ) -> None:
        self.done: list[BatchRun] = []
        self.begun = 0
        self._kind, self._executor, self._stops = kind, executor, stops
        self._in_flight = in_flight or max(32, 4 * (os.cpu_count() or 1))
        self._size = 1
        self._flying: dict[Future[Any], _Chunk] = {}
        self._versions: set[str] = set()
        self._sent = None if executor is None or isinstance(executor, ThreadPoolExecutor) else _Sent.of(session)
        self._state = kind.begin(session, False) if self._sent is None else None

    @property
    def _is_over(self) -> bool:
        return self._stops and any(run.error is not None for run in self.done)

    def run(self, items: Iterator[Any]) -> None:
        """Have all of them run. What an interrupt or an exception leaves is cancelled, as far as it has not begun."""
        try:
            while True:
                while len(self._flying) < self._in_flight and not self._is_over and (chunk := self._next(items)):
                    self._submit(chunk, None if self._sent is None else self._sent.small)
                if not self._flying:
                    return
                done = wait(self._flying, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=lambda future: self._flying[future].first):
                    self._take(self._flying.pop(future), future)
        except BaseException:
            self._keep_finished()
            raise
        finally:
            for future in self._flying:
                future.cancel()

    def _keep_finished(self) -> None:
        """Take the results that are there, which an interrupt or a lost worker is no reason to throw away."""
        for future in [future for future in self._flying if future.done() and not future.cancelled()]:
            reply = None if future.exception() is not None else future.result()
            if reply is not None:
                del self._flying[future]
                self.done += reply.runs(self._kind.one)

    def _next(self, items: Iterator[Any]) -> _Chunk | None:
        held = tuple(itertools.islice(items, self._size))
        first, self.begun = self.begun, self.begun + len(held)
        return _Chunk(first, held) if held else None

    def _submit(self, chunk: _Chunk, session: bytes | None) -> None:
        try:
            self._flying[self._future(chunk, session)] = chunk
        except BrokenExecutor as error:
            self._explain_lost(error, chunk)
            raise

    def _future(self, chunk: _Chunk, session: bytes | None) -> Future[Any]:
        if self._sent is not None and self._executor is not None:
            return self._executor.submit(_run_sent, self._kind, self._sent.digest, session, chunk)
        if self._executor is not None:
            return self._executor.submit(_run_chunk, self._kind, self._state, chunk)
        done: Future[Any] = Future()
        done.set_result(_run_chunk(self._kind, self._state, chunk))
        return done

    def _explain_lost(self, error: Exception, chunk: _Chunk) -> None:
        first = min(each.first for each in (chunk, *self._flying.values()))
        add_note(
            error,
            f"a worker ended while it had {self._kind.many}, the first of them number {first}: killed, or out of memory. "
            "What is missing needs a new executor",
        )

    def _take(self, chunk: _Chunk, future: Future[Any]) -> None:
        try:
            reply = future.result()
        except BrokenExecutor as error:
            self._explain_lost(error, chunk)
            raise
        except Exception as error:  # the engine's, or what its worker could not even begin
            if not chunk.is_again:
                # Of a worker that was killed as it had sent its result, Dask makes an error of its own.
                data = None if self._sent is None else self._sent.small
                self._submit(replace(chunk, is_again=True), data)
                return
            where = f"in a worker, before {self._kind.one} {chunk.first} began"
            add_note(error, f"{where}; it needs pyopnb, as here, and what the ops import")
            raise
        if reply is None:  # it has no such session
            assert self._sent is not None  # noqa: S101  # threads have the session itself
            self._submit(chunk, self._sent.data)
            return
        self._check_versions(reply)
        self.done += reply.runs(self._kind.one)
        advance(self._kind.many, len(chunk.items))
        seconds = sum(run.seconds for run in self.done[-len(chunk.items) :]) / len(chunk.items)
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
    """Some items of work, and the number of the first."""

    first: int
    items: tuple[Any, ...]
    is_again: bool = False


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

    def runs(self, one: str) -> Iterator[BatchRun]:
        for number, (outputs, failure, seconds) in enumerate(self.outcomes, self.first):
            error = None if failure is None else failure.error(f"in {one} {number}")
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

    def error(self, where: str) -> Exception:
        """The exception itself; where this process does not know its class, a RuntimeError that names it."""
        error = self.itself
        if error is None:
            try:
                error = pickle.loads(self.data) if self.data else None  # noqa: S301  # this process's own workers wrote it
            except Exception:  # as above
                error = None
            error = error if isinstance(error, Exception) else RuntimeError(f"{self.kind}: {self.text}")
            error.__cause__ = _RemoteTraceback(self.trace)
        for note in (*self.notes, where):
            add_note(error, note)
        return error


class _RemoteTraceback(Exception):
    """The traceback in the worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


_states: OrderedDict[tuple[str, str], Any] = OrderedDict()
_opening = threading.Lock()


def _run_sent(kind: Kind, digest: str, data: bytes | None, chunk: _Chunk) -> _Reply | None:
    """Run a chunk in a worker; None if it has neither the session nor its pickle."""
    state = locked(_opening, _open, kind, digest, data)
    return None if state is None else _run_chunk(kind, state, chunk, stays=False)


def _open(kind: Kind, digest: str, data: bytes | None) -> Any:
    key = kind.one, digest
    if key not in _states:
        if data is None:
            return None
        _states[key] = kind.begin(pickle.loads(data), True)  # noqa: S301  # whoever maps a session sent it
        while len(_states) > _KEPT:
            _states.popitem(last=False)
    _states.move_to_end(key)
    return _states[key]


def _run_chunk(kind: Kind, state: Any, chunk: _Chunk, *, stays: bool = True) -> _Reply:
    ready = kind.ready(state)
    outcomes = tuple(_run(ready, item, stays=stays) for item in chunk.items)
    worker = threading.current_thread().name if stays else f"process {os.getpid()}"
    return _Reply(worker, onnxruntime.__version__, chunk.first, outcomes)


def _run(ready: Callable[[Any], Run], item: Any, *, stays: bool) -> tuple[Mapping[str, Any] | None, _Failure | None, float]:
    begin = time.perf_counter()
    try:
        run = ready(item)
        begin = time.perf_counter()
        names, values = run()
    except Exception as error:
        return None, _Failure.of(error, stays=stays), time.perf_counter() - begin
    return dict(zip(names, values, strict=True)), None, time.perf_counter() - begin

"""Runs of a session by an executor, which schedules them: this module sends it chunks and takes what comes back, in order.

Threads run the session itself. Any other engine gets pickles: the session goes to a worker when that says that it lacks it, and
stays there under the digest of its pickle.
"""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import shlex
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import onnxruntime

from pyopnb.errors import InputError
from pyopnb.ops.instantiate import add_note
from pyopnb.ops.locks import locked
from pyopnb.ops.messages import sanitize
from pyopnb.ops.pickling import dumps
from pyopnb.ops.progress import advance, tracking
from pyopnb.ops.result import Result
from pyopnb.runtime.session.session import Session

__all__ = ["BatchRun", "Run", "Work", "WorkKind", "attach_runs", "check_executor", "run_packed"]

_CHUNK_SECONDS = 0.05  # An engine spends about 1 ms on a task, which is small beside such a chunk.
_MOST_IN_CHUNK = 256
_SMALL_SESSION = 16_384  # bytes that go along with each chunk, which saves the question
_KEPT_SESSIONS = 4  # in a worker

Run = Callable[[], tuple[Sequence[str], Sequence[Any]]]
"""A run that is ready to begin. It returns the names of its outputs, and their values."""


@dataclass(frozen=True, eq=False)
class BatchRun:
    """A run of a map or a sweep.

    Attributes
    ----------
    number : int
        Its position among them.
    result : Result or None
        None if the run raised.
    error : Exception or None
    seconds : float
        Of the run itself, where it ran.
    worker : str
        The thread or process that ran it.
    """

    number: int
    result: Result | None
    error: Exception | None
    seconds: float
    worker: str


@dataclass(frozen=True)
class WorkKind:
    """How `map` or `sweep` runs its items.

    Attributes
    ----------
    module : str
        The module whose ``KIND`` this is, by which a worker finds it.
    singular, plural : str
        What is counted.
    begin : callable
        Called once in each worker, with the session and whether that is the worker's own copy.
    ready : callable
        Called for each chunk with what ``begin`` returned; returns what makes a `Run` of an item.
    """

    module: str
    singular: str
    plural: str
    begin: Callable[[Session, bool], Any]
    ready: Callable[[Any], Callable[[Any], Run]]


def check_executor(executor: Any, where: str) -> None:
    """Raise `InputError` for anything but an executor or None.

    Parameters
    ----------
    executor : object
    where : str
        The function whose argument it is.
    """
    if executor is None or (hasattr(executor, "submit") and not hasattr(executor, "get_executor")):
        return
    # The clients of Dask and ipyparallel are no executors, but have one.
    next_ = "concurrent.futures.ProcessPoolExecutor(4)"
    if hasattr(executor, "get_executor"):
        next_ = "client.get_executor()"
    elif hasattr(executor, "executor"):
        next_ = "client.executor()"
    raise InputError(
        f"{where}, executor",
        expected="an executor of concurrent.futures",
        got=type(executor).__name__,
        next=next_,
    )


def attach_runs(error: Exception, name: str, runs: Any) -> None:
    """Give an exception the runs before it, as an attribute that a note names.

    Parameters
    ----------
    error : Exception
    name : str
        Of the attribute.
    runs : Batches or Sweep
    """
    # A class with slots takes no attribute.
    with suppress(AttributeError):
        setattr(error, name, runs)
        add_note(
            error,
            f"the results before it are in the attribute {name} of this exception, and {name}.unfinished lists the rest",
        )


# ---- in the process that calls -----------------------------------------------------------------


@dataclass(frozen=True)
class _Chunk:
    """Items that an executor has, and its future.

    ``sends`` is how many times the session had been sent to a worker when the chunk was submitted,
    and ``is_second_try`` whether the executor has failed with this chunk before.
    """

    first: int
    items: tuple[Any, ...]
    future: Future[Any]
    sends: int
    is_second_try: bool = False


class Work:
    """Runs of a session over items, in order.

    Parameters
    ----------
    kind : WorkKind
    session : Session
    executor : Executor or None
        None runs them in this thread.
    in_flight : int, optional
        Chunks that the executor has at a time.
    stops : bool
        Begin nothing more once a run has raised.

    Attributes
    ----------
    done : list of BatchRun
    begun : int
        How many items were read.
    """

    def __init__(
        self,
        kind: WorkKind,
        session: Session,
        executor: Executor | None,
        *,
        in_flight: int | None = None,
        stops: bool,
    ) -> None:
        self.done: list[BatchRun] = []
        self.begun = 0
        self._kind = kind
        self._executor = executor
        self._stops = stops
        self._in_flight = in_flight or max(32, 4 * (os.cpu_count() or 1))
        self._chunk_size = 1
        self._flying: deque[_Chunk] = deque()
        self._source_error: Exception | None = None
        self._session_data = b""
        self._digest = ""
        self._sends = 0
        self._state: Any = None
        self._in_process = executor is None or isinstance(executor, ThreadPoolExecutor)
        if self._in_process:
            self._state = kind.begin(session, False)
        else:
            # Pickled once, now: what is redefined later does not serve this call.
            self._session_data = pickle.dumps(session, pickle.HIGHEST_PROTOCOL)
            self._digest = hashlib.sha256(self._session_data).hexdigest()

    def run(self, items: Iterable[Any]) -> None:
        """Run the session over all items.

        An exception of the engine, or an interrupt, cancels what the executor has not begun, and keeps what it has finished.
        What ``items`` raises is raised once the items before it have run.
        """
        source = iter(items)
        if self._executor is None:
            self._run_here(source)
            return
        try:
            self._submit_more(source)
            while self._flying:
                self._receive_first()
                if self._is_over:
                    break
                self._submit_more(source)
            if self._source_error is not None and not self._is_over:
                raise self._source_error
        finally:
            self._cancel()

    def run_all(self, items: Iterable[Any], total: int | None) -> None:
        """Run the session over all items with a progress bar, and end early at an interrupt.

        Parameters
        ----------
        items : iterable
        total : int or None
            How many there are, if that is known.
        """
        try:
            with tracking(self._kind.plural, total):
                self.run(items)
        except KeyboardInterrupt:
            # With nothing to return, an interrupt is one as everywhere.
            if not self.done:
                raise

    @property
    def _is_over(self) -> bool:
        return self._stops and bool(self.done) and self.done[-1].error is not None

    def _run_here(self, source: Iterable[Any]) -> None:
        prepared = self._kind.ready(self._state)
        for item in source:
            self.begun += 1
            outcome = _run_item(prepared, item, in_process=True)
            self._keep(self.begun - 1, [outcome], threading.current_thread().name)
            if self._is_over:
                return

    def _submit_more(self, source: Iterable[Any]) -> None:
        while len(self._flying) < self._in_flight and self._source_error is None:
            first = self.begun
            items = self._read(source)
            if not items:
                return
            self._flying.append(self._submit(first, items, is_session_sent=False))

    def _read(self, source: Iterable[Any]) -> tuple[Any, ...]:
        """Read a chunk of items ahead of their runs.

        Each is copied or pickled as it is read, because a generator may refill one buffer for the next item.
        """
        items: list[Any] = []
        try:
            for item in source:
                items.append(_copy_feeds(item) if self._in_process else self._pickled(item))
                self.begun += 1
                if len(items) == self._chunk_size:
                    break
        except Exception as error:  # the user's own, raised once the items before it have run
            self._source_error = error
        return tuple(items)

    def _pickled(self, item: Any) -> bytes:
        try:
            return dumps(item)
        except Exception as error:  # a user's class can raise anything here
            raise InputError(
                f"{self._kind.module.rpartition('.')[2]}, {self._kind.singular} {self.begun}",
                expected=f"{self._kind.plural} that can be pickled, as arrays can",
                got=sanitize(f"{type(error).__name__}: {error}", 120),
            ) from error

    def _submit(self, first: int, items: tuple[Any, ...], *, is_session_sent: bool) -> _Chunk:
        assert self._executor is not None  # noqa: S101  # `run` has no use for this without one
        if self._in_process:
            future = self._executor.submit(_run_chunk, self._kind, self._state, items)
        else:
            is_small = len(self._session_data) <= _SMALL_SESSION
            self._sends += is_session_sent
            names = {
                "module": self._kind.module,
                "digest": self._digest,
                "session": self._session_data if is_small or is_session_sent else None,
                "items": items,
                "token": os.urandom(8),  # Dask gives equal tasks the result of the first.
            }
            future = self._executor.submit(eval, _RUN_IN_WORKER, names)
        return _Chunk(first, items, future, self._sends)

    def _receive_first(self) -> None:
        chunk = self._flying[0]
        try:
            reply = chunk.future.result()
        except Exception as error:  # the engine's own
            if not isinstance(error, BrokenExecutor) and not chunk.is_second_try:
                # Dask's executor (2026.8) raises a ValueError if a worker dies while its result is
                # under way. Nothing is wrong with the chunk, so it runs again.
                again = self._submit(chunk.first, chunk.items, is_session_sent=False)
                self._flying[0] = replace(again, is_second_try=True)
                return
            last = chunk.first + len(chunk.items) - 1
            add_note(
                error,
                f"raised by the executor, which had {self._kind.plural} {chunk.first} to {last}",
            )
            raise
        if reply is None:
            # The worker has no such session. It may have come since, with another chunk: ask again
            # then, rather than sending a large one for each chunk that is under way.
            is_session_sent = chunk.sends == self._sends
            self._flying[0] = self._submit(
                chunk.first, chunk.items, is_session_sent=is_session_sent
            )
            return
        self._flying.popleft()
        if isinstance(reply, dict):
            raise self._lacks_pyopnb(**reply)
        if isinstance(reply, _Failure):
            raise reply.error(f"in a worker, before {self._kind.singular} {chunk.first} began")
        worker, outcomes = reply
        self._keep(chunk.first, outcomes, worker)
        seconds = sum(seconds for _, _, seconds in outcomes) / len(outcomes)
        # At most twice as many as before: a chunk of fast items does not say that the next are fast.
        fitting = int(_CHUNK_SECONDS / max(seconds, 1e-5))
        self._chunk_size = max(1, min(fitting, 2 * self._chunk_size, _MOST_IN_CHUNK))

    def _keep(self, first: int, outcomes: Sequence[_Outcome], worker: str) -> None:
        for number, (outputs, failure, seconds) in enumerate(outcomes, first):
            result = None if outputs is None else Result(outputs)
            error = None if failure is None else failure.error(f"in {self._kind.singular} {number}")
            self.done.append(BatchRun(number, result, error, seconds, worker))
        advance(self._kind.plural, len(outcomes))

    def _cancel(self) -> None:
        """Cancel what the executor has not begun, and keep what it has finished."""
        # All are cancelled first: else the executor would begin one while another is looked at.
        for chunk in self._flying:
            chunk.future.cancel()
        for chunk in self._flying:
            future = chunk.future
            if not future.done() or future.cancelled() or future.exception() is not None:
                continue
            if isinstance(future.result(), tuple):
                worker, outcomes = future.result()
                self._keep(chunk.first, outcomes, worker)

    def _lacks_pyopnb(self, host: str, process: int, python: str) -> InputError:
        try:
            requirement = f"pyopnb=={version('pyopnb')}"
        except PackageNotFoundError:  # It runs from its sources.
            requirement = "pyopnb"
        return InputError(
            f"{self._kind.module.rpartition('.')[2]}, executor",
            expected=f"workers that have {requirement}",
            got=f"process {process} of {sanitize(host)}, which has no pyopnb",
            next=f'{shlex.quote(sanitize(python))} -m pip install "{requirement}"',
        )


def _copy_feeds(item: Any) -> Any:
    """Copy the arrays of an item, which its owner may overwrite before it runs."""
    if isinstance(item, Mapping):
        return {name: _copy_feeds(value) for name, value in item.items()}
    if isinstance(item, tuple):
        return tuple(_copy_feeds(value) for value in item)
    if isinstance(item, list):
        return [_copy_feeds(value) for value in item]
    if isinstance(item, (onnxruntime.OrtValue, onnxruntime.SparseTensor)):
        return item  # They cannot be copied.
    return copy.deepcopy(item)


# ---- in a worker -------------------------------------------------------------------------------

# A text, and not a function of this module: Dask's workers hang where they cannot unpickle a task,
# and those of ProcessPoolExecutor end. A worker without pyopnb returns where it is instead.
_RUN_IN_WORKER = """(
    __import__("pyopnb.batches.work", fromlist=["run_packed"]).run_packed(module, digest, session, items)
    if __import__("importlib.util").util.find_spec("pyopnb") else
    {
        "host": __import__("platform").node(),
        "process": __import__("os").getpid(),
        "python": __import__("sys").executable,
    }
)"""


class _RemoteTraceback(Exception):
    """The traceback in the worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class _Failure:
    """An exception of a run.

    One that crosses processes is a pickle, which loses its traceback and, of some classes, its notes.
    """

    text: str
    notes: tuple[str, ...] = ()
    trace: str = ""
    data: bytes | None = None
    itself: Exception | None = None

    @classmethod
    def of(cls, error: Exception, *, in_process: bool) -> _Failure:
        text = f"{type(error).__name__}: {error}"
        if in_process:
            return cls(text, itself=error)
        try:
            data = dumps(error)
        except Exception:  # a user's class can raise anything here
            data = None
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(text, notes, "".join(traceback.format_exception(error)), data)

    def error(self, where: str) -> Exception:
        """Return the exception itself, or a RuntimeError with its text where it cannot be unpickled."""
        error = self.itself
        if error is None:
            error = self._unpickled() or RuntimeError(self.text)
            error.__cause__ = _RemoteTraceback(self.trace)
            error.__notes__ = list(self.notes)
        add_note(error, where)
        return error

    def _unpickled(self) -> Exception | None:
        try:
            error = pickle.loads(self.data) if self.data else None  # noqa: S301  # our own worker wrote it
        except Exception:  # a user's class can raise anything here
            return None
        return error if isinstance(error, Exception) else None


_Outcome = tuple[Mapping[str, Any] | None, _Failure | None, float]
"""The outputs or the failure of a run, and its seconds."""

_states: OrderedDict[tuple[str, str], Any] = OrderedDict()
_opening = threading.Lock()


def run_packed(module: str, digest: str, session: bytes | None, items: Sequence[bytes]) -> Any:
    """Run pickled items in a worker.

    Parameters
    ----------
    module : str
        Whose ``KIND`` the work is.
    digest : str
        Of the session's pickle.
    session : bytes or None
        That pickle, unless the worker is expected to have it.
    items : sequence of bytes

    Returns
    -------
    tuple, _Failure or None
        The worker and the outcomes; why the session cannot be opened; None where the worker has neither it nor its pickle.
    """
    work_kind = __import__(module, fromlist=["KIND"]).KIND
    try:
        # One thread opens a session, and the others of this process find it open.
        state = locked(_opening, _open, work_kind, digest, session)
        if state is None:
            return None
        unpickled = [pickle.loads(item) for item in items]  # noqa: S301  # whoever maps a session sent them
    except Exception as error:  # an op's module can raise anything here
        return _Failure.of(error, in_process=False)
    _, outcomes = _run_chunk(work_kind, state, unpickled, in_process=False)
    return f"process {os.getpid()}", outcomes


def _open(kind: WorkKind, digest: str, session: bytes | None) -> Any:
    key = kind.module, digest
    if key not in _states:
        if session is None:
            return None
        _states[key] = kind.begin(pickle.loads(session), True)  # noqa: S301  # as above
        while len(_states) > _KEPT_SESSIONS:
            _states.popitem(last=False)
    _states.move_to_end(key)
    return _states[key]


def _run_chunk(
    kind: WorkKind, state: Any, items: Sequence[Any], *, in_process: bool = True
) -> tuple[str, list[_Outcome]]:
    prepared = kind.ready(state)
    outcomes = [_run_item(prepared, item, in_process=in_process) for item in items]
    return threading.current_thread().name, outcomes


def _run_item(ready: Callable[[Any], Run], item: Any, *, in_process: bool) -> _Outcome:
    begin = time.perf_counter()
    try:
        run = ready(item)
        begin = time.perf_counter()  # What makes a run ready is no part of it.
        names, values = run()
    except Exception as error:
        return None, _Failure.of(error, in_process=in_process), time.perf_counter() - begin
    return dict(zip(names, values, strict=True)), None, time.perf_counter() - begin

"""Run a session by an executor: send it chunks of items, and collect their results in order.

The executor schedules the chunks. Threads run the session itself. Any other engine gets pickles:
a worker that lacks a large session says so, gets it then, and keeps it under the digest of its
pickle. A small session goes along with each chunk.
"""

from __future__ import annotations

import concurrent.futures
import copy
import hashlib
import os
import pickle
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import onnxruntime

from pyopnb.common import progress, sanitize
from pyopnb.engine import Result, Session, add_note, pickling
from pyopnb.errors import InputError

__all__ = ["BatchRun", "Run", "Work", "WorkKind", "attach_runs", "check_executor", "run_packed"]

_CHUNK_SECONDS = 0.05  # An engine spends about 1 ms on a task, which is small beside such a chunk.
_MOST_IN_CHUNK = 256
_SMALL_SESSION = 16_384  # bytes: so small a session is sent without being asked for
_KEPT_SESSIONS = 4  # in a worker

Run = Callable[[], tuple[Sequence[str], Sequence[Any]]]
"""A run that is ready to begin. It returns the names of its outputs, and their values."""


@dataclass(frozen=True, eq=False)
class BatchRun:
    """A run of a map or a sweep.

    Attributes
    ----------
    number : int
        The place of its batch, or of its values among all combinations.
    result : Result or None
        None if the run raised.
    error : Exception or None
        The exception that the run raised.
    seconds : float
        Duration of the run itself, without the way to the worker.
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
        Where a worker finds it, as ``KIND``.
    function : str
        The name of the public function, for messages.
    singular, plural : str
        The noun for an item.
    begin : callable
        Called with the session, and whether it is a copy, once in a process; returns the state
        that all chunks share.
    ready : callable
        Called with that state once for each chunk; returns a function of an item
        that returns a `Run`.
    """

    module: str
    function: str
    singular: str
    plural: str
    begin: Callable[[Session, bool], Any]
    ready: Callable[[Any], Callable[[Any], Run]]


def check_executor(executor: Any, where: str) -> None:
    """Raise `InputError` for anything but None or an executor of threads or other processes."""
    # It is new in Python 3.14, and a ThreadPoolExecutor.
    interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())
    if isinstance(executor, interpreters):
        raise InputError(
            f"{where}, executor",
            expected="threads or processes, as NumPy runs in the first interpreter only",
            got=type(executor).__name__,
            next="concurrent.futures.ThreadPoolExecutor(4)",
        )
    if executor is None or (hasattr(executor, "submit") and not hasattr(executor, "get_executor")):
        return
    # The clients of Dask and ipyparallel are no executors, but have one.
    advice = "concurrent.futures.ProcessPoolExecutor(4)"
    if hasattr(executor, "get_executor"):
        advice = "client.get_executor()"
    elif hasattr(executor, "executor"):
        advice = "client.executor()"
    expected = "an executor of concurrent.futures"
    got = type(executor).__name__
    raise InputError(f"{where}, executor", expected=expected, got=got, next=advice)


def attach_runs(error: Exception, name: str, runs: Any) -> None:
    """Give an exception the runs before it, as an attribute that a note names."""
    # A class with slots takes no attribute.
    with suppress(AttributeError):
        setattr(error, name, runs)
        text = (
            f"the results before it are in the attribute {name} of this exception, "
            f"and {name}.unfinished lists the rest"
        )
        add_note(error, text)


# ---- in the process that calls -------------------------------------------------------------------


@dataclass
class _Chunk:
    """Items that were handed to an executor, and their future."""

    first: int
    items: tuple[Any, ...]
    future: Future[Any]
    sends: int  # how often the session had been sent before it
    is_second_try: bool = False


class Work:
    """Runs of a session over items, in order.

    Parameters
    ----------
    executor : Executor or None
        None for this thread.
    in_flight : int, optional
        Chunks with the executor at a time.
    stops : bool
        Whether the first exception of a run ends the work.
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
        self._sends = 0
        self._in_process = executor is None or isinstance(executor, ThreadPoolExecutor)
        self._is_stored = False
        if self._in_process:
            self._state = kind.begin(session, False)
        else:
            # Pickled once, now: later redefinitions do not affect this call.
            self._session_data = pickle.dumps(session, pickle.HIGHEST_PROTOCOL)
            self._digest = hashlib.sha256(self._session_data).hexdigest()

    def run_all(self, items: Iterable[Any], total: int | None) -> None:
        """Run the session over all items with a progress bar, and end early at an interrupt."""
        # No code of the user's runs between the items of a list, while a generator may fill one
        # buffer again and again.
        self._is_stored = isinstance(items, (list, tuple))
        try:
            with progress.tracking(self._kind.plural, total):
                if self._executor is None:
                    self._run_here(iter(items))
                else:
                    self._run_by_executor(iter(items))
        except KeyboardInterrupt:
            # There is nothing to return yet, so the interrupt reaches the user.
            if not self.done:
                raise

    @property
    def _is_over(self) -> bool:
        return self._stops and bool(self.done) and self.done[-1].error is not None

    def _run_here(self, source: Iterator[Any]) -> None:
        prepared = self._kind.ready(self._state)
        for item in source:
            self.begun += 1
            self._keep(self.begun - 1, [_run_item(prepared, item)], _thread_name())
            if self._is_over:
                return

    def _run_by_executor(self, source: Iterator[Any]) -> None:
        try:
            self._submit_more(source)
            while self._flying and not self._is_over:
                self._receive_first()
                if not self._is_over:
                    self._submit_more(source)
            if self._source_error is not None and not self._is_over:
                raise self._source_error
        finally:
            # Cancel all before looking at any, or the executor would begin one meanwhile.
            finished = [chunk for chunk in self._flying if not chunk.future.cancel()]
            for chunk in finished:
                future = chunk.future
                is_there = future.done() and future.exception() is None
                if is_there and isinstance(future.result(), tuple):
                    worker, outcomes = future.result()
                    self._keep(chunk.first, outcomes, worker)

    def _submit_more(self, source: Iterator[Any]) -> None:
        """Read chunks of items ahead of their runs, and hand them to the executor."""
        while len(self._flying) < self._in_flight and self._source_error is None:
            first = self.begun
            items: list[Any] = []
            try:
                for item in source:
                    items.append(self._apart(item))
                    self.begun += 1
                    if len(items) == self._chunk_size:
                        break
            except Exception as error:  # the user's own, raised once the items before it have run
                self._source_error = error
            if not items:
                return
            future = self._submit(tuple(items))
            self._flying.append(_Chunk(first, tuple(items), future, self._sends))

    def _apart(self, item: Any) -> Any:
        """Copy or pickle an item, which its owner may overwrite before it runs."""
        if self._in_process and self._is_stored:
            return item
        if self._in_process:
            return _copy_feeds(item)
        try:
            return pickling.dumps(item)
        except Exception as error:  # a user's class can raise anything here
            raise InputError(
                f"{self._kind.function}, {self._kind.singular} {self.begun}",
                expected=f"{self._kind.plural} that can be pickled, as arrays can",
                got=sanitize(f"{type(error).__name__}: {error}", 120),
                next="a ThreadPoolExecutor, which pickles nothing",
            ) from error

    def _submit(self, items: tuple[Any, ...], *, sends_session: bool = False) -> Future[Any]:
        assert self._executor is not None  # noqa: S101  # this thread alone submits nothing
        if self._in_process:
            return self._executor.submit(_run_chunk, self._kind, self._state, items)
        session = None
        if sends_session or len(self._session_data) <= _SMALL_SESSION:
            session = self._session_data
        self._sends += sends_session
        names = {
            "module": self._kind.module,
            "digest": self._digest,
            "session": session,
            "items": items,
            "token": os.urandom(8),  # Dask gives equal tasks the result of the first.
        }
        return self._executor.submit(eval, _RUN_IN_WORKER, names)

    def _receive_first(self) -> None:
        chunk = self._flying[0]
        try:
            reply = chunk.future.result()
        except Exception as error:  # the engine's own
            # Dask's executor (2026.8) raises a ValueError if a worker dies while its result is
            # under way. Nothing is wrong with the chunk, so it runs again.
            if not isinstance(error, BrokenExecutor) and not chunk.is_second_try:
                chunk.future, chunk.is_second_try = self._submit(chunk.items), True
                return
            last = chunk.first + len(chunk.items) - 1
            text = f"raised by the executor, which had {self._kind.plural} {chunk.first} to {last}"
            add_note(error, text)
            raise
        if reply is None:
            # The worker has no such session. It may have come since, with another chunk: ask again
            # then, rather than sending a large one for each chunk that is under way.
            chunk.future = self._submit(chunk.items, sends_session=chunk.sends == self._sends)
            chunk.sends = self._sends
            return
        self._flying.popleft()
        if isinstance(reply, str):
            where = f"{self._kind.function}, executor"
            advice = "pip install pyopnb there"
            raise InputError(where, expected="workers that have pyopnb", got=reply, next=advice)
        worker, outcomes = reply
        self._keep(chunk.first, outcomes, worker)
        seconds = sum(seconds for _, _, seconds in outcomes) / len(outcomes)
        # At most twice as many as before: a chunk of fast items does not say
        # that the next are fast.
        fitting = int(_CHUNK_SECONDS / max(seconds, 1e-5))
        self._chunk_size = max(1, min(fitting, 2 * self._chunk_size, _MOST_IN_CHUNK))

    def _keep(self, first: int, outcomes: Sequence[_Outcome], worker: str) -> None:
        for number, (outputs, error, seconds) in enumerate(outcomes, first):
            if isinstance(error, bytes):
                error = _unpacked_error(error)
            if error is not None:
                add_note(error, f"in {self._kind.singular} {number}")
            result = None
            if outputs is not None:
                result = Result(outputs)
            self.done.append(BatchRun(number, result, error, seconds, worker))
        progress.advance(self._kind.plural, len(outcomes))


def _copy_feeds(item: Any) -> Any:
    """Copy the arrays of an item, which its owner may overwrite before it runs."""
    if isinstance(item, Mapping):
        return {name: _copy_feeds(value) for name, value in item.items()}
    if isinstance(item, tuple):
        return tuple(_copy_feeds(value) for value in item)
    if isinstance(item, onnxruntime.OrtValue):
        return item  # It cannot be copied.
    return copy.deepcopy(item)


# ---- in a worker ---------------------------------------------------------------------------------


# This is text rather than a function of this module, as a worker without pyopnb cannot unpickle
# the function: Dask workers then hang, and ProcessPoolExecutor workers end. The text runs there
# too, and returns where the worker is.
_RUN_IN_WORKER = """(
    __import__("pyopnb.batches.work", fromlist=["run_packed"]).run_packed(
        module, digest, session, items
    )
    if __import__("importlib.util").util.find_spec("pyopnb") else
    "{}, process {} of {}, which has no pyopnb".format(
        __import__("sys").executable, __import__("os").getpid(), __import__("platform").node()
    )
)"""

_Outcome = tuple[Mapping[str, Any] | None, Exception | bytes | None, float]
"""The outputs of a run or its exception, and its seconds."""

_states: OrderedDict[tuple[str, str], Any] = OrderedDict()
_opening = threading.Lock()


class _RemoteTraceback(Exception):
    """The traceback in the worker, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _packed_error(error: Exception) -> bytes:
    """Pickle an exception with its traceback, or its text in a RuntimeError where it refuses."""
    trace = "".join(traceback.format_exception(error))
    notes = getattr(error, "__notes__", [])
    try:
        data = pickling.dumps((error, notes, trace))
        pickle.loads(data)  # noqa: S301  # a class may write what it cannot read
    except Exception:  # a user's class can raise anything here
        text = f"{type(error).__name__}: {error}"
        data = pickling.dumps((RuntimeError(text), notes, trace))
    return data


def _unpacked_error(data: bytes) -> Exception:
    error: Exception
    error, notes, trace = pickle.loads(data)  # noqa: S301  # our own worker wrote it
    error.__cause__ = _RemoteTraceback(trace)
    error.__notes__ = list(notes)
    return error


def run_packed(module: str, digest: str, session: bytes | None, items: Sequence[bytes]) -> Any:
    """Run pickled items in a worker.

    Returns
    -------
    tuple of (str, list) or None
        The worker and the outcomes; None if the session is needed and was not sent.
    """
    work_kind: WorkKind = __import__(module, fromlist=["KIND"]).KIND
    key = module, digest
    try:
        # One thread opens a session, and the others of this process find it open.
        with _opening:
            if key not in _states:
                if session is None:
                    return None
                _states[key] = work_kind.begin(pickle.loads(session), True)  # noqa: S301  # the caller of map sent it
                if len(_states) > _KEPT_SESSIONS:
                    _states.popitem(last=False)
            _states.move_to_end(key)
            state = _states[key]
        unpickled = [pickle.loads(item) for item in items]  # noqa: S301  # as above
    except Exception as error:  # an op's module can raise anything here
        add_note(error, "in a worker, before the runs began")
        outcomes: list[_Outcome] = [(None, error, 0.0)] * len(items)
    else:
        outcomes = _run_chunk(work_kind, state, unpickled)[1]
    for place, (outputs, failure, seconds) in enumerate(outcomes):
        if isinstance(failure, Exception):
            outcomes[place] = outputs, _packed_error(failure), seconds
    return f"process {os.getpid()}", outcomes


def _thread_name() -> str:
    return threading.current_thread().name


def _run_chunk(kind: WorkKind, state: Any, items: Sequence[Any]) -> tuple[str, list[_Outcome]]:
    prepared = kind.ready(state)
    return _thread_name(), [_run_item(prepared, item) for item in items]


def _run_item(ready: Callable[[Any], Run], item: Any) -> _Outcome:
    begin = time.perf_counter()
    try:
        run = ready(item)
        begin = time.perf_counter()  # Making it ready does not count.
        names, values = run()
    except Exception as error:
        return None, error, time.perf_counter() - begin
    return dict(zip(names, values, strict=True)), None, time.perf_counter() - begin

"""Runs of a session in chunks, by the threads, processes or machines of an executor.

The engine is the executor's: this module sends it chunks of work, few at a time, and takes what comes back. The session goes to
a worker when that says that it lacks it, and stays there under the digest of its pickle.

An engine is given ``eval``, `_LOADS` as text, and bytes, in which `_Call` has the rest. So what reads its messages needs no
pyopnb: Dask's workers hang where they cannot unpickle a task, and those of ``ProcessPoolExecutor`` end. The task then returns
that pyopnb is not there and which worker that is, and others run the chunk.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import shlex
import threading
import time
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import onnxruntime

from pyopnb.ops.errors import ArgumentError, plural, sanitize
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
_LAST_SECONDS = 1.0  # which what is with the executor has to finish, once the call is over
_TRIES = 8  # to find a worker with pyopnb

Run = Callable[[], tuple[Sequence[str], Sequence[Any]]]
"""One run, made ready: the names of its outputs, and their values."""


@dataclass(frozen=True)
class Kind:
    """A kind of work. Its functions are a module's, so that they go to other processes by name.

    Attributes
    ----------
    function : str
        Whose argument the executor is.
    one, many : str
        What is counted.
    begin : callable
        Called once in each worker, with the session and whether that is the worker's own copy; what it returns serves all
        chunks there.
    ready : callable
        Called with that for each chunk; returns what makes an item of work ready to run.
    """

    function: str
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
        self._returned: list[_Chunk] = []  # by workers that lack pyopnb
        self._lacks: dict[str, _Lack] = {}
        self._tries = 0  # to send them again, since another worker answered
        self._versions: set[str] = set()
        self._has_said_lost = False
        self._sent = None if executor is None or isinstance(executor, ThreadPoolExecutor) else _Sent.of(session)
        self._state = kind.begin(session, False) if self._sent is None else None

    @property
    def _is_over(self) -> bool:
        return self._stops and any(run.error is not None for run in self.done)

    @property
    def _begins(self) -> bool:
        return not (self._is_over or self._lacks)

    def run(self, items: Iterator[Any]) -> None:
        """Have all of them run.

        What ``items`` raises is raised after those before it have run, as is that a worker has no pyopnb. An interrupt, or an
        exception of the engine, leaves a second to what is with the executor, and cancels the rest; another interrupt ends that
        second.
        """
        source = _Source(items)
        try:
            self._run(source)
        except BaseException:
            self._keep_finished()
            raise
        finally:
            self.begun = source.count
            for future in self._flying:
                future.cancel()

    def _run(self, source: _Source) -> None:
        while True:
            while len(self._flying) < self._in_flight and self._begins and (chunk := source.take(self._size)):
                self._submit(chunk)
            if not self._flying:
                self._return()
            if not self._flying:
                break
            done = wait(self._flying, return_when=FIRST_COMPLETED).done
            for future in sorted(done, key=lambda future: self._flying[future].first):
                self._take(self._flying.pop(future), future)
        if self._is_over:  # the error of a run came before those below
            return
        if self._lacks:
            raise self._lacking()
        if source.error is not None:
            raise source.error

    def _return(self) -> None:
        """Send chunks again that workers without pyopnb had, as another one has time: one to each of those, and one to it."""
        if not self._returned or self._is_over or self._tries == _TRIES:
            return
        self._tries += 1
        count = 1 + len(self._lacks)
        again, self._returned = self._returned[:count], self._returned[count:]
        for chunk in again:
            self._submit(chunk)

    def _keep_finished(self) -> None:
        """Take the results that are there soon, which an interrupt or a lost worker is no reason to throw away."""
        wait(self._flying, timeout=_LAST_SECONDS)
        for future in [future for future in self._flying if future.done() and not future.cancelled()]:
            reply = None if future.exception() is not None else future.result()
            if isinstance(reply, _Reply):
                del self._flying[future]
                self.done += reply.runs(self._kind.one)

    def _submit(self, chunk: _Chunk, session: bytes | None = None) -> None:
        session = session or (None if self._sent is None else self._sent.small)
        try:
            self._flying[self._future(chunk, session)] = chunk
        except BrokenExecutor as error:
            self._explain_lost(error, chunk)
            raise

    def _future(self, chunk: _Chunk, session: bytes | None) -> Future[Any]:
        if self._executor is None:
            done: Future[Any] = Future()
            done.set_result(_run_chunk(self._kind, self._state, chunk))
            return done
        packed = None if self._sent is None else self._packed(chunk, self._sent.digest, session)
        try:
            if packed is None:
                return self._executor.submit(_run_chunk, self._kind, self._state, chunk)
            return self._executor.submit(eval, _LOADS, {"data": packed[0], "buffers": packed[1]})
        except BrokenExecutor:
            raise
        except Exception as error:  # the engine's: each has its own for one that was shut down
            raise ArgumentError(
                f"{self._kind.function}, executor",
                expected="one that takes work",
                got=sanitize(f"{type(error).__name__}: {error}", 120),
                next=f"{self._kind.function} inside the executor's with block, or with a new one where it was shut down",
            ) from error

    def _packed(self, chunk: _Chunk, digest: str, session: bytes | None) -> tuple[bytes, tuple[bytes, ...]]:
        """A chunk's call as bytes, and beside them the session's: many chunks share those."""
        held = None if session is None else pickle.PickleBuffer(session)
        call = _Call(self._kind, digest, held, chunk.first, chunk.items, os.urandom(8))
        try:
            data = _pickled(call, lambda buffer: buffer is not held)
        except Exception as error:  # a user's class can raise anything here
            expected = f"{self._kind.many} that can be pickled, as arrays can"
            where = f"{self._kind.function}, {self._kind.one} {chunk.first + _first_unpickled(chunk.items)}"
            raise ArgumentError(where, expected=expected, got=sanitize(f"{type(error).__name__}: {error}", 120)) from error
        return data, () if session is None else (session,)

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
        except Exception as error:  # the engine's
            if not _has_lost_a_worker(error) or chunk.is_again:
                self._explain_engine(error, chunk)
                raise
            self._say_lost(chunk)
            self._submit(replace(chunk, is_again=True))
            return
        if isinstance(reply, dict):  # as `_LOADS` says it
            lack = _Lack(**reply)
            self._lacks.setdefault(lack.worker, lack)
            self._returned.append(chunk)
            return
        self._tries = 0
        self._return()
        if isinstance(reply, _Failure):  # it could not open the session
            failure = reply.error(f"in a worker, before {self._kind.one} {chunk.first} began")
            if reply.version != onnxruntime.__version__:
                add_note(failure, _versions("that worker", reply.version))
            raise failure
        if reply is None:  # it has no such session
            assert self._sent is not None  # noqa: S101  # threads have the session itself
            self._submit(chunk, self._sent.data)
            return
        self._check_versions(reply)
        self.done += reply.runs(self._kind.one)
        advance(self._kind.many, len(chunk.items))
        seconds = sum(run.seconds for run in self.done[-len(chunk.items) :]) / len(chunk.items)
        self._size = min(_MOST_IN_CHUNK, max(1, int(_CHUNK_SECONDS / max(seconds, 1e-5))), 2 * self._size)

    def _lacking(self) -> ArgumentError:
        wanted, lacks = _requirement(), list(self._lacks.values())
        others = f", and {plural(len(lacks) - 1, 'other worker')} as well" if len(lacks) > 1 else ""
        return ArgumentError(
            f"{self._kind.function}, executor",
            expected=f"workers that have {wanted}",
            got=f"{sanitize(lacks[0].worker)}, which says: {sanitize(lacks[0].text, 120)}{others}",
            next=" ; ".join(dict.fromkeys(f'{shlex.quote(lack.python)} -m pip install "{wanted}"' for lack in lacks)),
        )

    def _explain_engine(self, error: Exception, chunk: _Chunk) -> None:
        one, many = self._kind.one, self._kind.many
        if isinstance(error, CancelledError):
            note = f"{one} {chunk.first} was cancelled by its engine, as it is when that is shut down or started anew"
        elif _has_lost_a_worker(error) or type(error).__name__ == "KilledWorker":
            span = f"{many} {chunk.first} to {chunk.first + len(chunk.items) - 1}"
            note = f"each worker that had {span} ended: one of them may end the process, or need more memory than there is"
        else:
            note = f"in a worker, before {one} {chunk.first} began; it needs what the ops and the {many} import"
        add_note(error, note)

    def _say_lost(self, chunk: _Chunk) -> None:
        if self._has_said_lost:
            return
        self._has_said_lost = True
        warnings.warn(
            f"a worker ended with {self._kind.one} {chunk.first}, which is sent to another one. "
            "What is lost later in this call is sent again as well",
            UserWarning,
            stacklevel=6,
        )

    def _check_versions(self, reply: _Reply) -> None:
        if reply.version != onnxruntime.__version__ and reply.version not in self._versions:
            self._versions.add(reply.version)
            warnings.warn(f"{_versions(reply.worker, reply.version)}: their results can differ", UserWarning, stacklevel=6)


@dataclass(frozen=True)
class _Chunk:
    """Some items of work, and the number of the first."""

    first: int
    items: tuple[Any, ...]
    is_again: bool = False


class _Source:
    """Items of work, asked for as they are needed.

    Attributes
    ----------
    count : int
        How many were given.
    error : Exception or None
        What they raised instead of another one.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self.count = 0
        self.error: Exception | None = None

    def take(self, size: int) -> _Chunk | None:
        """A chunk of them, which is smaller where they end."""
        first, held = self.count, list[Any]()
        try:
            while self.error is None and len(held) < size:
                held.append(next(self._items))
                self.count += 1
        except StopIteration:
            pass
        except Exception as error:  # the user's, and raised once those before it have run
            self.error = error
        return _Chunk(first, tuple(held)) if held else None


def _first_unpickled(items: Sequence[Any]) -> int:
    """The place of the first item that cannot be pickled."""
    for place, item in enumerate(items):
        try:
            _pickled(item)
        except Exception:  # as it did for all of them
            return place
    return 0


def _pickled(thing: object, buffer_callback: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    """It as bytes. A class of a notebook or a script, which no worker can import, goes by value where cloudpickle is there."""
    try:
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffer_callback)
    except (pickle.PicklingError, AttributeError, TypeError):  # a class of a function, or a lambda
        if find_spec("cloudpickle") is None:
            raise
    else:
        if b"__main__" not in data or find_spec("cloudpickle") is None:
            return data
    dumps: Callable[..., bytes] = importlib.import_module("cloudpickle").dumps
    return dumps(thing, pickle.HIGHEST_PROTOCOL, buffer_callback=buffer_callback)


def _versions(worker: str, found: str) -> str:
    here = onnxruntime.__version__
    return f"{worker} has onnxruntime {sanitize(found)}, and this process {here}; install the same on all workers"


def _requirement() -> str:
    """The pyopnb of this process, as pip takes it."""
    try:
        return f"pyopnb=={version('pyopnb')}"
    except PackageNotFoundError:  # it runs from its sources
        return "pyopnb"


def _has_lost_a_worker(error: Exception) -> bool:
    """Whether an engine's exception says that a worker ended with a chunk, and that the engine does not run it again.

    Dask runs it again by itself, and says ``KilledWorker`` where that ended several. But where a worker ends while its result
    is fetched, the future is pending once more, and ``distributed.cfexecutor`` takes the result for an exception.
    """
    if type(error).__module__.startswith("ipyparallel."):
        return getattr(error, "ename", type(error).__name__) == "EngineError"
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = last.tb_frame.f_globals.get("__name__") if last is not None else None
    return isinstance(error, TypeError) and where == "distributed.cfexecutor"


@dataclass(frozen=True)
class _Lack:
    """That a worker has no pyopnb, or one that lacks what was sent."""

    worker: str
    python: str
    text: str


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


# An expression that gives what ``data`` unpickles to. It is text, since a worker without pyopnb has no function of ours.
_LOADS = """(lambda names: (exec('''
def loads(data, buffers):
    import pickle, re
    try:
        return pickle.loads(data, buffers=buffers)
    except (ImportError, AttributeError) as error:
        if not re.search("'pyopnb[.']", str(error)):
            raise
        import os, platform, sys, time
        time.sleep(0.05)  # it fails at once, and engines would give it what comes next, and next
        worker = f"process {os.getpid()} of {platform.node()}"
        return {"worker": worker, "python": sys.executable, "text": str(error)}
''', names), names["loads"](data, buffers))[1])({})"""


class _Call:
    """A call of `_run_sent`: to unpickle it is to run it, and gives what that returns.

    The last argument is another one for each call: Dask gives equal tasks the result of one.
    """

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return _run_sent, self._arguments


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
    version: str
    itself: Exception | None = None

    @classmethod
    def of(cls, error: Exception, *, stays: bool) -> _Failure:
        try:
            data = None if stays else pickle.dumps(error)
        except Exception:  # a user's class can raise anything here
            data = None
        trace = "" if stays else "".join(traceback.format_exception(error))
        notes = tuple(getattr(error, "__notes__", ()))
        return cls(type(error).__name__, str(error), notes, trace, data, onnxruntime.__version__, error if stays else None)

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


def _run_sent(
    kind: Kind, digest: str, data: bytes | None, first: int, items: tuple[Any, ...], _: bytes
) -> _Reply | _Failure | None:
    """Run a chunk in a worker; None if it has neither the session nor its pickle, a `_Failure` if it cannot open that."""
    try:
        state = locked(_opening, _open, kind, digest, data)
    except Exception as error:  # an op's source can raise anything here
        return _Failure.of(error, stays=False)
    return None if state is None else _run_chunk(kind, state, _Chunk(first, items), stays=False)


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

"""Calls into ONNX Runtime: whose exception arrives, and what happens when the interpreter exits."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from pyopnb.engine.runtime import _bridge
from pyopnb.engine.runtime.runtime_options import QUIET

__all__ = ["call_runtime", "is_of_runtime", "keep_owners", "live_sessions"]


def call_runtime(
    epoch: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    *,
    plan: Any = None,
    feeds: Any = None,
    always: bool = True,
    shrinks: bool = False,
) -> Any:
    """Call ONNX Runtime, and re-raise an op's exception unchanged.

    An exception of an op reaches ONNX Runtime as a status, and the ONNX Runtime exception reaches
    us. The op's is raised, and ONNX Runtime's becomes the last of its contexts.

    Parameters
    ----------
    epoch : int
        Of the registry: its versions serve the whole run.
    function, arguments
        The call that runs or builds the session.
    plan : Plan, optional
        The plan of the session being built.
    feeds : object, optional
        The owners of the memory that the run reads. If unknown, ops get copies of inputs that
        ONNX Runtime does not own.
    always : bool
        Raise an op's exception even if ONNX Runtime continued without an error.
    shrinks : bool
        Whether the session's memory goes back to the system at the end of the run: ops get copies.

    Returns
    -------
    object
        The result of ``function``.
    """
    __tracebackhide__ = True
    if _closing:
        _stop_here()
    returned, runtime_error, error = _bridge.run(epoch, function, arguments, feeds, plan, shrinks)
    if runtime_error is None and error is None:
        return returned
    try:
        if runtime_error is not None and _closing:
            _stop_here()
        if error is not None and (runtime_error is not None or always):
            _raise(error, runtime_error)
        if runtime_error is not None:
            raise runtime_error
        return returned
    finally:
        # The traceback of an exception holds this frame: it must hold neither the exception in turn
        # nor the session, whose weights can be gigabytes.
        del error, runtime_error, function


def _raise(error: BaseException, runtime_error: BaseException | None) -> None:
    """Re-raise an op's exception, with the ONNX Runtime error at the end of its context chain."""
    __tracebackhide__ = True
    handled = sys.exception()
    try:
        _add_context(error, runtime_error, handled)
        context = error.__context__
    except Exception:  # a class can make its instances unreadable
        handled = context = None
    try:
        raise error
    finally:
        if handled is not None:
            # Raising within an except block, which is the caller's, replaces the context.
            error.__context__ = context
        del error, runtime_error, handled, context


def is_of_runtime(error: BaseException) -> bool:
    """Tell whether ONNX Runtime itself raised an exception; its classes have no common base."""
    return type(error).__module__.startswith("onnxruntime.")


def keep_owners(owners: Any) -> None:
    """Do nothing; `weakref.finalize` keeps the arguments alive until it calls this."""


def _add_context(
    error: BaseException, context: BaseException | None, handled: BaseException | None
) -> None:
    """Append the ONNX Runtime error to the context chain of the op's exception.

    A chain that is cyclic or already has the error stays as it is.
    """
    if context is None or context is error:
        return
    if error.__context__ is None:
        # Its text repeats the note on the op's exception: a traceback need not print both.
        error.__suppress_context__ = True
    seen = set()
    inner = error.__context__
    while (
        inner is not None
        and inner is not handled
        and not hasattr(inner, "_pyopnb")
        and id(inner) not in seen
    ):
        seen.add(id(inner))
        error, inner = inner, inner.__context__
    if id(inner) not in seen and context is not error:
        error.__context__ = context
        # The mark keeps an object that is raised again and again from getting a second context.
        context._pyopnb = True  # type: ignore[attr-defined]


# ---- the end of the interpreter ------------------------------------------------------------------

_closing = False
_DRAIN = 1.0  # seconds that exit waits for runs on other threads
_LAST = 0.1  # seconds that it then waits for threads that have just left compute


def _stop_here() -> None:
    """Refuse a run while the interpreter exits.

    A daemon thread is put to sleep instead: the exception would only be printed, and a thread that
    is inside ONNX Runtime when CPython ends it takes the process down with it.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        and threading.current_thread().daemon
    ):
        threading.Event().wait()
    raise RuntimeError("pyopnb: the interpreter is exiting, no more runs")


def _close() -> None:
    global _closing
    _closing = True
    QUIET.terminate = True  # ends runs between two nodes
    last = _LAST if threading.active_count() > 1 else 0.0
    _bridge.close(_DRAIN, last)


live_sessions: weakref.WeakSet[Any] = weakref.WeakSet()
"""All sessions that exist."""


def _in_child() -> None:
    """Forget the parent's threads after a fork, and keep its sessions forever.

    The threads do not exist in the child, and destroying a session would wait for its threads
    without end.
    """
    _bridge.forget_other_threads()
    for session in list(live_sessions):
        if "_state" in vars(session):
            _bridge.keep_for_ever(session._sess)


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

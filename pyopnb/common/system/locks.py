"""Call a function while a lock is held, and always release the lock.

A ``with`` block comes back to its first line before it releases its lock, and a trace function (a
debugger, a coverage tool, Ctrl-C under one of them) can raise there: Python then leaves the block
without the release. Nothing written in Python can do without such a line. The runtime native
module can, and brings its own way of doing this as soon as it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["lock_by", "locked"]

_Returned = TypeVar("_Returned")


def _with(lock: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    with lock:
        return function(*arguments)


_call: Callable[..., Any] = _with


def locked(lock: Any, function: Callable[..., _Returned], *arguments: Any) -> _Returned:
    """Call a function while a lock is held.

    Parameters
    ----------
    lock : threading.Lock or threading.RLock
    *arguments
        The arguments of the call.

    Returns
    -------
    object
        The result of the function.

    Examples
    --------
    >>> import threading
    >>> lock = threading.Lock()
    >>> locked(lock, lock.locked), lock.locked()
    (True, False)
    """
    returned: _Returned = _call(lock, function, *arguments)
    return returned


def lock_by(call: Callable[..., Any]) -> None:
    """Let `locked` do it in another way.

    Parameters
    ----------
    call : callable
        It takes the same arguments as `locked`.
    """
    global _call
    _call = call

"""Work on a thread of its own, so that the cell is free at once."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable

from pyopnb.common import locks

__all__ = ["Worker"]

# On Windows, an interrupt reaches the main thread only between two waits.
_SLICE = 0.1


class Worker:
    """Do the same work again on request, on a thread.

    A request that arrives during the work is served afterwards; at most one request waits.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        # No Condition and no Event: both have code in Python, and an interrupt inside of it leaves
        # them locked forever.
        self._lock = threading.Lock()
        self._requested = False
        self._thread: threading.Thread | None = None

    def request(self) -> bool:
        """Begin, or begin again when the current work ends.

        Returns
        -------
        bool
            Whether work that is now obsolete is still being done.
        """
        return locks.locked(self._lock, self._request)

    def _request(self) -> bool:
        # At most one request waits: it covers all that came before it.
        self._requested = True
        if self._thread is not None:
            return True
        thread = threading.Thread(target=self._serve, daemon=True, name="pyopnb live output")
        thread.start()
        # Set only when it has started, because a waiting thread joins it. It serves nothing before
        # the lock is free.
        self._thread = thread
        return False

    @property
    def requested(self) -> bool:
        """Tell whether the work was requested again, which makes the current work obsolete."""
        return self._requested

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is left to do.

        Parameters
        ----------
        seconds : float, optional
            Wait no longer than this.

        Returns
        -------
        bool
            Whether everything is done. True on the worker's own thread, which
            cannot wait for itself.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        while (thread := self._thread) is not None and thread is not threading.current_thread():
            remaining = until - time.monotonic()
            if remaining <= 0:
                return False
            # Before Python 3.13, a thread whose join was interrupted is said to have ended.
            wait = thread.join if thread.is_alive() else time.sleep
            wait(min(_SLICE, remaining))
        return True

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the work's Python code, as Ctrl-C does on the main thread."""
        locks.locked(self._lock, self._interrupt)

    def _interrupt(self) -> None:
        if self._thread is not None and self._thread.ident is not None:
            # CPython has no other way to interrupt a thread. The exception comes at the next line
            # of Python code.
            thread = ctypes.c_ulong(self._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))

    def _serve(self) -> None:
        try:
            while locks.locked(self._lock, self._take):
                self._work()
        finally:
            locks.locked(self._lock, self._end)

    def _take(self) -> bool:
        requested, self._requested = self._requested, False
        # Decided under the lock: a request from here on starts another thread.
        if not requested:
            self._end()
        return requested

    def _end(self) -> None:
        # A later request may have started another thread, which stays.
        if self._thread is threading.current_thread():
            self._thread = None

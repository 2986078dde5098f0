"""Work on a thread of its own, so that the cell is free at once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

__all__ = ["Worker"]


class Worker:
    """Does the same work again on request. A request that arrives meanwhile is served afterwards; only one waits.

    Parameters
    ----------
    work : callable
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._condition = threading.Condition()
        self._requested = False
        self._thread: threading.Thread | None = None

    def request(self) -> bool:
        """Begin, or begin again when the current work ends.

        Returns
        -------
        bool
            Whether work that is now obsolete is still being done.
        """
        with self._condition:
            self._requested = True
            if self._thread is not None:
                return True
            self._thread = threading.Thread(target=self._serve, daemon=True, name="pyopnb live output")
            self._thread.start()
            return False

    @property
    def requested(self) -> bool:
        """Whether the work is to be done once more, so that what is being done is obsolete."""
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
            Whether everything is done. True on the worker's own thread, which cannot wait for itself.
        """
        if self._thread is threading.current_thread():
            return True
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, seconds)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the Python code that is at work, as Ctrl-C does on the main thread."""
        with self._condition:
            if self._thread is not None and self._thread.ident is not None:
                thread = ctypes.c_ulong(self._thread.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(KeyboardInterrupt))

    def _serve(self) -> None:
        try:
            while self._take():
                self._work()
        finally:
            with self._condition:
                self._thread = None
                self._condition.notify_all()

    def _take(self) -> bool:
        with self._condition:
            requested, self._requested = self._requested, False
            if not requested:  # decided under the lock: a request from here on starts another thread
                self._thread = None
                self._condition.notify_all()
            return requested

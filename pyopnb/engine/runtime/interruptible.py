"""Notice Ctrl-C while ONNX Runtime works, where Python would only notice it afterwards."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import TypeVar

import psutil

from pyopnb.common import progress

__all__ = ["LARGE", "call_interruptibly", "loading"]

LARGE = 200
"""Megabytes of weights from which on loading or running a model can take seconds."""

_MANY = 1000  # megabytes, which take ONNX Runtime seconds
_SLICE = 0.1  # seconds between two beats
_LONGEST_SIGNAL = 0.5  # seconds

Returned = TypeVar("Returned")


def call_interruptibly(
    call: Callable[[], Returned], cancel: Callable[[], object], beat: Callable[[], object]
) -> Returned:
    """Call a function of native code on the main thread, and cancel it at Ctrl-C.

    Parameters
    ----------
    call, cancel : callable
        After `cancel`, `call` returns or raises soon, and Python raises KeyboardInterrupt.
    beat : callable
        Called ten times a second meanwhile, on another thread.
    """
    __tracebackhide__ = True
    is_main = threading.current_thread() is threading.main_thread()
    # Another handler may let the work go on.
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return call()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    previous = -1
    seen: list[int] = []

    def watch() -> None:
        with ours:
            while True:
                if not select.select([ours], [], [], _SLICE)[0]:
                    beat()
                    continue
                signals = ours.recv(64)
                if signal.SIGINT in signals:
                    cancel()
                seen.extend(signals)
                if not signals:  # the call has ended
                    return
                if previous != -1 and os.name == "posix":
                    with contextlib.suppress(OSError):
                        os.write(previous, signals)

    thread = threading.Thread(target=copy_context().run, args=(watch,), name="pyopnb interrupts")
    try:
        # Python writes the number of a signal there at once, while native code runs.
        previous = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        thread.start()
        return call()
    except KeyboardInterrupt:
        # On Windows, the handler runs on another thread, and may not have written yet: it must not
        # meet a closed socket.
        until = time.monotonic() + _LONGEST_SIGNAL
        while signal.SIGINT not in seen and time.monotonic() < until:
            time.sleep(0.001)
        raise
    finally:
        signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
        theirs.close()
        if thread.is_alive():  # an interrupt may come before it is
            thread.join()


@contextlib.contextmanager
def loading(megabytes: int) -> Iterator[Callable[[], None]]:
    """Show how much of a model's weights is loaded, whenever the yielded function is called."""
    process = psutil.Process()
    before, told = process.memory_info().rss, 0

    def beat() -> None:
        nonlocal told
        # Pages of mapped files count as soon as they are read, and so do copies of them.
        loaded = (process.memory_info().rss - before) // 1_000_000
        news = max(min(loaded, megabytes) - told, 0)
        told += news
        progress.advance(progress.LOADED, news)

    # The first releases that pyopnb supports let nothing run, and no bar move, while they load.
    with progress.tracking(progress.LOADED, megabytes, is_long=megabytes > _MANY):
        progress.phase("loading")
        yield beat

"""Ctrl-C at every line of a module, as a trace function can bring it: which of its locks stay held."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pyopnb.common.system import locks


def lines_that_leave_held(
    action: Callable[[], object], held: Sequence[Any], *modules: ModuleType
) -> list[str]:
    """Run an action again and again, each time with an interrupt at another line of the modules; also as a ``with`` is left.

    Returns the lines after which another thread would wait for one of the locks for ever.
    """
    files = {module.__file__ for module in (*modules, locks)}
    passed = _traced(action, files, None)
    assert len(passed) > 3, passed
    found = []
    for place in range(len(passed)):
        *_, (file, line) = _traced(action, files, place)
        if not all(map(_is_free, held)):
            found.append(f"{Path(file).name}, line {line}")
            for lock in held:
                with contextlib.suppress(RuntimeError):  # it is free
                    lock.release()
    return found


def _traced(
    action: Callable[[], object], files: set[str | None], place: int | None
) -> list[tuple[str, int]]:
    """The lines that an action passes, up to the one at whose place it is interrupted."""
    passed: list[tuple[str, int]] = []

    def trace(frame: Any, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if file not in files or (place is not None and len(passed) > place):
            return None
        if event == "line":
            passed.append((file, frame.f_lineno))
            if len(passed) - 1 == place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return passed


def _is_free(lock: Any) -> bool:
    got: list[bool] = []

    def ask() -> None:
        got.append(lock.acquire(blocking=False))
        if got[0]:
            lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return got[0]

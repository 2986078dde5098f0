"""Files whose ops are defined again whenever they are saved.

A thread looks at the files, so that a live output follows an editor; and each cell looks before it runs, so that none runs with
what was there before the last save.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import Any, cast

from pyopnb.ops.errors import PyopError, sanitize

__all__ = ["Files", "files"]

_EVERY = 0.3  # seconds between two looks


class Files:
    """The files of one shell that are followed."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, ...] | None] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, path: str) -> None:
        """Load the file again whenever it is not what it is now."""
        with self._lock:
            file = os.path.abspath(path)
            self._seen[file] = _state(file)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="pyopnb files", daemon=True)
                self._thread.start()

    def forget(self, path: str) -> None:
        """Follow the file no more."""
        with self._lock:
            self._seen.pop(os.path.abspath(path), None)

    def end(self) -> None:
        """Follow nothing more, and end the thread."""
        self._ended.set()
        with self._lock:
            self._seen.clear()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def look(self, *_: Any) -> None:
        """Load what was saved since the last look. A file that fails leaves its ops as they were, and says so once a save."""
        with self._lock:
            for file, before in list(self._seen.items()):
                now = _state(file)
                if now == before or now is None:  # an editor may take a file away for a moment
                    continue
                self._seen[file] = now
                _load(file)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY):
            self.look()


def _state(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(file: str) -> None:
    from pyopnb.ops.module_files import load_module

    try:
        for version in load_module(file):
            print(repr(version))
    except PyopError as error:
        _say(file, f"{type(error).__name__}: {error}")
    except (Exception, SystemExit) as error:
        # The frames of this room and of travel are not the user's.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != file:
            trace = trace.tb_next
        _say(file, "".join(traceback.format_exception(type(error), error, trace)).rstrip())


def _say(file: str, what: str) -> None:
    print(f"{sanitize(os.path.basename(file))} was saved and not loaded; its ops are as they were.\n{what}", file=sys.stderr)


def files(shell: Any) -> Files:
    """The files of a shell that are followed; the shell holds them where it calls them."""
    for callback in shell.events.callbacks["pre_run_cell"]:
        if isinstance(getattr(callback, "__self__", None), Files):
            return cast(Files, callback.__self__)
    made = Files()
    shell.events.register("pre_run_cell", made.look)
    return made

"""Files whose ops are redefined whenever they are saved.

A thread polls the files, so that live outputs follow an editor. Each cell polls them too before it
runs, so that no cell runs with ops older than the last save.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import Any

from pyopnb.common import locks, sanitize
from pyopnb.errors import PyopError
from pyopnb.notebook.listeners import ShellListener

__all__ = ["FileWatcher"]

# Seconds between two looks at the files.
_INTERVAL = 0.3


class FileWatcher(ShellListener):
    """The files of one shell that are reloaded when they change."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._states: dict[str, tuple[int, ...] | None] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, path: str) -> None:
        """Reload the file whenever it changes from now on."""
        locks.locked(self._lock, self._watch, os.path.abspath(path))

    def _watch(self, file: str) -> None:
        self._states[file] = _state(file)
        # One thread polls all files. It is started with the first of them and ends with the
        # extension.
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._poll_forever, name="pyopnb files", daemon=True
            )
            self._thread.start()

    def unwatch(self, path: str) -> None:
        """Stop reloading the file."""
        locks.locked(self._lock, self._states.pop, os.path.abspath(path), None)

    def close(self) -> None:
        """Stop reloading all files, and end the thread."""
        super().close()
        self._closed.set()
        locks.locked(self._lock, self._states.clear)
        thread = self._thread
        # A file that unloads the extension does so on the watcher's own thread, which cannot wait
        # for itself.
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def before_cell(self, info: Any) -> None:
        """Run each cell with the files that were saved before it."""
        self.poll()

    def poll(self) -> None:
        """Reload the files that changed since the last poll.

        A file that fails to load leaves its ops unchanged, and is reported once.
        """
        locks.locked(self._lock, self._poll)

    def _poll(self) -> None:
        for file, old in list(self._states.items()):
            new = _state(file)
            # While it saves, an editor may remove the file for a moment.
            if new == old or new is None:
                continue
            # Record the new state before the file runs: a file that fails is then reported once
            # and not at every poll.
            self._states[file] = new
            _reload(file)

    def _poll_forever(self) -> None:
        while not self._closed.wait(_INTERVAL):
            self.poll()


def _state(file: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    # An editor may save within the clock's resolution or replace the file by another one, so size
    # and inode also count.
    return status.st_mtime_ns, status.st_size, status.st_ino


def _reload(file: str) -> None:
    from pyopnb.models import load_module

    try:
        for version in load_module(file):
            print(repr(version))
    except PyopError as error:
        # Our own refusals fit into one line.
        _report(file, f"{type(error).__name__}: {error}")
    except (Exception, SystemExit) as error:
        # Only the user's own frames, from the file on.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != file:
            trace = trace.tb_next
        _report(file, "".join(traceback.format_exception(type(error), error, trace)).rstrip())


def _report(file: str, text: str) -> None:
    print(
        f"{sanitize(os.path.basename(file))} was saved but could not be loaded; "
        f"its ops are unchanged.\n{text}",
        file=sys.stderr,
    )

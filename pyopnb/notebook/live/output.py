"""An output of a cell that can be replaced, and that stays in the saved notebook as plain HTML and text."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

from IPython.core.getipython import get_ipython

__all__ = ["Clock", "Output"]


class Output:
    """A place in the notebook under a name of its own."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.shown = False

    def put(self, html: str, text: str) -> None:
        """Show it: below the cell that runs for the first time, in the same place from then on."""
        shell: Any = get_ipython()
        data = {"text/html": html, "text/plain": text}
        shell.display_pub.publish(data=data, metadata={}, transient={"display_id": self.id}, update=self.shown)
        self.shown = True

    def show_again(self) -> None:
        """The next `put` shows it below the cell that runs, and wherever it was shown before."""
        self.shown = False


class Clock:
    """Calls ``tick(seconds)`` every so often while something takes long, on a thread of its own."""

    def __init__(self, tick: Callable[[float], None], every: float = 0.5) -> None:
        self._tick, self._every = tick, every
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Clock:
        self._thread = threading.Thread(target=self._run, daemon=True, name="pyopnb progress")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        seconds = 0.0
        while not self._over.wait(self._every):
            seconds += self._every
            self._tick(seconds)

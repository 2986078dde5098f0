"""A progress bar in the output of a cell, which stays readable in the saved notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyopnb.ops.progress import Progress, Throttled, progress_text, text_bar

__all__ = ["progress_bar"]


@dataclass(frozen=True, repr=False)
class _State:
    """How far something is, as text and as HTML."""

    done: int
    total: int
    what: str

    def __repr__(self) -> str:
        return progress_text(self.done, self.total, self.what)

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done}" max="{self.total}" aria-label="{self!r}"></progress> {self!r}'


def progress_bar(what: str) -> Progress:
    """A bar in an output of its own, displayed at the first update; a text bar where the shell is gone."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return text_bar(what)
    handles: list[Any] = []

    def show(done: int, total: int) -> None:
        if handles:
            handles[0].update(_State(done, total, what))
        else:
            handles.append(display(_State(done, total, what), display_id=True))  # type: ignore[no-untyped-call]  # IPython's

    return Throttled(show)

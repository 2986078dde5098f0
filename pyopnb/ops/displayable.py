"""What a notebook shows of an object beyond its text.

Data does not know how it is drawn: an object that can be drawn says so by this class, and the drawing is in ``pyopnb.views``,
which is imported when a front end first asks for a picture.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["Displayable", "display_with"]

_found: list[Callable[[], Any]] = []


def display_with(find: Callable[[], Any]) -> None:
    """Say where drawings are made: ``find()`` gives what has ``html(thing)``, ``save(thing, path)`` and ``plot(thing)``."""
    _found[:] = [find]


class Displayable:
    """An object that `pyopnb.show` can draw."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(_found[0]().html(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, as its name ends: ``.html``, ``.svg``, ``.png``, or ``.json`` where it can be read back.

        Raises
        ------
        FeedError
            It cannot be written as that.
        PyopError
            A graph as ``.png`` needs ``pip install pyopnb[plot]``.
        """
        _found[0]().save(self, path)

    def plot(self) -> Any:
        """A matplotlib ``Figure`` of it, for a paper; needs ``pip install pyopnb[plot]``."""
        return _found[0]().plot(self)

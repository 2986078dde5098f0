"""Objects with pictures.

Data does not know how it is displayed: a class that can be displayed inherits `Displayable`, and `pyopnb.display`, which is
imported when a front end first asks for a picture, does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["Displayable", "display_with"]

_find_display: list[Callable[[], Any]] = []


def display_with(find: Callable[[], Any]) -> None:
    """Set what displays objects.

    Parameters
    ----------
    find : callable
        Returns an object with ``html(thing)``, ``save(thing, path)`` and ``plot(thing)``.
    """
    _find_display[:] = [find]


class Displayable:
    """Base class of what `pyopnb.show` can display."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(_find_display[0]().html(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file.

        Parameters
        ----------
        path : path
            The suffix is the format: ``.html``, ``.svg``, ``.png``, ``.json`` where it can be read back, or ``.csv`` of a
            training.

        Raises
        ------
        InputError
            It has no such format.
        PyopError
            ``.png`` needs ``pip install pyopnb[plot]``.
        """
        _find_display[0]().save(self, path)

    def plot(self) -> Any:
        """Draw it with matplotlib, which needs ``pip install pyopnb[plot]``.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return _find_display[0]().plot(self)

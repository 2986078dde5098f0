"""Objects with pictures.

Data does not know how it is displayed: a class that can be displayed inherits `Displayable`, and
`pyopnb.display`, which is imported when a front end first asks for a picture, does the rest.
"""

from __future__ import annotations

import os
from typing import Any

from pyopnb.common.system.hand_downs import handed_down

__all__ = ["Displayable"]


class Displayable:
    """Base class of the things that `pyopnb.show` can display."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(handed_down("display").to_html(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file.

        Parameters
        ----------
        path : path
            The suffix is the format: ``.html``, ``.svg``, ``.png``, ``.json`` where it can be read
            back, ``.nodes.json`` with the numbers and colors of a graph's nodes for Model Explorer,
            or ``.csv`` of a training.

        Raises
        ------
        InputError
            It has no such format.
        PyopError
            ``.png`` needs ``pip install pyopnb[plot]``.
        """
        handed_down("display").save(self, path)

    def explore(self) -> None:
        """Open its graph in Google's Model Explorer; a diff has both graphs side by side.

        It serves until the process ends. Needs
        ``pip install ai-edge-model-explorer model-explorer-onnx``.

        Raises
        ------
        InputError
            It has no graph.
        PyopError
            Model Explorer is not installed.
        """
        handed_down("display").explore(self)

    def plot(self) -> Any:
        """Draw it with matplotlib, which needs ``pip install pyopnb[plot]``.

        Returns
        -------
        matplotlib.figure.Figure
            It is in no window yet.
        """
        return handed_down("display").plot(self)

"""Sliders for the leading axes of an array, and menus for its colors, above the slice."""

from __future__ import annotations

from typing import Any

import ipywidgets
import numpy as np

from pyopnb.display import SteadyColors, View, show
from pyopnb.notebook.live.controls import named_widget
from pyopnb.notebook.live.pane import Pane, weakly

__all__ = ["Explorer"]


class Explorer:
    """Controls of an array, and the slice that follows them; created by `interact`.

    Attributes
    ----------
    array : ndarray
    controls : dict
        Widgets by name: ``axis 0`` and so on, ``colors``, ``log`` and ``origin``.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._limits = SteadyColors.limits_of(array)
        self.controls: dict[str, Any] = {}
        # A matrix is drawn whole, and so is a photograph, whose channels are last.
        drawn = 2
        if array.ndim > 3 and array.shape[-1] in (3, 4):
            drawn = 3
        if array.size:
            for axis, size in enumerate(array.shape[:-drawn]):
                name = f"axis {axis}"
                self.controls[name] = named_widget("IntSlider", name, 0, max=size - 1)
        choices = ["automatic", "sequential", "diverging", "gray"]
        self.controls["colors"] = named_widget("Dropdown", "colors", "automatic", options=choices)
        self.controls["log"] = named_widget("Checkbox", "log", False)
        self.controls["origin"] = named_widget(
            "Dropdown", "origin", "upper", options=["upper", "lower"]
        )
        for widget in self.controls.values():
            widget.observe(weakly(self._update), names=["value"])
        self._pane = Pane(list(self.controls.values()), lambda: None)
        self._update()

    @property
    def index(self) -> tuple[int, ...]:
        """Return the index of the slice."""
        return tuple(
            widget.value for name, widget in self.controls.items() if name.startswith("axis")
        )

    @property
    def widget(self) -> ipywidgets.Widget:
        """Return the output as an ordinary widget."""
        return self._pane.widget

    def _slice(self) -> View:
        colors, log, origin = (self.controls[name].value for name in ("colors", "log", "origin"))
        options: dict[str, Any] = {"log": log, "origin": origin}
        if colors != "automatic":
            options["colors"] = colors
        # All slices have the same colors; a logarithmic scale has its own ends.
        if not log and self._limits:
            options["limits"] = self._limits
        name = f"[{','.join(map(str, self.index))}]" if self.index else ""
        return show(self.array[self.index], name=name, **options)

    def _update(self) -> None:
        view = self._slice()
        self._pane.replace(view.body, view.text)

    def __repr__(self) -> str:
        return str(self._slice())

    def _ipython_display_(self) -> None:
        # A saved notebook has the slices side by side.
        view = show(self.array)
        self._pane.display(view.body, view.text, "")

"""The view of a result by a user's function, as HTML and text for the saved notebook."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython

from pyopnb.display import markup, show
from pyopnb.engine import Result

__all__ = ["Shown", "shown_by"]

_DPI = 96


@dataclass(frozen=True)
class Shown:
    """Something displayed, as HTML and as text."""

    html: str
    text: str


def shown_by(view: Callable[[Result], Any], result: Result) -> Shown:
    """Call a function with a result, and display the returned object.

    Parameters
    ----------
    view : callable
        It may draw with pyplot, or return a matplotlib figure or something in one, an array, text,
        or anything that IPython displays.
    """
    before = _pyplot_numbers()
    value = view(result)
    drawn = sorted(_pyplot_numbers() - before)
    if drawn:
        # It drew with pyplot, and such a function returns only a part of its figure.
        pyplot = sys.modules["matplotlib.pyplot"]
        pictures = [_picture(pyplot.figure(number)) for number in drawn]
        # Left open, the figures would be shown again below the next cell.
        for number in drawn:
            pyplot.close(number)
        return Shown("".join(picture.html for picture in pictures), pictures[0].text)
    # Axes and the artists in them know their figure.
    figure = getattr(value, "figure", value)
    if hasattr(figure, "savefig"):
        return _picture(figure)
    if isinstance(value, np.ndarray):
        value = show(value)
    if isinstance(value, str):
        return Shown(markup.pre(value), value)
    shell: Any = get_ipython()
    bundle, _ = shell.display_formatter.format(value)
    text = str(bundle.get("text/plain", ""))
    if "text/html" in bundle:
        return Shown(str(bundle["text/html"]), text)
    # Pictures are embedded, so that they stay in the saved notebook.
    if "image/png" in bundle:
        data = bundle["image/png"]
        return Shown(
            markup.image(base64.b64decode(data) if isinstance(data, str) else data, text), text
        )
    return Shown(markup.pre(text), text)


def _pyplot_numbers() -> set[int]:
    """List the open figures of pyplot, which is not imported here."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return set()
    return set(pyplot.get_fignums())


def _picture(figure: Any) -> Shown:
    file = io.BytesIO()
    # A PNG looks the same in every front end, independent of its fonts.
    figure.savefig(file, format="png", dpi=_DPI, bbox_inches="tight")
    return Shown(markup.image(file.getvalue(), "matplotlib figure"), "matplotlib figure")

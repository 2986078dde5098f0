"""Show a result in a named way or by a user's function, as HTML and text."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from IPython.core.getipython import get_ipython
from IPython.display import Audio

from pyopnb.common import messages, sanitize
from pyopnb.display import markup, show
from pyopnb.engine import Result
from pyopnb.errors import InputError

__all__ = ["ResultView", "Shown", "require_view", "shown_by"]

ResultView: TypeAlias = Callable[[Result], Any] | str | None
"""How a result is shown: by a function, or in a way that has a name."""

_DPI = 96
_Player: Any = Audio
# The rate of speech; music has more.
_RATE = 16_000
# A hundredth of a second; less cannot be heard as a sound.
_FEWEST_SAMPLES = 160


@dataclass(frozen=True)
class Shown:
    """Something displayed, as HTML and as text."""

    html: str
    text: str


def require_view(view: object, where: str) -> None:
    """Raise `InputError` unless results can be shown by this function, or in a way of this name."""
    if view is None or callable(view) or (isinstance(view, str) and view in _NAMED):
        return
    near = messages.closest(str(view), _NAMED) or "audio"
    raise InputError(
        f"{where}, view",
        expected=f"{', '.join(_NAMED)}, or a function of a result",
        got=sanitize(repr(view), 60),
        next=f'view="{near}", or view=lambda result: ...',
    )


def shown_by(
    view: Callable[[Result], Any] | str, result: Result, feeds: Mapping[str, Any]
) -> Shown:
    """Display a result in a way that has a name, or the object that a function returns for it.

    Parameters
    ----------
    view : callable or str
        It may draw with pyplot, or return a matplotlib figure or something in one, an array, text,
        or anything that IPython displays.
    """
    if isinstance(view, str):
        return _NAMED[view](result, feeds)
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


def _boxes(result: Result, feeds: Mapping[str, Any]) -> Shown:
    """Draw the boxes of a result on the picture that was fed."""
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
    pictures = [value for value in arrays if value.ndim >= 3 and {3, 4} & {*value.shape[-3:]}]
    if not pictures or not any(np.shape(value)[-1:] == (4,) for value in result):
        expected = "a fed picture with 3 or 4 channels, and an output [N,4]"
        got = "no such feed or output"
        raise InputError('view="boxes"', expected=expected, got=got, next="leave view out")
    seen = show(result, picture=pictures[0])
    return Shown(seen.body, seen.text)


def _audio(result: Result, _feeds: Mapping[str, Any]) -> Shown:
    """Put a player above each curve of a result."""
    seen = show(result)
    players = ""
    for name, value in result.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fi":
            continue
        # One or two channels, first or last.
        samples = np.atleast_2d(value.squeeze())
        if samples.shape[0] > samples.shape[-1]:
            samples = samples.T
        if samples.ndim == 2 and len(samples) <= 2 and samples.shape[1] >= _FEWEST_SAMPLES:
            finite = np.nan_to_num(samples.astype(np.float64))
            # As loud as it is, so that a change can be heard, but not louder than a player takes.
            player = _Player(finite / max(1.0, abs(finite).max()), rate=_RATE, normalize=False)
            players += markup.note(f"{name}, {_RATE:,} Hz") + player._repr_html_()
    return Shown(players + seen.body, seen.text)


# A new way to show a result is a line here.
_NAMED: dict[str, Callable[[Result, Mapping[str, Any]], Shown]] = {
    "boxes": _boxes,
    "audio": _audio,
}


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

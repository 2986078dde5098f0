"""What a user's function makes of a result, as HTML and text that stay in the saved notebook."""

from __future__ import annotations

import base64
import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython

from pyopnb.display.html import image, paragraph, pre
from pyopnb.display.show import show
from pyopnb.ops.result import Result

__all__ = ["Shown", "shown_by"]

_DPI = 96


@dataclass(frozen=True)
class Shown:
    """Something displayed, as HTML and as text."""

    html: str
    text: str


def shown_by(view: Callable[[Result], Any], result: Result) -> Shown:
    """Call a function with a result, and display what it returns, and what it displays by itself.

    Parameters
    ----------
    view : callable
        It may return a matplotlib figure or something in one, an array, text, or anything that IPython displays.
    result : Result

    Returns
    -------
    Shown

    Raises
    ------
    Exception
        What the function raised.
    """
    with _displayed() as displayed, _pyplot_figures() as figures:
        value = view(result)
        if value is None:
            parts = []
        else:
            parts = [_shown(value)]
        # What the function displayed comes first, as it would in a cell.
        parts = [*map(_of_bundle, displayed), *parts]
        # A function that only draws with pyplot returns and displays nothing, and means its
        # figures.
        if not parts:
            parts = [_shown(figure) for figure in figures()]
    return Shown(
        "".join(paragraph(part.html) for part in parts), "\n".join(part.text for part in parts)
    )


def _shown(value: Any) -> Shown:
    if (figure := _figure_of(value)) is not None:
        return _of_figure(figure)
    if isinstance(value, np.ndarray) or (
        isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray)
    ):
        value = show(value)
    if isinstance(value, str):
        return Shown(pre(value), value)
    shell: Any = get_ipython()
    # An object that displays itself is caught as a bundle.
    bundle, _ = shell.display_formatter.format(value)
    if bundle:
        return _of_bundle(bundle)
    return Shown("", "")


def _of_bundle(bundle: dict[str, Any]) -> Shown:
    text = str(bundle.get("text/plain", ""))
    if "text/html" in bundle:
        return Shown(str(bundle["text/html"]), text)
    for mime_type in ("image/svg+xml", "image/png", "image/jpeg"):
        # Pictures are embedded, so that they stay in the saved notebook.
        if mime_type in bundle:
            data = bundle[mime_type]
            if isinstance(data, str) and mime_type != "image/svg+xml":
                data = base64.b64decode(data)
            return Shown(image(data, text or "picture"), text)
    return Shown(pre(text), text)


# ---- matplotlib, which is not imported here


def _figure_of(value: Any) -> Any:
    """Return the matplotlib figure that a value is, or belongs to."""
    if "matplotlib.figure" not in sys.modules:
        return None
    while (
        isinstance(value, (list, tuple, np.ndarray))
        and len(value)
        and not isinstance(value[0], (int, float, np.number))
    ):
        value = value[0]
    if hasattr(value, "savefig"):
        figure = value
    else:
        figure = getattr(value, "figure", None)
    if isinstance(figure, sys.modules["matplotlib.figure"].Figure):
        return figure
    return None


def _of_figure(figure: Any) -> Shown:
    file = io.BytesIO()
    # A PNG looks the same in every front end, whatever fonts it has.
    figure.savefig(file, format="png", dpi=_DPI, bbox_inches="tight")
    titles = [axes.get_title() for axes in figure.axes]
    text = ", ".join(filter(None, titles)) or "matplotlib figure"
    return Shown(image(file.getvalue(), text), text)


@contextlib.contextmanager
def _pyplot_figures() -> Iterator[Callable[[], list[Any]]]:
    """Collect the new figures of pyplot, and close them in the end, or a later cell would show them again."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        before = set(pyplot.get_fignums())
    else:
        before = set()
    if pyplot:
        # This loads the backend, which switches interactive mode on.
        pyplot.draw_if_interactive()

    def new() -> list[int]:
        # The function may be the first to import it.
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot:
            return [number for number in pyplot.get_fignums() if number not in before]
        return []

    try:
        # Not interactive: IPython shows what is drawn interactively below the cell that ends meanwhile, and closes it.
        with pyplot.ioff() if pyplot else contextlib.nullcontext():
            yield lambda: [sys.modules["matplotlib.pyplot"].figure(number) for number in new()]
    finally:
        for number in new():
            sys.modules["matplotlib.pyplot"].close(number)


# ---- what displays itself


@contextlib.contextmanager
def _displayed() -> Iterator[list[dict[str, Any]]]:
    """Collect what this thread displays, which a front end would put below whichever cell runs."""
    bundles: list[dict[str, Any]] = []
    publisher: Any = getattr(get_ipython(), "display_pub", None)
    # ipykernel's hooks are those of a thread.
    if not hasattr(publisher, "register_hook"):
        yield bundles
        return

    def catch(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["header"]["msg_type"] != "display_data":
            return message
        # The message goes no further: it would appear below whichever cell runs at that time.
        bundles.append(message["content"]["data"])
        return None

    publisher.register_hook(catch)
    try:
        yield bundles
    finally:
        publisher.unregister_hook(catch)

"""Show a live output in pages: as a widget while the kernel holds its state, else as HTML."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
from IPython.core.getipython import get_ipython

from pyopnb.display import markup
from pyopnb.notebook.live.cells import lacks_extension

__all__ = ["MIME", "Pane", "weakly"]

MIME = "application/vnd.pyopnb.live+json"
"""For it the JupyterLab extension shows the widget while it is live, and the HTML otherwise."""

_WIDGET = "application/vnd.jupyter.widget-view+json"

_NOT_LIVE = markup.details(
    "not live: run this cell",
    markup.note(
        "Live outputs need a running kernel, a trusted notebook, and pyopnb installed where "
        "JupyterLab or Notebook 7 is. Elsewhere assign the output to a variable and display its "
        "widget: w = pyopnb.watch(…), then w.widget"
    ),
)


class Pane:
    """The place of a live output in the pages that show its notebook.

    A page that is opened later, or a second one, gets the widget's state from the kernel. A saved
    notebook contains the HTML and not the widget's MIME type, because front ends show an error for
    that type once the kernel has gone.

    Parameters
    ----------
    controls : sequence of Widget
        Shown above the content.
    stop : callable
        Called by a button that is shown during long runs.

    Attributes
    ----------
    widget : Widget
        Controls and content as an ordinary widget, for other layouts and front ends.
    displayed : bool
    """

    def __init__(self, controls: Sequence[ipywidgets.Widget], stop: Callable[[], None]) -> None:
        self._content = ipywidgets.Output()
        self._button = ipywidgets.Button(description="Stop", tooltip="Stop this run")
        self._button.layout.display = "none"
        self._button.on_click(lambda _: stop())
        self.widget = ipywidgets.VBox([*controls, self._button, self._content])
        self.displayed = False
        self._display_id = uuid.uuid4().hex
        # The widget lives until it is closed.
        self._view = self.widget._repr_mimebundle_()[_WIDGET]

    def show(self, html: str, text: str, saved: str, *, running: bool) -> None:
        """Replace the content wherever it is shown.

        Parameters
        ----------
        saved : str
            HTML above the content where there are no controls.
        running : bool
            Whether to offer the button.
        """
        # A closed widget has no connection to the page, which then shows the saved HTML.
        if self.widget.comm is not None:
            self._button.layout.display = None if running else "none"
            self.replace(html, text)
        if self.displayed and (self.widget.comm is None or not lacks_extension()):
            self._publish(html, text, saved, update=True)

    def replace(self, html: str, text: str) -> None:
        """Replace the content of the widget, and not the saved HTML."""
        data = {"text/html": html, "text/plain": text}
        self._content.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    def display(self, html: str, text: str, saved: str) -> None:
        """Also display below the running cell."""
        self.displayed = True
        self._publish(html, text, saved, update=False)

    def close(self) -> None:
        """Release the widget. Pages then show the HTML."""
        for widget in (*self.widget.children, self.widget):
            for part in (getattr(widget, "layout", None), getattr(widget, "style", None), widget):
                if part is not None:
                    part.close()

    def _publish(self, html: str, text: str, saved: str, *, update: bool) -> None:
        data: dict[str, Any] = {MIME: {**self._view, "display_id": self._display_id}}
        if self.widget.comm is not None and lacks_extension():
            data[_WIDGET] = self._view
        # Every page can show these two, also one that is opened when the kernel has gone.
        data |= {"text/html": _NOT_LIVE + saved + html, "text/plain": text}
        shell: Any = get_ipython()
        shell.display_pub.publish(
            data=data, metadata={}, transient={"display_id": self._display_id}, update=update
        )


def weakly(method: Callable[[], object]) -> Callable[..., None]:
    """Return a function that calls a method as long as its object lives, for widgets to keep."""
    reference = weakref.WeakMethod(method)

    def call(*_: object) -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call

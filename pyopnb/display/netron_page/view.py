"""A model in the real Netron, in the output of a cell."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from onnx import NodeProto

from pyopnb.common import plural, sanitize
from pyopnb.diffs import model_diffs, trace_diffs
from pyopnb.display.models import view_model
from pyopnb.display.netron_page.assets import OLDEST, UnusableNetron, read_assets
from pyopnb.display.netron_page.op_docs import document_ops
from pyopnb.display.netron_page.page import netron_output, netron_page
from pyopnb.display.netron_page.trim import trim
from pyopnb.display.page.markup import pack
from pyopnb.display.showing import show
from pyopnb.display.svg.axes import quantity
from pyopnb.display.svg.colors import text_color
from pyopnb.display.views import Canvas, View
from pyopnb.engine import Session, check_arguments
from pyopnb.errors import InputError, PyopError
from pyopnb.traces import Trace

__all__ = ["MIME", "TARGET", "NetronView", "clicked", "netron"]

MIME = "application/vnd.pyopnb.onnx+json"
"""The MIME type that the JupyterLab extension shows."""

TARGET = "pyopnb.netron"
"""The comm target by which the extension talks to the kernel."""

_SHOWN = (View, Session, Trace, trace_diffs.TraceDiff, model_diffs.ModelDiff)
_MIN_HEIGHT, _MAX_HEIGHT = 120, 4000
_Listener = TypeVar("_Listener", bound=Callable[[NodeProto], Any])

_live: weakref.WeakValueDictionary[str, NetronView] = weakref.WeakValueDictionary()


class NetronView:
    """A model in Netron, as `pyopnb.netron` returns it.

    Attributes
    ----------
    name : str
        How the caption names the model.
    height : int
        Height of the frame in pixels.
    """

    def __init__(self, view: View, canvas: Canvas, name: str, height: int) -> None:
        self.name, self.height = name, height
        try:
            self._assets = read_assets()
        except UnusableNetron as error:
            got, next_ = error.args
            expected = f"version {'.'.join(map(str, OLDEST))} or newer"
            raise PyopError("netron", expected=expected, got=got, next=next_) from None
        copy = trim(canvas.model)
        self._nodes = copy.nodes
        self._data = copy.proto.SerializeToString(deterministic=True)
        self._documentation = document_ops(copy.proto, self._assets.documentation())
        self._note = copy.note
        self._colors = _colors(canvas, copy.nodes)
        # Where no script runs, the saved notebook shows this in place of Netron.
        self._picture = view.body
        self._listeners: list[Callable[[NodeProto], Any]] = []
        self._selected: NodeProto | None = None
        # The page tells the kernel by this id which view was clicked.
        self._id = uuid.uuid4().hex
        _live[self._id] = self

    def __repr__(self) -> str:
        return f"<Netron: {self._caption}>"

    @property
    def _caption(self) -> str:
        count = len(self._nodes)
        nodes = f"{sanitize(self.name)}: {plural(count, 'node')}"
        if self._note:
            return f"{nodes}; {self._note}"
        return nodes

    @property
    def selected(self) -> NodeProto | None:
        """Return the node of the model that was clicked last; None before the first click."""
        return self._selected

    def on_select(self, function: _Listener) -> _Listener:
        """Call a function with each node that is clicked, a NodeProto of the model.

        Anything that it prints, displays or raises appears below the view. Clicks arrive in
        JupyterLab with pyopnb's extension, after ``%load_ext pyopnb``, as long as this object
        exists.

        Parameters
        ----------
        function : callable
            Takes the node; its return value is ignored.

        Returns
        -------
        callable
            The function itself, so that this works as a decorator.
        """
        self._listeners.append(function)
        return function

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that any browser opens, without a server or a network.

        Raises
        ------
        InputError
            The name does not end in ``.html``.
        """
        file = Path(os.fspath(path))
        if file.suffix != ".html":
            got = sanitize(file.suffix) or "no ending"
            raise InputError(
                f"save({sanitize(str(file))!r})",
                expected="a path that ends in .html",
                got=got,
                next=f"save({sanitize(str(file.with_suffix('.html')))!r})",
            )
        file.write_text(self._page(), encoding="utf-8")

    def _page(self) -> str:
        return netron_page(self._assets, self._data, self._documentation, self._colors)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        content = {
            "model": pack(self._data),
            "documentation": self._documentation,
            "colors": self._colors,
            "name": sanitize(self.name),
            "caption": self._caption,
            "height": self.height,
            "view": self._id,
        }
        return {MIME: content, "text/html": self._html(self._picture), "text/plain": repr(self)}

    def _mime_(self) -> tuple[str, str]:
        """Return the HTML for marimo, without the picture.

        marimo drops the style that hides the picture below the frame, and would draw both.
        """
        return "text/html", self._html("")

    def _html(self, picture: str) -> str:
        return netron_output(
            self._page(),
            name=sanitize(self.name),
            picture=picture,
            caption=self._caption,
            height=self.height,
        )


def _colors(canvas: Canvas, nodes: Mapping[str, NodeProto]) -> dict[str, Any]:
    """Choose the colors of Netron's nodes and their texts, the explanations, and the legend."""
    # Netron knows the nodes by their names in the copy, and the canvas by the original names.
    names = {id(node): name for name, node in nodes.items()}
    painted = {}
    for node, _, color, about in canvas.nodes:
        if id(node) in names:
            painted[names[id(node)]] = (color, text_color(color) if color else "", about)
    scale = canvas.scale
    if scale is None:
        return {"nodes": painted}
    # Nine colors are close enough to the palette for a gradient.
    stops = [scale.color(scale.value_at(n / 8)) for n in range(9)]
    ends = [quantity(scale.low, scale.unit), quantity(scale.high, scale.unit)]
    legend = {"title": sanitize(canvas.legend), "ends": ends, "stops": stops}
    return {"nodes": painted, "legend": legend}


def clicked(view: str, node: str) -> None:
    """Pass a click on to a view, by its id and the name of the node in it.

    Unknown views and nodes are ignored, because the page that they come from may be
    older than the kernel.
    """
    __tracebackhide__ = True
    netron_view = _live.get(view)
    if netron_view is not None and node in netron_view._nodes:
        selected = netron_view._selected = netron_view._nodes[node]
        # A copy, as a listener may add another one.
        for function in list(netron_view._listeners):
            function(selected)


@check_arguments
def netron(model: Any, *, name: str | None = None, height: int = 480) -> NetronView:
    """Show a model in Netron in the cell's output, without a port, network or cookie banner.

    With pyopnb's JupyterLab extension, which the wheel installs, Netron appears in any saved
    notebook, trusted or not, with or without a kernel. Elsewhere it appears in trusted notebooks,
    and others show a picture of the model. Each view adds 270 KB to the saved notebook. Large
    weights are left out, and external data is never read.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike, or a session, trace, or diff of traces or models
        Traces and diffs are colored as by `pyopnb.show`.
    name : str, optional
        The title; by default, the name of the file or of the graph.
    height : int
        Height of the view in pixels.

    Returns
    -------
    NetronView
        ``on_select`` takes a function to call with each clicked node, ``selected`` is the last
        clicked node, and ``save("x.html")`` writes a page.

    Raises
    ------
    ModelError
        The file does not exist or is not a model.
    InputError
        The height is out of range, or the object has no graph.
    PyopError
        Netron is not installed, or is older than 8.8.

    Examples
    --------
    >>> import pyopnb
    >>> view = pyopnb.netron(
    ...     pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"), name="small"
    ... )
    >>> view
    <Netron: small: 2 nodes>
    """
    if type(height) is not int or not _MIN_HEIGHT <= height <= _MAX_HEIGHT:
        expected = f"an int from {_MIN_HEIGHT} to {_MAX_HEIGHT}"
        got = sanitize(repr(height))
        raise InputError("netron, height", expected=expected, got=got, next="height=600")
    if isinstance(model, _SHOWN):
        view = show(model)
    else:
        view = view_model(model)
    # A diff in which no node was compared has no graph.
    if view.canvas is None:
        raise InputError(
            "netron", expected="something with a graph", got=view.title, next="pyopnb.show(…)"
        )
    if name is None:
        name = view.canvas.model.graph.name or "model"
        if isinstance(model, (str, os.PathLike)):
            name = Path(os.fspath(model)).name
    return NetronView(view, view.canvas, name, height)

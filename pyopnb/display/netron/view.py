"""A model in the real Netron, in the output of a cell."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from onnx import ModelProto, NodeProto

from pyopnb.display.models import view_model
from pyopnb.display.netron import assets, page
from pyopnb.display.netron.op_docs import documentation
from pyopnb.display.netron.trim import trimmed
from pyopnb.models.io import as_proto
from pyopnb.ops.errors import FeedError, PyopError, hide_internal_frames, plural, sanitize

__all__ = ["MIME", "TARGET", "NetronView", "clicked", "netron"]

MIME = "application/vnd.pyopnb.onnx+json"
"""What the JupyterLab extension shows."""

TARGET = "pyopnb.netron"
"""The name under which the extension speaks to the kernel."""

_SHORTEST, _TALLEST = 120, 4000
_Listener = TypeVar("_Listener", bound=Callable[[NodeProto], Any])

_live: weakref.WeakValueDictionary[str, NetronView] = weakref.WeakValueDictionary()


class NetronView:
    """A model to be shown in Netron; what `pyopnb.netron` gives.

    Attributes
    ----------
    name : str
    height : int
    """

    def __init__(self, model: ModelProto, name: str, height: int, embed: bool) -> None:
        self.name, self.height, self._embed = name, height, embed
        try:
            self._assets = assets.read()
        except assets.Unusable as error:
            found, remedy = error.args
            oldest = ".".join(map(str, assets.OLDEST))
            raise PyopError("netron", expected=f"version {oldest} or newer", got=found, next=remedy) from None
        copy = trimmed(model)
        self._nodes = copy.nodes
        self._data = copy.proto.SerializeToString(deterministic=True)
        self._documentation = documentation(copy.proto, self._assets.documentation())
        self._note = copy.note
        self._picture = view_model(model).body
        self._listeners: list[Callable[[NodeProto], Any]] = []
        self._selected: NodeProto | None = None
        self._id = uuid.uuid4().hex
        _live[self._id] = self

    def __repr__(self) -> str:
        return f"<Netron: {self._caption}>"

    @property
    def _caption(self) -> str:
        count = len(self._nodes)
        nodes = f"{sanitize(self.name)}: {plural(count, 'node')}"
        return f"{nodes}; {self._note}" if self._note else nodes

    @property
    def selected(self) -> NodeProto | None:
        """The node that was clicked last, of the model that was given; None before the first click."""
        return self._selected

    def on_select(self, function: _Listener) -> _Listener:
        """Call a function with each node that is clicked, as a NodeProto of the model that was given.

        What it prints, displays or raises appears below the view. Clicks arrive where a kernel runs that has done
        ``%load_ext pyopnb``, in a JupyterLab that has pyopnb's extension, and while this object lives.

        Parameters
        ----------
        function : callable

        Returns
        -------
        callable
            The function, so that this can be a decorator.
        """
        self._listeners.append(function)
        return function

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that needs neither server nor network, to be opened in any browser.

        Raises
        ------
        FeedError
            The path does not end in ``.html``.
        """
        file = Path(os.fspath(path))
        if file.suffix != ".html":
            got = sanitize(file.suffix) or "no ending"
            raise FeedError(f"save({sanitize(str(file))!r})", expected="a path that ends in .html", got=got)
        file.write_text(self._page(), encoding="utf-8")

    def _page(self) -> str:
        return page.alone(self._assets, self._data, self._documentation)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        content = {
            "model": page.packed(self._data),
            "documentation": self._documentation,
            "name": sanitize(self.name),
            "caption": self._caption,
            "height": self.height,
            "view": self._id,
        }
        live = self._page() if self._embed else None
        text = page.output(live, name=sanitize(self.name), picture=self._picture, caption=self._caption, height=self.height)
        return {MIME: content, "text/html": text, "text/plain": repr(self)}


def clicked(view: str, node: str) -> None:
    """Tell a view of a click, by its id and the name that the node has in there.

    A view that is gone, or a node that it does not have, is nothing: both come from a page, which may be older than the kernel.
    """
    __tracebackhide__ = True
    there = _live.get(view)
    if there is not None and node in there._nodes:
        found = there._selected = there._nodes[node]
        for function in list(there._listeners):
            function(found)


@hide_internal_frames
def netron(model: Any, *, name: str | None = None, height: int = 480, embed: bool = True) -> NetronView:
    """Show a model in Netron, in the output of the cell: no port, no network, nothing to accept.

    With pyopnb's JupyterLab extension, which its wheel installs, it shows in any saved notebook, trusted or not, with a kernel
    or without. Elsewhere it shows where the notebook is trusted, and a picture of the model where it is not. Large weights
    are left out, and external data is never read.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    name : str, optional
        What to call it; the file's name, or that of the graph, if not given.
    height : int
        Of the view, in pixels.
    embed : bool
        Whether the output holds Netron itself, 270 KB in the saved notebook, for a front end without the extension. Without
        it such a front end shows the picture.

    Returns
    -------
    NetronView
        ``on_select`` takes a function to call with each node that is clicked, ``selected`` is the last one,
        ``save("x.html")`` writes a page of its own.

    Raises
    ------
    ModelError
        No such file, or no model in it.
    FeedError
        The height is none.
    PyopError
        The installed Netron is older than 8.8, or there is none.

    Examples
    --------
    >>> import pyopnb
    >>> view = pyopnb.netron(pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"), name="small")
    >>> view
    <Netron: small: 2 nodes>
    """
    if type(height) is not int or not _SHORTEST <= height <= _TALLEST:
        raise FeedError("netron, height", expected=f"an int from {_SHORTEST} to {_TALLEST}", got=sanitize(repr(height)))
    proto = as_proto(model)
    if name is None:
        name = Path(os.fspath(model)).name if isinstance(model, (str, os.PathLike)) else proto.graph.name or "model"
    return NetronView(proto, name, height, embed)

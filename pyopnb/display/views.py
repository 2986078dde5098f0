"""The views that `pyopnb.show` makes of objects, and the one place that registers them.

A view of a new class is a function in a module of this package, or of a room above it::

    @view.register(Sweep)
    def view_sweep(thing: Sweep, *, output: str | None = None) -> View: ...

`pyopnb.display.showing` imports every module of this package, so that nothing else names it. Its
keyword-only parameters are the options that ``show`` takes for such a thing; ``**options`` are
the options of another view that it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from pyopnb.common import Displayable, sanitize
from pyopnb.display.page.markup import image, join, paragraph
from pyopnb.display.svg.chart import Chart, page
from pyopnb.display.svg.colors import ColorScale
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.svg.to_matplotlib import to_figure
from pyopnb.display.svg.to_svg import to_svg
from pyopnb.engine import coerce, model_files
from pyopnb.errors import InputError

__all__ = ["Canvas", "View", "charts_view", "picture_html", "view"]

_EXPECTED = (
    "a model, session, trace, profile, result, array, diff, sweep, op version, op or the registry"
)


@dataclass(frozen=True)
class Canvas:
    """The graph of a view, for other renderers.

    Attributes
    ----------
    nodes : tuple of (NodeProto, float or None, str, str)
        Nodes of it with their numbers, their colors as ``#rrggbb``, which may be empty, and the
        text of their cards.
    scale : ColorScale or None
        What the colors mean; ``legend`` says which quantity they show.
    """

    model: ModelProto
    nodes: tuple[tuple[NodeProto, float | None, str, str], ...]
    scale: ColorScale | None
    legend: str


@dataclass(frozen=True, repr=False)
class View(Displayable):
    """The result of `pyopnb.show`: text at a prompt, HTML in a notebook, files through ``save``.

    Attributes
    ----------
    thing : object
        The shown object.
    title : str
        One line on its kind and size.
    text : str
        The text at a prompt.
    body : str
        HTML that survives in a saved and untrusted notebook.
    draw : callable, optional
        Makes the picture, where there is one.
    canvas : Canvas, optional
        The graph in it, which `pyopnb.netron` shows in the same colors.
    svg : str
        The picture; empty if there is none.
    """

    thing: Any
    title: str
    text: str
    body: str
    draw: Callable[[], Drawing] | None = None
    canvas: Canvas | None = None

    @cached_property
    def svg(self) -> str:
        if self.draw:
            return to_svg(self.draw())
        return ""

    def plot(self) -> Any:
        """Draw it with matplotlib, which needs ``pip install pyopnb[plot]``.

        Returns
        -------
        matplotlib.figure.Figure
            It is in no window yet.

        Raises
        ------
        InputError
            There is nothing to draw.
        PyopError
            matplotlib is not installed.
        """
        if self.draw is None:
            got = sanitize(self.title, 120)
            raise InputError("plot", expected="something with a picture", got=got, next="print(…)")
        return to_figure(self.draw())

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def picture_html(drawing: Drawing, alt: str) -> str:
    """Write a drawing as an image with some space around it; ``alt`` describes it in a sentence."""
    return paragraph(image(to_svg(drawing), alt))


def charts_view(
    thing: Any,
    title: str,
    text: str,
    charts: Sequence[Chart],
    parts: Sequence[str],
    *,
    head: str = "",
    alt: str = "",
) -> View:
    """Show charts between other HTML; ``alt`` describes them, by default by the title.

    The charts are images side by side, which wrap on a narrow page instead of shrinking.
    """
    if not charts:
        return View(thing, title, text, join([head, *parts]))
    alt = alt or f"{title}."
    images = [image(to_svg(page([chart], alt)), alt) for chart in charts]
    body = join([head, paragraph(" ".join(images)), *parts])
    return View(thing, title, text, body, lambda: page(charts, title, in_row=2))


@singledispatch
def view(thing: Any, **options: Any) -> View:
    """Make the view of a thing; which options there are depends on its class."""
    # An object of another library, such as onnxscript, can hold a model.
    held, _ = model_files.held_model(thing)
    if held is not thing:
        return view(held, **options)
    if coerce.is_foreign_array(thing):
        return view(coerce.foreign_array(thing, "show", _EXPECTED), **options)
    next_ = "pyopnb.show(np.asarray(…)) for numbers"
    if isinstance(thing, GraphProto):
        next_ = "onnx.helper.make_model(graph)"
    elif hasattr(thing, "state_dict"):
        next_ = "pyopnb.torch.export(module, args), and show the model"
    raise InputError("show", expected=_EXPECTED, got=type(thing).__name__, next=next_)


@view.register(View)
def _view_again(thing: View, **options: Any) -> View:
    if options:
        return view(thing.thing, **options)
    return thing

"""The smallest model that fails: what was found, and the model as a graph."""

from __future__ import annotations

from pyopnb.diffs.reduce import Reduction
from pyopnb.display.html import escape, join, note, paragraph
from pyopnb.display.view import View, view
from pyopnb.ops.messages import sanitize

__all__ = ["view_reduction"]


@view.register(Reduction)
def view_reduction(thing: Reduction) -> View:
    """Show the smallest model that fails.

    Returns
    -------
    View
    """
    graph = view(thing.model)
    failure = paragraph(escape(sanitize(thing.failure.text, 300)))
    advice = note('.write("folder") leaves the model, its feeds, a script and a text for a report')
    head = paragraph(f"<b>{escape(thing.headline)}</b>")
    body = join([head, failure, graph.body, advice])
    return View(thing, thing.headline, str(thing), body, draw=graph.draw, canvas=graph.canvas)

"""The smallest model that fails: how it fails, and its graph."""

from __future__ import annotations

from pyopnb.common import sanitize
from pyopnb.diffs import findings
from pyopnb.display.budget import graph_view
from pyopnb.display.page.markup import escape, note, paragraph
from pyopnb.display.views import View, view

__all__ = ["view_reduction"]


@view.register(findings.Reduction)
def view_reduction(thing: findings.Reduction) -> View:
    """Show the smallest model that fails."""
    head = [paragraph(f"<b>{escape(thing.headline)}</b>")]
    head.append(paragraph(escape(sanitize(thing.failure.text, 300))))
    advice = note('.write("folder") writes the model, its feeds, a script and a report')
    return graph_view(thing, thing.headline, str(thing), thing.model, {}, head, [advice])

"""Findings whose text is a table already."""

from __future__ import annotations

from typing import Any

from pyopnb.diffs import findings, trace_diffs
from pyopnb.display.page.markup import join, source
from pyopnb.display.views import View, view

__all__ = ["view_findings"]


@view.register(findings.Sensitivity)
@view.register(findings.Stability)
@view.register(trace_diffs.OptimizerDiff)
def view_findings(thing: Any) -> View:
    """Show the text of what was found, in which columns stay columns on a narrow page."""
    text = str(thing)
    return View(thing, text.partition("\n")[0], text, join([source(text)]))

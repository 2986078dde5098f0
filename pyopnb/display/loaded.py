"""A loaded model and the ops that it keeps, as HTML: each text to be unfolded, with its digest above it."""

from __future__ import annotations

import html

from pyopnb.models.load import Loaded

__all__ = ["page"]

# Lines are broken and not scrolled: what stands far to the right must not be out of sight.
_TEXT = "font-family:monospace;margin:4px 0 8px 16px;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit"
_DIGEST = "font-family:monospace;font-size:smaller;overflow-wrap:anywhere"


def page(loaded: Loaded) -> str:
    """The model on one line, its ops, and how to run them."""
    made = [f"<div>{html.escape(loaded.head)}</div>"]
    for op, text in zip(loaded.ops.values(), loaded.sources(), strict=True):
        made.append(
            f"<details open><summary><b>{html.escape(op.name)}</b> {html.escape(loaded.state(op))}"
            f'<div style="{_DIGEST}">{op.digest}</div></summary><pre style="{_TEXT}">{html.escape(text)}</pre></details>'
        )
    return f"<div>{''.join(made)}<div>{html.escape(loaded.next)}</div></div>"

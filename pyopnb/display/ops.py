"""Ops, their versions, the registry, and the ops that a model file keeps: schemas and sources."""

from __future__ import annotations

import html
import time

from pyopnb.common import Table, messages, plural
from pyopnb.display.page.markup import details, join, note, source
from pyopnb.display.views import View, view
from pyopnb.engine import Op, Registry, Version
from pyopnb.models import Loaded

__all__ = ["view_loaded", "view_op", "view_registry", "view_version"]

# A source is cut in HTML after this many characters.
_SOURCE = 60_000
_NO_SOURCE = "its source is not known"
# Lines are wrapped and do not scroll: code far to the right must be in sight before it is
# run.
_WRAP = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
_UNTRUSTED = f"font-family:monospace;margin:4px 0 8px 16px;{_WRAP};background:none;color:inherit"
_DIGEST = "font-family:monospace;font-size:smaller;overflow-wrap:anywhere"


@view.register(Version)
def view_version(thing: Version) -> View:
    """Show a version: its schema, when it was defined, and its source with line numbers."""
    facts = [("schema", str(thing.schema)), ("defined", _time(thing))]
    facts.append(("from opset", str(thing.opset)))
    if thing.restored is not None:
        facts.append(("restores", f"version {thing.restored}"))
    if thing.schema.doc:
        facts.append(("doc", thing.schema.doc.strip().partition("\n")[0]))
    table = Table((str(thing), ""), facts)
    if thing.source is None:
        code = _NO_SOURCE
    else:
        code = _with_numbers(thing.source)
    # A source may come from a file of another author.
    text = f"{table!r}\n\n{messages.sanitize_source(code)}"
    body = join([table._repr_html_(), _source_html(thing.source)])
    return View(thing, str(thing), text, body)


@view.register(Op)
def view_op(thing: Op) -> View:
    """Show an op: its current version, and the earlier ones folded."""
    current = view_version(thing.current)
    earlier = [version for version in reversed(thing.versions) if version is not thing.current]
    text, parts = current.text, [current.body]
    if earlier:
        text += f"\n{plural(len(earlier), 'earlier version')}"
    # Ops for which there is no room are counted.
    for version in earlier:
        parts.append(details(f"{version}, {_time(version)}", view_version(version).body))
    return View(thing, thing.name, text, join(parts))


@view.register(Registry)
def view_registry(thing: Registry) -> View:
    """Show the registry: a line for each op, and their sources folded."""
    rows = []
    sources = []
    for op in thing:
        current = op.current
        numbers = str(current.number), str(current.schema), str(current.opset)
        rows.append((op.name, *numbers, _time(current)))
        sources.append(details(f"source of {op.name}", _source_html(current.source)))
    otherwise = "no op is defined. Try: %%pyop in a cell"
    table = Table(("op", "version", "schema", "opset", "defined"), rows, otherwise)
    body = join([table._repr_html_(), *sources])
    return View(thing, plural(len(rows), "op"), repr(table), body)


@view.register(Loaded)
def view_loaded(thing: Loaded) -> View:
    """Show a loaded model and the ops that it keeps, each with its digest and unfolded source."""
    parts = [f"<div>{html.escape(thing.head)}</div>"]
    for op, text in zip(thing.ops.values(), thing.sources(), strict=True):
        name = f"<b>{html.escape(op.name)}</b> {html.escape(thing.state(op))}"
        digest = f'<div style="{_DIGEST}">{op.digest}</div>'
        code = f'<pre style="{_UNTRUSTED}">{html.escape(text)}</pre>'
        parts.append(f"<details open><summary>{name}{digest}</summary>{code}</details>")
    parts.append(f"<div>{html.escape(thing.next)}</div>")
    # Not joined within a number of bytes: how to run the ops must not be cut.
    return View(thing, thing.head, repr(thing), f"<div>{''.join(parts)}</div>")


def _with_numbers(text: str) -> str:
    r"""Write a source with line numbers.

    Examples
    --------
    >>> _with_numbers("a\nb")
    '1  a\n2  b'
    """
    lines = text.expandtabs(4).rstrip("\n").split("\n")
    column = len(str(len(lines)))
    numbered = [f"{number:>{column}}  {line}".rstrip() for number, line in enumerate(lines, 1)]
    return "\n".join(numbered)


def _source_html(text: str | None) -> str:
    if text is None:
        return note(_NO_SOURCE)
    block = source(_with_numbers(text[:_SOURCE]))
    if len(text) > _SOURCE:
        block += note(f"and {len(text) - _SOURCE:,} more characters")
    return block


def _time(version: Version) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.defined))

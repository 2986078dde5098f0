"""Ops, their versions, the registry, and the ops that a model file keeps: schemas and sources."""

from __future__ import annotations

import html
import time

from pyopnb.display.html import details, escape, join, note, source
from pyopnb.display.view import View, view
from pyopnb.models.load import Loaded
from pyopnb.ops.messages import sanitize, sanitize_source
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import Registry
from pyopnb.ops.text_table import Table

__all__ = ["view_loaded", "view_op", "view_registry", "view_version"]

_SOURCE = 60_000  # characters of a source in HTML
_MOST_VERSIONS, _MOST_OPS, _MOST_SOURCES = 20, 200, 100
_NO_SOURCE = "its source is not known"
# Lines are wrapped and do not scroll: code far to the right must not be out of sight before somebody runs it.
_WRAP = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
_UNTRUSTED = f"font-family:monospace;margin:4px 0 8px 16px;{_WRAP};background:none;color:inherit"
_DIGEST = "font-family:monospace;font-size:smaller;overflow-wrap:anywhere"


@view.register(Version)
def view_version(thing: Version) -> View:
    """A version: its schema, when it was defined, and its source with line numbers."""
    facts = [
        ("schema", str(thing.schema)),
        ("defined", _time(thing)),
        ("from opset", str(thing.opset)),
    ]
    if thing.restored is not None:
        facts.append(("restores", f"version {thing.restored}"))
    if thing.schema.doc:
        facts.append(("doc", thing.schema.doc.strip().partition("\n")[0]))
    column = max(len(name) for name, _ in facts)
    lines = [f"{name.ljust(column)}  {sanitize(text)}" for name, text in facts]
    code = _NO_SOURCE if thing.source is None else _with_numbers(thing.source)
    head = f"<div><b>{escape(thing)}</b></div>"
    body = join([head, Table(("", ""), facts)._repr_html_(), _source_html(thing.source)])
    return View(thing, str(thing), "\n".join([str(thing), *lines, "", sanitize_source(code)]), body)


@view.register(Op)
def view_op(thing: Op) -> View:
    """An op: its current version, and the earlier ones folded."""
    current = view_version(thing.current)
    earlier = [version for version in reversed(thing.versions) if version is not thing.current]
    folded = [
        details(f"{version}, {_time(version)}", view_version(version).body)
        for version in earlier[:_MOST_VERSIONS]
    ]
    if len(earlier) > _MOST_VERSIONS:
        folded.append(note(f"and {len(earlier) - _MOST_VERSIONS} older versions"))
    count = f"\n{len(earlier)} earlier version{'s' * (len(earlier) != 1)}" if earlier else ""
    return View(thing, thing.name, current.text + count, join([current.body, *folded]))


@view.register(Registry)
def view_registry(thing: Registry) -> View:
    """The registry: a line for each op, and their sources folded."""
    ops = list(thing)
    rows = [
        (op.name, str(op.current.number), str(op.current.schema), _time(op.current)) for op in ops
    ]
    table = Table(
        ("op", "version", "schema", "defined"), rows, "no op is defined. Try: %%pyop in a cell"
    )
    parts = [Table(table.head, rows[:_MOST_OPS], table.otherwise)._repr_html_()]
    if len(rows) > _MOST_OPS:
        parts.append(note(f"and {len(rows) - _MOST_OPS} more ops"))
    parts += [
        details(f"source of {op.name}", _source_html(op.current.source))
        for op in ops[:_MOST_SOURCES]
    ]
    return View(thing, f"{len(ops)} op{'s' * (len(ops) != 1)}", repr(table), join(parts))


@view.register(Loaded)
def view_loaded(thing: Loaded) -> View:
    """A loaded model and the ops that it keeps, each with its digest and its unfolded source."""
    parts = [f"<div>{html.escape(thing.head)}</div>"]
    for op, text in zip(thing.ops.values(), thing.sources(), strict=True):
        parts.append(
            f"<details open><summary><b>{html.escape(op.name)}</b> {html.escape(thing.state(op))}"
            f'<div style="{_DIGEST}">{op.digest}</div></summary><pre style="{_UNTRUSTED}">{html.escape(text)}</pre></details>'
        )
    parts.append(f"<div>{html.escape(thing.next)}</div>")
    return View(
        thing, thing.head, repr(thing), f"<div>{''.join(parts)}</div>"
    )  # whole: how to run them must not be cut


def _with_numbers(text: str) -> str:
    r"""A source with line numbers.

    Examples
    --------
    >>> _with_numbers("a\nb")
    '1  a\n2  b'
    """
    lines = text.expandtabs(4).rstrip("\n").split("\n")
    column = len(str(len(lines)))
    return "\n".join(f"{number:>{column}}  {line}".rstrip() for number, line in enumerate(lines, 1))


def _source_html(text: str | None) -> str:
    if text is None:
        return note(_NO_SOURCE)
    more = note(f"and {len(text) - _SOURCE:,} more characters") if len(text) > _SOURCE else ""
    return source(_with_numbers(text[:_SOURCE])) + more


def _time(version: Version) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.defined))

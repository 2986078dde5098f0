"""Ops, their versions and the registry: what they take and give, and their source."""

from __future__ import annotations

import html
import time

from pyopnb.display.html import details, escaped, note, page
from pyopnb.display.view import View
from pyopnb.ops.errors import sanitize
from pyopnb.ops.registry import Op, Registry, Version
from pyopnb.ops.text_table import Table

__all__ = ["every", "numbered", "op", "version"]

_SOURCE = 60_000  # characters of a source in HTML
_VERSIONS = 20


def version(thing: Version) -> View:
    """A version: its schema, when it was defined, and its source with numbers of lines."""
    facts = [("takes and gives", str(thing.schema)), ("defined", _when(thing)), ("from opset", str(thing.opset))]
    if thing.restored is not None:
        facts.append(("brings back", f"version {thing.restored}"))
    if thing.schema.doc:
        facts.append(("says", thing.schema.doc.strip().partition("\n")[0]))
    source = "its source is not known" if thing.source is None else "\n".join(numbered(thing.source))
    wide = max(len(name) for name, _ in facts)
    said = [f"{name.ljust(wide)}  {sanitize(text)}" for name, text in facts]
    parts = [f"<div><b>{escaped(thing)}</b></div>", Table(("", ""), facts)._repr_html_(), _source(thing.source)]
    return View(thing, str(thing), "\n".join([str(thing), *said, "", source]), page(parts))


def numbered(source: str) -> list[str]:
    r"""Lines with their numbers before them.

    Examples
    --------
    >>> numbered("a\nb")
    ['1  a', '2  b']
    """
    lines = source.expandtabs(4).rstrip("\n").split("\n")
    wide = len(str(len(lines)))
    # shown cuts what is long; a source must be there to its end.
    whole = ("".join(sanitize(line[at : at + 200]) for at in range(0, len(line), 200)) for line in lines)
    return [f"{number:>{wide}}  {line}".rstrip() for number, line in enumerate(whole, 1)]


def _source(source: str | None) -> str:
    if source is None:
        return note("its source is not known")
    text = html.escape("\n".join(numbered(source[:_SOURCE])))
    more = note(f"and {len(source) - _SOURCE:,} more characters") if len(source) > _SOURCE else ""
    style = "font-family:monospace;margin:6px 0;white-space:pre;overflow-x:auto;background:none;color:inherit"
    return f'<pre style="{style}">{text}</pre>{more}'


def _when(thing: Version) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(thing.defined))


def op(thing: Op) -> View:
    """An op: its current version, and the earlier ones folded."""
    now = version(thing.current)
    before = [one for one in reversed(thing.versions) if one is not thing.current]
    folded = [details(f"{one}, {_when(one)}", version(one).body) for one in before[:_VERSIONS]]
    more = [note(f"and {len(before) - _VERSIONS} older versions")] if len(before) > _VERSIONS else []
    said = f"{len(before)} earlier version{'s' * (len(before) != 1)}"
    text = f"{now.text}\n{said}" if before else now.text
    return View(thing, thing.name, text, page([now.body, *folded, *more]))


def every(thing: Registry) -> View:
    """The registry: a line for each op, and their sources folded."""
    ops = list(thing)
    rows = [(one.name, str(one.current.number), str(one.current.schema), _when(one.current)) for one in ops]
    table = Table(("op", "version", "takes and gives", "defined"), rows, "no op is defined. Try: %%pyop in a cell")
    shown_table = Table(table.head, rows[:200], table.otherwise)._repr_html_()
    more = [note(f"and {len(rows) - 200} more ops")] if len(rows) > 200 else []
    folded = [details(f"source of {one.name}", _source(one.current.source)) for one in ops[:100]]
    title = f"{len(ops)} op{'s' * (len(ops) != 1)}"
    return View(thing, title, repr(table), page([shown_table, *more, *folded]))

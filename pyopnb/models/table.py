"""Ops and versions as tables, and a source: text for a prompt, HTML for a notebook that may be dark, light, or not trusted."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyopnb.ops.errors import shown
from pyopnb.ops.registry import Op, Version

__all__ = ["Source", "Table", "history_table", "registry_table"]

# A grey that is half transparent can be seen on white and on black; colours of text and ground stay the theme's.
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,0.4)"


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of text under a head.

    Examples
    --------
    >>> Table(("op", "version"), [("demo::SoftClip", "2")])
    op              version
    demo::SoftClip  2
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    otherwise: str = ""

    def __repr__(self) -> str:
        if not self.rows:
            return _on_one_line(self.otherwise)
        lines = [[_on_one_line(text) for text in row] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<div>{_escaped(self.otherwise)}</div>"
        head = "".join(f'<th style="{_CELL}">{_escaped(text)}</th>' for text in self.head)
        rows = "".join(f"<tr>{''.join(_td(text) for text in row)}</tr>" for row in self.rows)
        return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _td(text: str) -> str:
    return f'<td style="{_CELL};font-family:monospace">{_escaped(text)}</td>'


def _on_one_line(text: str) -> str:
    return shown(text).replace("\n", " ")


def _escaped(text: str) -> str:
    return html.escape(_on_one_line(text), quote=True)


@dataclass(frozen=True, repr=False)
class Source:
    """The text of a version."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        lines = "\n".join(_escaped_line(line.expandtabs(4)) for line in self.text.split("\n"))
        return f'<pre style="margin:0;white-space:pre;overflow-x:auto">{lines}</pre>'


def _escaped_line(line: str) -> str:
    # shown cuts what is long; a source must be there to its end.
    return html.escape("".join(shown(line[at : at + 200]) for at in range(0, len(line), 200)), quote=True)


def registry_table(ops: Iterable[Op]) -> Table:
    """The ops and their current versions."""
    rows = [_row(op.name, op.current) for op in ops]
    return Table(("op", "version", "schema", "opset", "defined"), rows, "No op is defined. Try: %%pyop in a cell")


def history_table(versions: Sequence[Version]) -> Table:
    """The versions of one op, the newest last."""
    rows = [(*_row(v.op, v), "" if v.restored is None else f"version {v.restored}") for v in versions]
    return Table(("op", "version", "schema", "opset", "defined", "brought back"), rows)


def _row(name: str, version: Version) -> tuple[str, ...]:
    defined = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.defined))
    return name, str(version.number), str(version.schema), str(version.opset), defined

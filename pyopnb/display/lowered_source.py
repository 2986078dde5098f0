"""The source of an op, each line with the ONNX operators that it became, or why it stays in Python."""

from __future__ import annotations

import html
from collections import Counter, OrderedDict
from dataclasses import dataclass

from onnx import FunctionProto, printer

from pyopnb.display.html import details, escape, join, note, pre
from pyopnb.display.view import View, view
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.messages import plural, sanitize, sanitize_source

__all__ = [
    "LoweredLine",
    "LoweredSource",
    "remember_source",
    "source_html",
    "view_function",
    "view_lowered_source",
]

_LONGEST_LINE = 300
# Operators stand beside the code up to this column of a console, and behind it where a line is longer.
_COLUMN = 60
_CELL = "text-align:left;vertical-align:top;border:none;padding:1px 12px"
_NUMBER = "text-align:right;vertical-align:top;border:none;padding:1px 8px 1px 0"
_CODE = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"
# Half transparent, so that the theme's background and text stay, light or dark.
_GREEN, _RED = "47,143,78", "209,69,59"


@dataclass(frozen=True)
class LoweredLine:
    """A line of an op's source.

    Attributes
    ----------
    number : int
        In its file or cell.
    text : str
    operators : tuple of str
        The ONNX operators that it became, without constants.
    reason : str
        Why it stays in Python; empty where it does not.
    """

    number: int
    text: str
    operators: tuple[str, ...] = ()
    reason: str = ""

    @property
    def remark(self) -> str:
        """Tell what became of the line."""
        if self.reason:
            return f"stays in Python: {self.reason}"
        counts = Counter(self.operators)
        return ", ".join(f"{name} × {n}" if n > 1 else name for name, n in counts.items())

    @property
    def mark(self) -> str:
        """Return the number of operators, or ">" where the line stays in Python."""
        if self.reason:
            return ">"
        return str(len(self.operators)) if self.operators else ""


@dataclass(frozen=True, repr=False)
class LoweredSource(Displayable):
    """The source of ``compute``, and of what it calls, as `pyopnb.lower` reads it.

    Attributes
    ----------
    op : str
    lines : tuple of LoweredLine
        None of them where the source is not known.

    Examples
    --------
    >>> LoweredSource("demo::Half", (LoweredLine(7, "return x / 2", ("Div",)),))
    demo::Half: 1 ONNX operator
    7  1  return x / 2   # Div
    """

    op: str
    lines: tuple[LoweredLine, ...]

    def excerpt(self, around: int = 6) -> LoweredSource:
        """Return the lines near the one that stays in Python.

        Parameters
        ----------
        around : int
            Lines before and behind it.

        Returns
        -------
        LoweredSource
        """
        for position, line in enumerate(self.lines):
            if line.reason:
                first = max(position - around, 0)
                return LoweredSource(self.op, self.lines[first : position + around + 1])
        return self

    @property
    def title(self) -> str:
        """Tell how many operators there are, or that a line stays in Python."""
        for line in self.lines:
            if line.reason:
                return f"{self.op}: line {line.number} stays in Python"
        count = sum(len(line.operators) for line in self.lines)
        return f"{self.op}: {plural(count, 'ONNX operator')}"

    def __repr__(self) -> str:
        return "\n".join([sanitize(self.title), *_text_lines(self.lines)])


def _text_lines(lines: tuple[LoweredLine, ...]) -> list[str]:
    width = max((len(str(line.number)) for line in lines), default=1)
    longest = max((len(line.text) for line in lines if line.mark), default=0)
    column = min(longest, _COLUMN)
    rows: list[str] = []
    previous = None
    for line in lines:
        # What compute calls stands apart.
        if previous is not None and line.number != previous + 1:
            rows.append("")
        previous = line.number
        row = f"{line.number:{width}}  {line.mark:1}  {sanitize(line.text, _LONGEST_LINE)}"
        if line.remark:
            row = f"{row.ljust(width + 5 + column)}   # {sanitize(line.remark, _LONGEST_LINE)}"
        rows.append(row.rstrip())
    return rows


@view.register(LoweredSource)
def view_lowered_source(thing: LoweredSource) -> View:
    """Show a source with its operators, coloured by their number, as ``cython -a`` does.

    Parameters
    ----------
    thing : LoweredSource

    Returns
    -------
    View
    """
    body = join([f"<div><b>{escape(thing.title)}</b></div>", source_html(thing)])
    return View(thing, thing.title, repr(thing), body)


def source_html(thing: LoweredSource) -> str:
    """Write the lines as a table of HTML."""
    if not thing.lines:
        return note("its source is not known")
    most = max(len(line.operators) for line in thing.lines)
    rows: list[str] = []
    previous = None
    for line in thing.lines:
        if previous is not None and line.number != previous + 1:
            rows.append('<tr><td colspan="4" style="border:none;height:0.6em"></td></tr>')
        previous = line.number
        rows.append(_row(line, most))
    return f'<table style="border-collapse:collapse;margin:4px 0">{"".join(rows)}</table>'


def _row(line: LoweredLine, most: int) -> str:
    """Write a line, the greener the more operators it became, and red where it stays in Python."""
    background = ""
    if line.reason:
        background = f"background-color:rgba({_RED},0.25)"
    elif line.operators:
        opacity = 0.08 + 0.22 * len(line.operators) / most
        background = f"background-color:rgba({_GREEN},{opacity:.2f})"
    code = html.escape(sanitize(line.text, _LONGEST_LINE))
    cells = [
        f'<td style="{_NUMBER};opacity:0.6">{line.number}</td>',
        f'<td style="{_NUMBER}">{line.mark}</td>',
        f'<td style="{_CELL};{_CODE};{background}">{code}</td>',
        f'<td style="{_CELL}">{escape(line.remark, _LONGEST_LINE)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


# ---- functions ------------------------------------------------------------------------------------

_MOST_SOURCES = 64
_sources: OrderedDict[bytes, LoweredSource] = OrderedDict()


def remember_source(function: FunctionProto, source: LoweredSource) -> None:
    """Keep the source of a function that `pyopnb.lower` made, which a proto cannot carry itself.

    Parameters
    ----------
    function : FunctionProto
    source : LoweredSource
        Of the last 64 functions.
    """
    _sources[function.SerializeToString(deterministic=True)] = source
    while len(_sources) > _MOST_SOURCES:
        _sources.popitem(last=False)


@view.register(FunctionProto)
def view_function(thing: FunctionProto) -> View:
    """Show a function of a model: the source that it was lowered from, where that is known, and its nodes.

    Parameters
    ----------
    thing : FunctionProto

    Returns
    -------
    View
    """
    name = f"{thing.domain}::{thing.name}"
    nodes = printer.to_text(thing)
    source = _sources.get(thing.SerializeToString(deterministic=True))
    if source is None:
        return View(thing, name, sanitize_source(nodes), pre(nodes))
    body = join([view_lowered_source(source).body, details(f"the nodes of {name}", pre(nodes))])
    return View(thing, name, repr(source), body)

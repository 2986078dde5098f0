"""Show an op's source, each line with its ONNX operators, or why it stays in Python."""

from __future__ import annotations

import html
from collections import Counter, OrderedDict
from dataclasses import dataclass

from onnx import FunctionProto, printer

from pyopnb.common import Displayable, messages, plural, sanitize
from pyopnb.display.page.markup import details, escape, join, note, pre
from pyopnb.display.views import View, view

__all__ = [
    "LoweredLine",
    "LoweredSource",
    "view_function",
    "view_lowered_source",
]

_LONGEST_LINE = 300
# In a console, operators start at this column, or after the code if a line is longer.
_COLUMN = 60
# How many lines an excerpt has before and after its line.
_AROUND = 6
_UNKNOWN = "its source is not known"
_CELL = "text-align:left;vertical-align:top;border:none;padding:1px 12px"
_CODE = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"
# Half transparent, so that the theme's background and text stay, light or dark.
_GREEN, _RED = "47,143,78", "209,69,59"
_MOST_SOURCES = 64


@dataclass(frozen=True)
class LoweredLine:
    """A line of an op's source.

    Attributes
    ----------
    number : int
        In its file or cell.
    text : str
        With its indentation, without the end of the line.
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
        """Say which operators the line became."""
        if self.reason:
            return f"stays in Python: {self.reason}"
        counts = Counter(self.operators)
        return ", ".join(f"{name} × {n}" if n > 1 else name for name, n in counts.items())


@dataclass(frozen=True, repr=False)
class LoweredSource(Displayable):
    """The source of ``compute`` and of the functions that it calls, as `pyopnb.lower` reads it.

    Attributes
    ----------
    op : str
        ``domain::OpType``.
    lines : tuple of LoweredLine
        Empty if the source is not known.

    Examples
    --------
    >>> LoweredSource("demo::Half", (LoweredLine(7, "return x / 2", ("Div",)),))
    demo::Half: 1 ONNX operator
    7  return x / 2   # Div
    """

    op: str
    lines: tuple[LoweredLine, ...]

    def remember(self, function: FunctionProto) -> None:
        """Keep it for a function that `pyopnb.lower` made, whose proto cannot carry it.

        The sources of the last 64 functions are kept.
        """
        _sources[function.SerializeToString(deterministic=True)] = self
        while len(_sources) > _MOST_SOURCES:
            _sources.popitem(last=False)

    def excerpt(self) -> LoweredSource:
        """Return the lines near the one that stays in Python."""
        for position, line in enumerate(self.lines):
            if line.reason:
                first = max(position - _AROUND, 0)
                return LoweredSource(self.op, self.lines[first : position + _AROUND + 1])
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
        lines = [sanitize(self.title)]
        for line in self.lines:
            code = sanitize(line.text, _LONGEST_LINE).ljust(self._column)
            remark = ""
            if line.remark:
                remark = f"   # {sanitize(line.remark, _LONGEST_LINE)}"
            lines.append(f"{line.number}  {code}{remark}".rstrip())
        return "\n".join(lines)

    @property
    def _column(self) -> int:
        """Return the column of the remarks after the code."""
        lengths = [len(line.text) for line in self.lines if line.remark]
        return min(_COLUMN, max(lengths, default=0))


_sources: OrderedDict[bytes, LoweredSource] = OrderedDict()


@view.register(LoweredSource)
def view_lowered_source(thing: LoweredSource) -> View:
    """Show a source with its operators.

    The more operators a line became, the greener it is. A line that stays in Python is red.
    """
    most = max((len(line.operators) for line in thing.lines), default=1) or 1
    rows = ""
    for line in thing.lines:
        style = f"{_CELL};{_CODE}"
        if line.reason:
            style += f";background-color:rgba({_RED},0.25)"
        elif line.operators:
            opacity = 0.08 + 0.22 * len(line.operators) / most
            style += f";background-color:rgba({_GREEN},{opacity:.2f})"
        code = html.escape(sanitize(line.text, _LONGEST_LINE))
        rows += (
            f'<tr><td style="{_CELL};opacity:0.6">{line.number}</td>'
            f'<td style="{style}">{code}</td>'
            f'<td style="{_CELL}">{escape(line.remark, _LONGEST_LINE)}</td></tr>'
        )
    table = f'<table style="border-collapse:collapse;margin:4px 0">{rows}</table>'
    body = join([f"<div><b>{escape(thing.title)}</b></div>", table if rows else note(_UNKNOWN)])
    return View(thing, thing.title, repr(thing), body)


# ---- functions -----------------------------------------------------------------------------------


@view.register(FunctionProto)
def view_function(thing: FunctionProto) -> View:
    """Show a function of a model: the source it was lowered from, if known, and its nodes."""
    name = f"{thing.domain}::{thing.name}"
    nodes = printer.to_text(thing)
    source = _sources.get(thing.SerializeToString(deterministic=True))
    if source is None:
        return View(thing, name, messages.sanitize_source(nodes), pre(nodes))
    body = join([view_lowered_source(source).body, details(f"the nodes of {name}", pre(nodes))])
    return View(thing, name, repr(source), body)

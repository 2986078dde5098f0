"""Show rows as a table of text, or of HTML for a notebook.

The notebook may be dark, light, or not trusted.
"""

from __future__ import annotations

import csv
import hashlib
import html
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pyopnb.common.installed import require
from pyopnb.common.told.messages import one_line

__all__ = ["Table"]

# Half transparent gray can be seen on white and on black; the theme sets all other colors.
_CELL = (
    "text-align:left;vertical-align:top;padding:2px 12px 2px 0;"
    "border-bottom:1px solid rgba(128,128,128,0.4)"
)
_LONGEST_NUMBER = 16
_QUANTITY = re.compile(r"([-+]?[\d.,]+) (µs|ms|s|%)")
_UNITS = {"µs": ("s", 1e-6), "ms": ("s", 1e-3), "s": ("s", 1.0), "%": ("%", 1.0)}


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of text under a head.

    Attributes
    ----------
    otherwise : str
        The text of a table without rows.
    keys : sequence of sequences of str
        For each row, the names of the nodes that it is about, so that a picture can link to it.

    Examples
    --------
    >>> Table(("op", "version"), [("demo::SoftClip", "2")])
    op              version
    demo::SoftClip  2
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    otherwise: str = ""
    keys: Sequence[Sequence[str]] = ()

    def __repr__(self) -> str:
        if not self.rows:
            return one_line(self.otherwise)
        lines = [[one_line(text) for text in row] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<div>{_escaped(self.otherwise)}</div>"
        head = "".join(f'<th style="{_CELL}">{_escaped(text)}</th>' for text in self.head)
        rows = ""
        for row, names in zip_longest(self.rows, self.keys):
            rows += f"<tr{_key(names)}>{''.join(map(_td, row))}</tr>"
        style = "border-collapse:collapse;margin:0"  # JupyterLab centers tables
        # The class lets the JupyterLab extension offer to copy it.
        table = f'<table class="pyopnb-table" style="{style}">'
        return f"{table}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return the rows as comma-separated values, or write them to a file.

        Examples
        --------
        >>> print(Table(("op", "share"), [("demo::Clip, old", "1.5")]).to_csv(), end="")
        op,share
        "demo::Clip, old",1.5
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        if path is None:
            return text.getvalue()
        Path(path).write_text(text.getvalue(), encoding="utf-8", newline="")
        return None

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, in which columns of numbers are numbers.

        Times are in seconds, and the column's name says so: ``median (s)``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        require("pandas", "1.0", "pandas")
        import pandas

        # Only numbers can be missing: an op may be called None.
        empty = ["", "nan"]
        text = io.StringIO(self.to_csv())
        frame = pandas.read_csv(text, keep_default_na=False, na_values=empty)
        for name in self.head:
            quantities = [_QUANTITY.fullmatch(str(text)) for text in frame[name]]
            if frame.empty or not all(quantities):
                continue
            numbers = []
            for number, unit in (quantity.groups() for quantity in quantities if quantity):
                common_unit, size = _UNITS[unit]
                numbers.append(float(number.replace(",", "")) * size)
            frame[name] = numbers
            frame = frame.rename(columns={name: f"{name} ({common_unit})"})
        return frame

    @staticmethod
    def row_key(name: str) -> str:
        """Hash a name for HTML, so that no character of a hostile name gets there."""
        return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=5).hexdigest()


def _key(names: Sequence[str] | None) -> str:
    return f' data-pyopnb="{" ".join(map(Table.row_key, names))}"' if names else ""


def _td(text: str) -> str:
    style = f"{_CELL};font-family:monospace"
    # On a narrow page a number would lose its unit or the end of its range to the next line.
    if text[:1].isdigit() and len(text) <= _LONGEST_NUMBER:
        style += ";white-space:nowrap"
    return f'<td style="{style}">{_escaped(text)}</td>'


def _escaped(text: str) -> str:
    return html.escape(one_line(text), quote=True)

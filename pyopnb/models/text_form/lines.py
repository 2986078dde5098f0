"""Lines and columns of the ONNX text form, for error messages."""

from __future__ import annotations

from pyopnb.common import sanitize

__all__ = ["BLANK", "QUOTED", "caret", "position_of", "where"]

BLANK = r"(?:\s|\#[^\n]*+)"
"""A blank or a comment, as a regular expression."""

QUOTED = r'"(?:[^"\\]|\\.)*+"?'
"""A string, closed or not; possessive, so that a text of quotes takes linear time."""

# Characters of a long line that are shown on each side of a position.
_CONTEXT = 50


def where(text: str, place: int) -> str:
    """Name the line and column of a position, counted from 1, and show the line."""
    line, column = _line_at(text, place)
    first, last = max(0, column - _CONTEXT), column + _CONTEXT
    shown = line[first:last].strip()
    if first:
        shown = f"…{shown}"
    if last < len(line):
        shown = f"{shown}…"
    number = text.count("\n", 0, place) + 1
    return f"line {number}, column {column + 1}, in `{sanitize(shown)}`"


def caret(text: str, place: int) -> str:
    """Draw the line of a position, and a caret below it."""
    line, column = _line_at(text, place)
    first = max(0, column - _CONTEXT)
    characters = line[first : column + _CONTEXT]
    shown = "".join(char if char.isprintable() else " " for char in characters)
    return f"    {shown}\n    {' ' * (column - first)}^"


def _line_at(text: str, place: int) -> tuple[str, int]:
    """Return the line of a position, and the column counted from 0."""
    start = text.rfind("\n", 0, place) + 1
    return text[start:].partition("\n")[0], place - start


def position_of(text: str, line: int, column: int) -> int:
    """Return the position of a line and a column as the onnx parser counts them, in bytes."""
    lines = text.split("\n")
    before = "".join(f"{row}\n" for row in lines[: line - 1])
    row = "".join(lines[line - 1 : line])
    characters = row.encode()[: column - 1].decode(errors="ignore")
    return min(len(text), len(before) + len(characters))

"""Positions in ONNX's text form: lines and columns, nodes, heads of graphs.

The parser gives only the protos. Their nodes and graphs are in the order of the text, so that the n-th equals sign between
braces belongs to the n-th node, and the n-th arrow to the n-th graph. Only error messages need this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pyopnb.ops.messages import sanitize

__all__ = ["BLANK", "QUOTED", "TextLayout", "Token"]

BLANK = r"(?:\s|\#[^\n]*+)"
"""A blank or a comment, as a regular expression."""

QUOTED = r'"(?:[^"\\]|\\.)*+"?'
"""A string, closed or not; possessive, so that a text of quotes takes linear time."""

_TOKEN = re.compile(
    rf"(?P<blank>{BLANK}+)|(?P<string>{QUOTED})|(?P<word>[A-Za-z_]\w*)|(?P<number>-?\d[\d.]*(?:[eE][+-]?\d*)?)|(?P<arrow>=>)|(?P<mark>.)",
    re.ASCII | re.DOTALL,
)
_CLOSING = {")": "(", "}": "{", ">": "<", "]": "["}
# Characters of a long line that are shown on each side of a position.
_CONTEXT = 50


@dataclass(frozen=True, slots=True)
class Token:
    """One word, string, number or mark of a text.

    Attributes
    ----------
    kind : str
        ``string``, ``word``, ``number``, ``arrow`` or ``mark``.
    text : str
    start : int
    depth : int
        Number of brackets around it; a bracket is not around itself.
    inside : str
        The innermost of them, or an empty string.
    """

    kind: str
    text: str
    start: int
    depth: int
    inside: str

    @property
    def name(self) -> str | None:
        """Return the name, without quotes and escapes; None for a number or a mark."""
        if self.kind == "string":
            return re.sub(
                r"\\(.)", r"\1", self.text.removeprefix('"').removesuffix('"'), flags=re.DOTALL
            )
        if self.kind == "word":
            return self.text
        return None


class TextLayout:
    """A text and the positions in it, which are indices of its characters.

    Parameters
    ----------
    text : str
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def where(self, place: int) -> str:
        """Name the line and column of a position, counted from 1, and show the line."""
        start = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        line = self.text[start : None if end < 0 else end]
        column = place - start
        first, last = max(0, column - _CONTEXT), column + _CONTEXT
        cut = line[first:last].strip()
        if first:
            cut = f"…{cut}"
        if last < len(line):
            cut = f"{cut}…"
        return f"line {self.text.count(chr(10), 0, place) + 1}, column {column + 1}, in `{sanitize(cut)}`"

    def caret(self, place: int) -> str:
        """Draw the line of a position, and a caret below it."""
        start = self.text.rfind("\n", 0, place) + 1
        line = self.text[start:].partition("\n")[0]
        column = place - start
        first = max(0, column - _CONTEXT)
        shown = "".join(
            char if char.isprintable() else " " for char in line[first : column + _CONTEXT]
        )
        return f"    {shown}\n    {' ' * (column - first)}^"

    def place(self, line: int, column: int) -> int:
        """Return the position of a line and a column in bytes, which onnx's parser counts."""
        # The parser counts bytes, and a character may have several.
        lines = self.text.split("\n")
        before = lines[: line - 1]
        start = sum(map(len, before)) + len(before)
        if line <= len(lines):
            last_line = lines[line - 1]
        else:
            last_line = ""
        characters = len(last_line.encode()[: column - 1].decode(errors="ignore"))
        return min(len(self.text), start + characters)

    def at(self, place: int) -> int | None:
        """Return the index of the first token at a position or after it; None at the end of the text."""
        return next(
            (n for n, token in enumerate(self.tokens) if token.start + len(token.text) > place),
            None,
        )

    @cached_property
    def tokens(self) -> list[Token]:
        """List all tokens, without blanks and comments."""
        tokens: list[Token] = []
        # A stack of what is open, which says of each token what it is inside of.
        brackets: list[str] = []
        for match in _TOKEN.finditer(self.text):
            group, text = match.lastgroup or "", match[0]
            if group == "blank":
                continue
            if group == "mark" and brackets and _CLOSING.get(text) == brackets[-1]:
                brackets.pop()
            # A bracket is not inside itself, neither where it opens nor where it closes.
            if brackets:
                innermost = brackets[-1]
            else:
                innermost = ""
            tokens.append(Token(group, text, match.start(), len(brackets), innermost))
            if group == "mark" and text in _CLOSING.values():
                brackets.append(text)
        return tokens

    @cached_property
    def _nodes(self) -> list[int]:
        return [n for n, t in enumerate(self.tokens) if t.text == "=" and t.inside == "{"]

    @cached_property
    def _arrows(self) -> list[int]:
        return [n for n, t in enumerate(self.tokens) if t.kind == "arrow"]

    def op(self, node: int) -> int:
        """Return the position of a node's op type with its domain."""
        return self.tokens[self._nodes[node] + 1].start

    def output(self, node: int, name: str) -> int:
        """Return the position of a node's last output of that name."""
        at = self._nodes[node]
        # Outputs stand to the left of the equals sign, separated by commas.
        for before in range(at - 1, -1, -1):
            token = self.tokens[before]
            if token.name is None and token.text != ",":
                break
            if token.name == name:
                return token.start
        return self.tokens[at].start

    def input(self, node: int, name: str) -> int:
        """Return the position of a node's first input of that name."""
        return next((t.start for _, t in self._within(node, "(") if t.name == name), self.op(node))

    def attribute(self, node: int, name: str) -> int:
        """Return the position of an attribute's name."""
        return self.tokens[self.attribute_token(node, name)].start

    def attribute_token(self, node: int, name: str) -> int:
        """Return the index of the token that is an attribute's name; the next one is a colon if its type is written."""
        candidates = (
            n
            for n, t in self._within(node, "<")
            if t.name == name and self.tokens[n - 1].text in ("<", ",")
        )
        return next(candidates, self._nodes[node] + 1)

    def _within(self, node: int, bracket: str) -> Iterator[tuple[int, Token]]:
        """Yield the tokens directly within a node's brackets of that kind, each with its index."""
        first = self._nodes[node]
        depth = self.tokens[first].depth
        for n in range(first + 1, len(self.tokens)):
            token = self.tokens[n]
            if token.depth < depth or (token.text == "=" and token.depth == depth):
                return
            if token.depth == depth + 1 and token.inside == bracket:
                yield n, token

    def head(self, scope: int, name: str, outputs: bool = False) -> int:
        """Return the position of the last input, value or initializer of that name in the head of a graph, or of an output."""
        at = self._arrows[scope]
        depth = self.tokens[at].depth
        # Begin past the brackets on both sides of the arrow.
        first, last = at - 2, at + 2
        while first > 0 and self.tokens[first].depth > depth:
            first -= 1
        while last < len(self.tokens) and (
            self.tokens[last].depth > depth or self.tokens[last].text in ")<>"
        ):
            last += 1
        if outputs:
            window = self.tokens[at:last]
        else:
            window = self.tokens[first:last]
        candidates = [t for t in window if t.name == name and t.depth == depth + 1]
        if outputs:
            return next((t.start for t in candidates if t.inside == "("), self.tokens[at].start)
        inputs = [t for t in candidates if t.inside == "<" or t.start < self.tokens[at].start]
        return (inputs or candidates or [self.tokens[at]])[-1].start

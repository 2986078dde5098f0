"""The call that the cursor is in: found in the text before the cursor, which is rarely valid Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["OpenCall", "open_call"]

# In a string of one line everything is skipped; one that is not closed runs to the cursor.
_TOKEN = re.compile(
    r"""#[^\n]*|(?P<string>'''|\"\"\"|'|")|[()\[\]{},]""",
)
_CALLEE = re.compile(r"([A-Za-z_][\w.]*)\s*\Z")
_KEYWORD = re.compile(r"\s*(\w+)\s*=(?!=)")


@dataclass(frozen=True)
class OpenCall:
    """A call whose bracket is open at the cursor.

    Attributes
    ----------
    callee : str
        As it is written: ``session.trace``.
    arguments : tuple of str
        The texts before the cursor; the last is the one that the cursor is in.
    quote : int or None
        Where in the last argument a string begins that is still open.
    """

    callee: str
    arguments: tuple[str, ...]
    quote: int | None = None

    @property
    def current(self) -> str:
        """Return the argument that the cursor is in."""
        return self.arguments[-1]

    @property
    def positional(self) -> int:
        """Count the complete arguments without a name."""
        return sum(1 for text in self.arguments[:-1] if not _KEYWORD.match(text))

    @property
    def named(self) -> list[str]:
        """List the names of the complete arguments that have one."""
        return [found[1] for text in self.arguments[:-1] if (found := _KEYWORD.match(text))]


def open_call(text: str) -> OpenCall | None:
    """Find the innermost call around the end of a text; return None if there is none or another bracket is nearer.

    Examples
    --------
    >>> open_call("y = f(g(1), session(x=[1, 2], ot")
    OpenCall(callee='session', arguments=('x=[1, 2]', ' ot'), quote=None)
    >>> open_call('call("demo::So').quote, open_call("a[") is None
    (0, True)
    """
    stack: list[list[int]] = []  # of each open bracket: its place, and those of the commas in it
    place, quote = 0, None
    while found := _TOKEN.search(text, place):
        sign, place = found[0], found.end()
        if sign[0] == "#":
            text = text[: found.start()] + " " * len(sign) + text[place:]
        elif found["string"]:
            end = _end_of_string(text, sign, place)
            if end is None:
                quote = found.start()
                break
            place = end
        elif sign in "([{":
            stack.append([found.start()])
        elif sign in ")]}":
            del stack[-1:]
        elif sign == "," and stack:
            stack[-1].append(found.start())
    if not stack or text[stack[-1][0]] != "(":
        return None
    begin, *_ = cuts = stack[-1]
    callee = _CALLEE.search(text, 0, begin)
    if callee is None:
        return None
    arguments = tuple(text[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True))
    return OpenCall(callee[1], arguments, None if quote is None else quote - cuts[-1] - 1)


def _end_of_string(text: str, quote: str, place: int) -> int | None:
    """Find where a string ends; return None if it is open at the end of the text. A short one ends with its line."""
    pattern = rf"(?:\\.|(?!{quote}).)*{quote}"
    found = re.compile(pattern, re.DOTALL if len(quote) == 3 else 0).match(text, place)
    if found:
        return found.end()
    line = text.find("\n", place)
    return None if len(quote) == 3 or line < 0 else line

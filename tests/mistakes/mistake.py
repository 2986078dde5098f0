"""A mistake: what is typed, what the message says, and what is true once its advice is typed, letter by letter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent

__all__ = ["Mistake"]

_BETWEEN_CELLS = "\n---\n"
_SLOT = re.compile("«(.*?)»", re.DOTALL)


@dataclass(frozen=True)
class Mistake:
    """One row of the table.

    Attributes
    ----------
    name : str
        What went wrong, in a few words; the test's name.
    typed : str
        The cells, as a user types them, with a line ``---`` between two of them. A cell
        ``!python -m pyopnb …`` is a command line. NumPy is there as ``np``, and so are ``onnx`` and
        ``pyopnb``. «…» is what the advice is typed instead of, and «» where it is typed in; without
        «» the advice is a cell of its own, typed last.
    says : tuple of str
        What the message contains.
    proof : str
        A Python expression that is true in the end: the advice did not only run, it did
        what the user meant.
    advice : str
        A regular expression; its group is what is typed of the message. By default all
        that follows ``Try:``.
    """

    name: str
    typed: str
    says: tuple[str, ...]
    proof: str
    advice: str = r"Try: (.*)"

    def cells(self) -> list[str]:
        """The cells with the mistake."""
        return _split(_SLOT.sub(r"\1", dedent(self.typed)))

    def corrected(self, message: str) -> list[str]:
        """The cells with the advice of the message."""
        found = re.search(self.advice, message)
        assert found is not None, f"no advice like {self.advice} in: {message}"
        advice = found[1]
        assert "…" not in advice, f"nobody can type this: {advice}"
        text = dedent(self.typed)
        return _split(_SLOT.sub(lambda _: advice, text)) if _SLOT.search(text) else [advice]


def _split(text: str) -> list[str]:
    return [cell.strip("\n") for cell in text.split(_BETWEEN_CELLS)]

"""What a thing looks like: its text, its HTML, and the picture that a file can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyopnb.ops.displayable import Displayable

__all__ = ["View"]


@dataclass(frozen=True, repr=False)
class View(Displayable):
    """What `pyopnb.show` gives: text at a prompt, HTML in a notebook, and files through `save`.

    Attributes
    ----------
    thing : object
        What is shown.
    title : str
        One line that says what it is.
    text : str
    body : str
        HTML that survives in a saved notebook that nobody trusts.
    svg : str
        The picture; empty where there is none.
    png : bytes
        The picture in pixels; empty where there is none.
    """

    thing: Any
    title: str
    text: str
    body: str
    svg: str = ""
    png: bytes = b""

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

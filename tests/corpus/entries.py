"""The entries of the corpus: a name, and the function that makes the model and its feeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import ModelProto

__all__ = ["Maker", "entry", "make", "names"]

Maker = Callable[[], tuple[ModelProto, dict[str, Any]]]

_MAKERS: dict[str, Maker] = {}


def entry(name: str) -> Callable[[Maker], Maker]:
    """Enter a function that makes a model and its feeds, always the same ones."""

    def enter(maker: Maker) -> Maker:
        known = _MAKERS.get(
            name
        )  # itself, where pytest has imported its module once more to look for doctests
        assert known is None or known.__code__ == maker.__code__, f"two entries are called {name}"
        _MAKERS[name] = maker
        return maker

    return enter


def names() -> list[str]:
    """All that were entered, by the modules that have been imported."""
    return list(_MAKERS)


def make(name: str) -> tuple[ModelProto, dict[str, Any]]:
    """The model and the feeds of an entry, made anew."""
    return _MAKERS[name]()

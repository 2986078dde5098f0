"""What diffs of every kind have in common: a verdict, no truth value, and strict JSON that reads back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pyopnb.ops.displayable import Displayable
from pyopnb.ops.errors import FeedError, sanitize

__all__ = ["DiffBase", "read_back", "written"]

_Diff = TypeVar("_Diff")


class DiffBase(Displayable):
    """What `pyopnb.diff` gives.

    It has no truth value: ``if diff(a, b)`` would be read as "if they differ" by one and as "if they agree" by another.
    """

    __slots__ = ()

    @property
    def verdict(self) -> str:
        """In one word; what words there are depends on what was compared."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        name = type(self).__name__
        article = "an" if name[0] in "AEIO" else "a"
        raise TypeError(f"{article} {name} is neither true nor false. Try: diff(a, b).ok, or .verdict")


def written(found: DiffBase, format: str, version: int, **held: Any) -> str:
    """A diff as strict JSON, with what says how it is to be read."""
    head = {"format": format, "version": version, "verdict": found.verdict, "ok": found.ok}
    return json.dumps({**head, **held}, allow_nan=False)


def read_back(text: str, format: str, version: int, where: str, build: Callable[[Any], _Diff]) -> _Diff:
    """What `written` wrote, built by a function that may raise what wrong JSON makes Python raise.

    Raises
    ------
    FeedError
        The text is something else, or of a later version.
    """
    try:
        held = json.loads(text, parse_constant=_refused)
        if not isinstance(held, dict) or held.get("format") != format:
            raise FeedError(where, expected=f"JSON with format {format}", got=sanitize(text, 80))
        if held.get("version") != version:
            raise FeedError(where, expected=f"version {version}", got=sanitize(held.get("version")), next="a newer pyopnb")
        return build(held)
    except FeedError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        got = sanitize(f"{type(error).__name__}: {error}")
        raise FeedError(where, expected="what to_json wrote", got=got) from None


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")

"""What draws what."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from pyopnb.compare.diffs import Diff
from pyopnb.travel.loaded import Loaded
from pyopnb.views import diffs, kept

__all__ = ["html"]


@singledispatch
def html(thing: Any) -> str:
    """The HTML of anything that is `Drawn`."""
    raise TypeError(f"nothing draws {type(thing).__name__}")


@html.register
def _(thing: Diff) -> str:
    return diffs.page(thing.parts, thing.worst)


@html.register
def _(thing: Loaded) -> str:
    return kept.page(thing)

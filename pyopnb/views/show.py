"""What draws what."""

from __future__ import annotations

import os
from functools import singledispatch
from typing import Any

from onnx import ModelProto

from pyopnb.compare.diffs import Diff
from pyopnb.ops.errors import FeedError, briefly, shown
from pyopnb.views import diffs, models
from pyopnb.views.view import View

__all__ = ["html", "show", "view"]

_SHOWN = "a model, session, trace, result, array, diff, op version, op or the registry"


@briefly
def show(thing: Any, **options: Any) -> View:
    """Draw a thing, as text and as a picture that stays in the saved notebook.

    Parameters
    ----------
    thing : object
        A model, a trace, a result or other arrays by name, an array, what `pyopnb.diff` found, an op, one of its versions, or
        `pyopnb.registry`.
    **options
        What the drawing of that kind of thing takes.

    Returns
    -------
    View
        It shows itself in a notebook, prints as text, and ``save(path)`` writes it as the path ends: ``.html``, ``.svg``,
        ``.png`` or ``.json``.

    Raises
    ------
    FeedError
        Nothing draws such a thing.
    """
    return view(thing, **options)


@singledispatch
def view(thing: Any, **options: Any) -> View:
    """The drawing of anything that can be drawn."""
    raise FeedError("show", expected=_SHOWN, got=shown(type(thing).__name__), next="pyopnb.show(np.asarray(…)) for numbers")


@view.register
def _(thing: View, **options: Any) -> View:
    return view(thing.thing, **options) if options else thing


@view.register(ModelProto)
@view.register(bytes)
@view.register(str)
@view.register(os.PathLike)
def _(thing: Any, **options: Any) -> View:
    return models.drawn(thing, **options)


@view.register
def _(thing: Diff) -> View:
    return View(thing, f"diff: {thing.verdict}", str(thing), diffs.page(thing.parts, thing.worst))


def html(thing: Any) -> str:
    """The HTML of anything that is `Drawn`."""
    return view(thing).body

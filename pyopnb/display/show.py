"""What draws what."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import singledispatch
from inspect import signature
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.models.diff import ModelDiff
from pyopnb.diffs.ops import OpDiff
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.display import array_diff, loaded, model_diff, models, ops, plots, tensors, trace_diff, traces
from pyopnb.display.save import write
from pyopnb.display.view import View
from pyopnb.models.load import Loaded
from pyopnb.ops.errors import FeedError, hide_internal_frames, sanitize, suggest
from pyopnb.ops.registry import Op, Registry, Version
from pyopnb.ops.result import Result
from pyopnb.runtime.session import Session
from pyopnb.runtime.trace.trace import Trace

__all__ = ["html", "plot", "save", "show", "view"]

_SHOWN = "a model, session, trace, result, array, diff, op version, op or the registry"


@hide_internal_frames
def show(thing: Any, **options: Any) -> View:
    """Draw a thing, as text and as a picture that stays in the saved notebook.

    Parameters
    ----------
    thing : object
        A model (ModelProto, path or bytes), a session, a trace, a result or other arrays by name, an array, what `pyopnb.diff`
        found, an op, one of its versions, or `pyopnb.registry`.
    **options
        - of models and whatever has a graph: ``open=True`` opens bodies and functions, ``names=`` and ``shapes=`` show or hide
          the nodes' names and the types, ``colours={output: number}`` and ``marks={output: text}`` colour and mark nodes;
        - of a trace: ``by="time"``, ``"size"`` or ``"std"`` chooses what the colours are;
        - of the diff of two traces: ``model=`` draws that model in the place of the nodes that were compared;
        - of the diff of two models: ``side="a"``, ``"b"`` or ``"both"``;
        - of an array: ``name=``.

    Returns
    -------
    View
        It shows itself in a notebook, prints as text, and ``save(path)`` writes it as the path ends: ``.html``, ``.svg``,
        ``.png`` or ``.json``.

    Raises
    ------
    FeedError
        Nothing draws such a thing.
    TypeError
        It has no such option.

    Examples
    --------
    >>> show(np.float32([[0, 1, 1], [1, 2, 3]]))
    float32[2,3] n=6 x∈[0, 3] ▃▁▁▁▁█▁▁▁▁▃▁▁▁▁▃ μ=1.333 σ=0.9428
    """
    try:
        return view(thing, **options)
    except TypeError as error:
        found = re.search(r"got an unexpected keyword argument '(\w+)'", str(error))
        if found is None or found[1] not in options:
            raise
        known = _options(thing)
        said = f"Try: {suggest(found[1], known)}" if known else "It takes no options"
        raise TypeError(f"show: a {sanitize(type(thing).__name__)} is drawn without {sanitize(found[1])}=. {said}") from None


def _options(thing: Any) -> list[str]:
    """The options of a drawing; a drawing that has a graph in it takes those of graphs as well."""
    if isinstance(thing, (np.ndarray, np.generic)):
        return ["name"]
    own: dict[type, Callable[..., View]] = {Trace: traces.trace, TraceDiff: trace_diff.runs, ModelDiff: model_diff.models}
    graph = isinstance(thing, (ModelProto, bytes, str, os.PathLike, Session, *own))
    drawings = [own.get(type(thing), models.drawn), models.drawn] if graph else []
    every = [one for drawing in drawings for one in signature(drawing).parameters.values()]
    return list(dict.fromkeys(one.name for one in every if one.kind is one.KEYWORD_ONLY))


@singledispatch
def view(thing: Any, **options: Any) -> View:
    """The drawing of anything that can be drawn."""
    raise FeedError("show", expected=_SHOWN, got=sanitize(type(thing).__name__), next="pyopnb.show(np.asarray(…)) for numbers")


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
def _(thing: Session, **options: Any) -> View:
    return models.drawn(thing._source().proto, **options)


@view.register
def _(thing: Loaded) -> View:
    return View(thing, thing.head, repr(thing), loaded.page(thing))


@view.register
def _(thing: Diff) -> View:
    return array_diff.diff(thing)


@view.register(np.ndarray)
@view.register(np.generic)
def _(thing: Any, name: str = "") -> View:
    return tensors.array(thing, name)


@view.register
def _(thing: Result) -> View:
    return tensors.arrays(thing, thing.items(), f"{len(thing)} outputs")


@view.register(dict)
@view.register(list)
@view.register(tuple)
def _(thing: Any) -> View:
    named = thing.items() if isinstance(thing, dict) else enumerate(thing)
    return tensors.arrays(thing, ((str(name), value) for name, value in named), f"{len(thing)} values")


@view.register
def _(thing: Trace, **options: Any) -> View:
    return traces.trace(thing, **options)


@view.register
def _(thing: TraceDiff, **options: Any) -> View:
    return trace_diff.runs(thing, **options)


@view.register
def _(thing: ModelDiff, **options: Any) -> View:
    return model_diff.models(thing, **options)


@view.register
def _(thing: OpDiff) -> View:
    return model_diff.versions(thing)


@view.register
def _(thing: Version) -> View:
    return ops.version(thing)


@view.register
def _(thing: Op) -> View:
    return ops.op(thing)


@view.register
def _(thing: Registry) -> View:
    return ops.every(thing)


def html(thing: Any) -> str:
    """The HTML of anything that is `Drawn`."""
    return view(thing).body


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write anything that is `Drawn` to a file."""
    write(view(thing), path)


def plot(thing: Any) -> Any:
    """A matplotlib ``Figure`` of anything that has one."""
    return plots.figure(view(thing) if isinstance(thing, ModelDiff) else thing)

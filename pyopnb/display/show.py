"""Display dispatch: which function makes the view of what."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import singledispatch
from inspect import signature
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto

from pyopnb.batches.map import Batches
from pyopnb.batches.sweep import Sweep
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.diffs.models.diff import ModelDiff
from pyopnb.diffs.ops import OpDiff
from pyopnb.diffs.profiles import ProfileDiff
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.display import plots
from pyopnb.display.array_diff import view_diff
from pyopnb.display.batches import view_batches
from pyopnb.display.model_diff import view_model_diff, view_op_diff
from pyopnb.display.models import view_model
from pyopnb.display.ops import view_loaded, view_op, view_registry, view_version
from pyopnb.display.profiles import view_profile, view_profile_diff
from pyopnb.display.save import write
from pyopnb.display.sweeps import view_sweep
from pyopnb.display.tensors import view_array, view_arrays
from pyopnb.display.trace_diff import view_trace_diff
from pyopnb.display.traces import view_trace
from pyopnb.display.view import View
from pyopnb.errors import InputError
from pyopnb.models.holders import held_model
from pyopnb.models.load import Loaded
from pyopnb.ops.messages import hide_internal_frames, sanitize, suggest
from pyopnb.ops.op import Op, Version
from pyopnb.ops.registry import Registry
from pyopnb.ops.result import Result
from pyopnb.runtime.session.live_attrs import model_in_use
from pyopnb.runtime.session.session import Session
from pyopnb.traces.profile import Profile
from pyopnb.traces.trace import Trace

__all__ = ["html", "plot", "save", "show", "view"]

_EXPECTED = (
    "a model, session, trace, profile, result, array, diff, sweep, op version, op or the registry"
)


@hide_internal_frames
def show(thing: Any, **options: Any) -> View:
    """Show a thing as text and as a picture that stays in the saved notebook.

    Parameters
    ----------
    thing : object
        A model (ModelProto, path or bytes), a session, a trace, a profile, a result or other arrays by name, an array, a diff,
        an op, a version of an op, or `pyopnb.registry`.
    **options
        - of everything with a graph: ``open=True`` opens bodies and functions, ``names=`` and ``shapes=`` show or hide the
          nodes' names and the types, ``colours={output: number}`` and ``marks={output: text}`` colour and mark nodes,
          ``notes={output: text}`` adds to what a box tells when the mouse is on it;
        - of a trace: ``by="time"``, ``"size"`` or ``"std"`` chooses what the colours mean;
        - of a profile: ``by="time"`` or ``"python"`` does;
        - of a sweep: ``output=`` chooses the output that is drawn;
        - of a diff of two traces: ``model=`` draws that model instead of the nodes that were compared;
        - of a diff of two models: ``side="a"``, ``"b"`` or ``"both"``;
        - of a diff of arrays: ``limits=(low, high)`` of the errors' colours;
        - of arrays and sweeps: ``size=``, the pixels of a picture's longer side; ``limits=(low, high)``, the numbers of the
          first and the last colour, so that pictures can be compared; ``rgb=True`` and ``False``, whether three or four
          channels are one picture, which is decided by shape, dtype and range if it is not said; ``pool="mean"``,
          ``"nearest"`` or ``"largest"``, what a cell shows of several elements; and of a single array ``name=``.

    Returns
    -------
    View
        It shows itself in a notebook and prints as text; ``save(path)`` writes ``.html``, ``.svg``, ``.png`` or ``.json``.

    Raises
    ------
    InputError
        Such a thing cannot be shown.
    InputError
        It does not have that option.

    Examples
    --------
    >>> show(np.float32([[0, 1, 1], [1, 2, 3]]))
    float32[2,3] n=6 x∈[0, 3] ▃▁▁▁▁█▁▁▁▁▃▁▁▁▁▃ μ=1.333 σ=0.9428
    """
    try:
        return view(thing, **options)
    except TypeError as error:
        match = re.search(r"got an unexpected keyword argument '(\w+)'", str(error))
        if match is None or match[1] not in options:
            raise
        known = _options(thing)
        expected = f"one of {', '.join(known)}" if known else "no options"
        where, next_ = (
            f"show, {sanitize(type(thing).__name__)}",
            suggest(match[1], known) if known else None,
        )
        raise InputError(
            where, expected=expected, got=f"{sanitize(match[1])}=", next=next_
        ) from None


@singledispatch
def view(thing: Any, **options: Any) -> View:
    """The view of a thing; which options there are depends on it."""
    held, _ = held_model(thing)
    if held is not thing:
        return view_model(held, **options)
    next_ = (
        "onnx.helper.make_model(graph)"
        if isinstance(thing, GraphProto)
        else "pyopnb.show(np.asarray(…)) for numbers"
    )
    raise InputError("show", expected=_EXPECTED, got=sanitize(type(thing).__name__), next=next_)


def _view_again(thing: View, **options: Any) -> View:
    return view(thing.thing, **options) if options else thing


def _view_session(thing: Session, **options: Any) -> View:
    return view_model(model_in_use(thing._state), **options)


def _view_result(thing: Result, **options: Any) -> View:
    return view_arrays(thing, thing.items(), f"{len(thing)} outputs", **options)


def _view_collection(thing: Any, **options: Any) -> View:
    named = thing.items() if isinstance(thing, dict) else enumerate(thing)
    return view_arrays(
        thing, ((str(name), value) for name, value in named), f"{len(thing)} values", **options
    )


_VIEWS: dict[type, Callable[..., View]] = {
    **dict.fromkeys((ModelProto, bytes, str, os.PathLike), view_model),
    **dict.fromkeys((np.ndarray, np.generic), view_array),
    **dict.fromkeys((dict, list, tuple), _view_collection),
    View: _view_again,
    Session: _view_session,
    Result: _view_result,
    Trace: view_trace,
    Profile: view_profile,
    Sweep: view_sweep,
    Batches: view_batches,
    Diff: view_diff,
    TraceDiff: view_trace_diff,
    ModelDiff: view_model_diff,
    OpDiff: view_op_diff,
    ProfileDiff: view_profile_diff,
    Version: view_version,
    Op: view_op,
    Registry: view_registry,
    Loaded: view_loaded,
}
for _kind, _function in _VIEWS.items():
    view.register(_kind, _function)


def _options(thing: Any) -> list[str]:
    """The names of the options of a thing's view; ``**options`` stands for those of arrays, or of a model's."""
    thing = thing.thing if isinstance(thing, View) else thing
    function = view.dispatch(type(thing))
    options = list(signature(function).parameters.values())
    if any(option.kind is option.VAR_KEYWORD for option in options):
        options += signature(
            view_arrays if function in (_view_result, _view_collection) else view_model
        ).parameters.values()
    return list(
        dict.fromkeys(option.name for option in options if option.default is not option.empty)
    )


def html(thing: Any) -> str:
    """The HTML of a `Displayable`."""
    return view(thing).body


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a `Displayable` to a file."""
    write(view(thing), path)


def plot(thing: Any) -> Any:
    """A matplotlib ``Figure`` of a `Displayable`."""
    return plots.figure(view(thing) if isinstance(thing, (ModelDiff, Sweep)) else thing)

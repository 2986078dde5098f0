"""`pyopnb.show`, and the functions that `Displayable` calls."""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from pyopnb import display
from pyopnb.common import messages
from pyopnb.display.array_look import ArrayLook
from pyopnb.display.model_explorer import explore as explore_view
from pyopnb.display.save import write
from pyopnb.display.views import View, view
from pyopnb.engine import check_arguments
from pyopnb.errors import InputError

__all__ = ["explore", "plot", "save", "show", "to_html"]

# Each module registers its views when it is imported; none of them imports anything heavy.
for _module in pkgutil.iter_modules(display.__path__, "pyopnb.display."):
    if not _module.ispkg and _module.name != __name__:
        import_module(_module.name)


@check_arguments
def show(thing: Any, **options: Any) -> View:
    """Show an object as text, and as a picture that stays in the saved notebook.

    Parameters
    ----------
    thing : object
        A model (ModelProto, path or bytes), a session, a trace, a profile, a result or other
        arrays by name, an array, a diff, a function of a model, an op, a version of an op,
        or `pyopnb.registry`.
    **options
        - for anything with a graph: ``colors={output: number}`` and ``marks={output: text}``
          color and mark nodes, ``notes={output: text}`` adds to the text that a box shows under
          the mouse, and ``around=output`` draws the neighbors of a node before the whole;
        - for a trace: ``by="time"``, ``"size"`` or ``"std"`` chooses the meaning of the colors;
        - for a training: ``log=`` chooses a logarithmic axis for the loss, ``smooth=`` over how
          many batches the loss is averaged, and ``beside={"larger rate": training}`` draws other
          trainings into the same charts;
        - for a sweep: ``output=`` chooses the output to draw;
        - for a diff of arrays: ``limits=(low, high)`` for the colors of the errors, and
          ``names=("before", "now")`` for what a and b are;
        - for a diff of versions: ``verdict=False`` shows the changes alone;
        - for arrays: ``limits=(low, high)`` are the numbers of the first and last color, or the
          ends of a curve's axis, to compare pictures; ``rgb=`` says whether three or four channels
          are one picture, which otherwise depends on shape, dtype and range; ``colors=`` is
          ``"sequential"``, ``"diverging"`` or ``"gray"``; ``log=True`` makes the scale of the
          sizes, or a curve's axis, logarithmic; ``origin="lower"`` puts row 0 below; ``name=``
          names a single array; ``feeds={"x": x}`` draws curves over the one of these arrays that
          rises or falls and has their length; ``picture=`` is the photograph on which boxes
          ``[N,4]`` (left, top, right, bottom) are drawn.

    Returns
    -------
    View
        It displays itself in a notebook and prints as text; ``save(path)`` writes ``.html``,
        ``.svg``, ``.png`` or ``.json``.

    Raises
    ------
    InputError
        Such an object cannot be shown, or it does not have that option.

    Examples
    --------
    >>> import numpy as np
    >>> show(np.float32([[0, 1, 1], [1, 2, 3]]))
    float32[2,3]  0 … 3  mean 1.333, std 0.9428  ▃▁▁▁▁█▁▁▁▁▃▁▁▁▁▃
    """
    try:
        return view(thing, **options)
    except TypeError as error:
        match = re.search(
            r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'", str(error)
        )
        if match is None or match[2] not in options:
            raise
        raise _unknown_option(thing, *match.groups()) from None


def _unknown_option(thing: Any, refused_by: str, option: str) -> InputError:
    """Make the error for an option that a view, or the one that it calls, does not have."""
    known = _options(view.dispatch(type(thing)))
    got = f"{option}="
    owners = []
    for cls, function in view.registry.items():
        if function.__name__ == refused_by:
            known |= _options(function)
        if option in _options(function):
            owners.append(cls.__name__)
    if refused_by == ArrayLook.__name__:
        known |= _options(ArrayLook)
    if owners:
        got += f", an option of {' and '.join(owners)}"
    return InputError(
        f"show, {type(thing).__name__}",
        expected=f"one of {', '.join(known)}" if known else "no options",
        got=got,
        next=messages.closest(option, known) or f"leave {option} out",
    )


def _options(function: Callable[..., Any]) -> dict[str, None]:
    """List the parameters of a view that have a default, in their order."""
    parameters = signature(function).parameters.values()
    return {item.name: None for item in parameters if item.default is not Parameter.empty}


def to_html(thing: Any) -> str:
    """Return the HTML of a `Displayable`."""
    return view(thing).body


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a `Displayable` to a file."""
    write(view(thing), path)


def explore(thing: Any) -> None:
    """Open the graph of a `Displayable` in Model Explorer."""
    explore_view(view(thing))


def plot(thing: Any) -> Any:
    """Draw a `Displayable` as a matplotlib ``Figure``."""
    return view(thing).plot()

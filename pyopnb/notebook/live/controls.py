"""Sliders, boxes and menus for attrs and scalar feeds: which one fits, and what its value means."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np

from pyopnb.ops.errors import FeedError, sanitize
from pyopnb.ops.schema import REQUIRED, Attr
from pyopnb.ops.types import TensorType

__all__ = ["Control", "attr_control", "feed_control"]

_WIDE = {"description_width": "initial"}
_STEPS = 100


@dataclass(frozen=True)
class Control:
    """A widget, and what is made of its value.

    Attributes
    ----------
    name : str
    widget : ipywidgets.Widget
    read : callable
        From the widget's value to that of the attr or feed; raises `FeedError` for a text that means nothing.
    """

    name: str
    widget: Any
    read: Callable[[Any], Any]

    def move(self, value: Any) -> None:
        """Give the widget a value, as a user does with the mouse."""
        if isinstance(self.widget, ipywidgets.FloatSlider):
            self.widget.step = _finer(self.widget.min, float(value), self.widget.step)
        self.widget.value = value

    @property
    def value(self) -> Any:
        return self.read(self.widget.value)

    @property
    def said(self) -> str:
        """What it shows, as text."""
        if isinstance(self.widget, ipywidgets.Dropdown):
            return sanitize(self.widget.label)
        value = self.widget.value
        return f"{value:.6g}" if isinstance(value, float) else sanitize(str(value))


def attr_control(name: str, attr: Attr, now: Any, asked: Any) -> Control:
    """The control of an attr, as the caller asks for it (a range, choices, a value) or as its schema says.

    Raises
    ------
    FeedError
        What was asked for does not fit the attr.
    """
    kind = attr.kind if attr.kind != "any" else _kind_of(now)
    if asked is not None and isinstance(asked, tuple):
        return _slider(name, kind, now, asked)
    if isinstance(asked, list) and not kind.startswith("list"):
        return _menu(name, asked, now)
    if asked is not None:
        now = asked
    if attr.choices:
        return _menu(name, list(attr.choices), now)
    if now is REQUIRED or now is None:
        raise _unfit(name, f"a value of kind {kind}", "nothing")
    return _box(name, kind, now)


def feed_control(name: str, kind: TensorType, asked: Any) -> Control:
    """The control of a feed that is one number, bool or text.

    Raises
    ------
    FeedError
        The model's input is no scalar, or what was asked for does not fit it.
    """
    if kind.dtype is None or (kind.shape is not None and any(dim not in (1, None) for dim in kind.shape)):
        next = f"interact(session, {sanitize(name)}=np.asarray(…))"
        raise _unfit(name, f"an array, as the input is {kind}", sanitize(repr(asked)), next)
    number = np.dtype(kind.dtype.numpy).kind
    word = "bool" if number == "b" else "str" if kind.dtype.name == "string" else "int" if number in "iu" else "float"
    if isinstance(asked, tuple):
        made = _slider(name, word, None, asked)
    elif isinstance(asked, list):
        made = _menu(name, asked, asked[0] if asked else None)
    else:
        made = _box(name, word, asked)
    shape = (1,) * len(kind.shape or ())
    dtype = object if word == "str" else kind.dtype.numpy

    def read(value: Any) -> np.ndarray:
        return np.full(shape, made.read(value), dtype)

    return Control(name, made.widget, read)


def _kind_of(value: Any) -> str:
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(type(value), "list" if isinstance(value, list) else "any")


def _unfit(name: str, expected: str, got: str, next: str = "") -> FeedError:
    next = next or f"interact(session, {sanitize(name)}=(0.0, 1.0))"
    return FeedError(f"interact, {sanitize(name)}", expected=expected, got=got, next=next)


# ---- kinds of widgets --------------------------------------------------------------------------------------------------------


def _slider(name: str, kind: str, now: Any, asked: tuple[Any, ...]) -> Control:
    ends = all(isinstance(end, (int, float)) and not isinstance(end, bool) and math.isfinite(end) for end in asked)
    if kind not in ("int", "float") or len(asked) not in (2, 3) or not ends or not asked[0] < asked[1]:
        expected = "(lowest, highest) or (lowest, highest, step)" if kind in ("int", "float") else f"a value of kind {kind}"
        raise _unfit(name, expected, sanitize(repr(asked)))
    low, high = asked[0], asked[1]
    inside = now if isinstance(now, (int, float)) and low <= now <= high else (low + high) / 2
    if kind == "int":
        if any(int(end) != end for end in asked):
            raise _unfit(
                name, "whole numbers", sanitize(repr(asked)), f"{sanitize(name)}=({math.floor(low)}, {math.ceil(high)})"
            )
        whole = int(asked[2]) if len(asked) == 3 else 1
        widget = ipywidgets.IntSlider(int(inside), int(low), int(high), whole, description=name, style=_WIDE)
        return Control(name, widget, int)
    inside, step = float(inside), float(asked[2]) if len(asked) == 3 else _step(low, high)
    widget = ipywidgets.FloatSlider(
        inside,
        min=float(low),
        max=float(high),
        step=_finer(low, inside, step),
        description=name,
        style=_WIDE,
        readout_format=".4g",
    )
    return Control(name, widget, float)


def _step(low: float, high: float) -> float:
    """A power of ten, so that what people type is on the slider."""
    return float(10.0 ** math.floor(math.log10((high - low) / _STEPS)))


def _finer(low: float, value: float, step: float) -> float:
    """A step that the value is on: a browser moves what is between two steps, and sends it back as if somebody had moved it."""
    for digits in range(6):
        finer = step / 10.0**digits
        places = (value - low) / finer
        if abs(places - round(places)) < 1e-6:
            return finer
    return step / 10.0**6


def _menu(name: str, choices: list[Any], now: Any) -> Control:
    if not choices:
        raise _unfit(name, "a list of choices", "an empty list")
    place = choices.index(now) if now in choices else 0
    rows = [(str(choice), place) for place, choice in enumerate(choices)]
    widget = ipywidgets.Dropdown(options=rows, value=place, description=name, style=_WIDE)
    return Control(name, widget, lambda place: choices[place])


def _box(name: str, kind: str, now: Any) -> Control:
    held: dict[str, Any] = {"description": name, "style": _WIDE}
    try:
        if kind == "bool":
            return Control(name, ipywidgets.Checkbox(bool(now), **held), bool)
        if kind == "int":
            return Control(name, ipywidgets.IntText(int(now), **held), int)
        if kind == "float":
            return Control(name, ipywidgets.FloatText(float(now), **held), float)
        if kind == "str":
            return Control(name, ipywidgets.Text(str(now), continuous_update=False, **held), str)
        if kind.startswith("list"):
            widget = ipywidgets.Text(json.dumps(list(now)), continuous_update=False, **held)
            return Control(name, widget, lambda text: _listed(name, text))
    except (TypeError, ValueError):
        raise _unfit(name, f"a value of kind {kind}", sanitize(repr(now))) from None
    raise _unfit(name, "an attr that is a number, bool, text or list of them", kind, f"session.set_attrs({sanitize(name)}=…)")


def _listed(name: str, text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise _unfit(name, "a list", sanitize(text), "[1, 2, 3]")
    return values

"""Sliders, boxes and menus for attrs and scalar feeds: which widget fits, and how its value is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets
import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.messages import sanitize
from pyopnb.ops.schema import REQUIRED, Attr
from pyopnb.ops.types import TensorType

__all__ = ["Control", "attr_control", "feed_control"]

_STYLE = {"description_width": "initial"}
_STEPS = 100
_ANY_NUMBER = (-math.inf, math.inf)
# A browser's integers end at 2**53.
_MOST_ON_A_SLIDER = 1e15


@dataclass(frozen=True)
class Control:
    """A widget, and how its value becomes that of an attr or feed.

    Attributes
    ----------
    name : str
    widget : ipywidgets.Widget
    read : callable
        Converts the widget's value; raises `InputError` for text that cannot be parsed.
    grows : bool
        Whether it is a slider whose range nobody asked for.
    """

    name: str
    widget: Any
    read: Callable[[Any], Any]
    grows: bool = False

    def move(self, value: Any) -> None:
        """Set the widget, as a user does with the mouse; a range that nobody asked for grows."""
        if self.grows:
            self.widget.min, self.widget.max = (
                min(value, self.widget.min),
                max(value, self.widget.max),
            )
        if isinstance(self.widget, ipywidgets.FloatSlider):
            self.widget.step = _step_through(self.widget.min, float(value), self.widget.step)
        self.widget.value = value

    @property
    def value(self) -> Any:
        return self.read(self.widget.value)

    @property
    def text(self) -> str:
        """Return the displayed value."""
        if isinstance(self.widget, ipywidgets.Dropdown):
            return sanitize(self.widget.label)
        value = self.widget.value
        if isinstance(value, float):
            return f"{value:.6g}"
        return sanitize(str(value))


def attr_control(name: str, attr: Attr, current: Any, request: Any) -> Control:
    """Make the control of an attr, as the caller requests it (a range, choices, a value) or as its schema suggests.

    Raises
    ------
    InputError
        The request does not fit the attr.
    """
    if attr.kind != "any":
        value_type = attr.kind
    else:
        value_type = _kind_of(current)
    if isinstance(request, tuple):
        return _slider(name, value_type, current, request)
    if isinstance(request, list) and not value_type.startswith("list"):
        return _menu(name, request, current)
    if request is not None:
        current = request
    # An attr with a known set of values is a menu, whatever its type.
    if attr.choices:
        return _menu(name, list(attr.choices), current)
    if current is REQUIRED or current is None:
        raise _refusal(name, f"a value of kind {value_type}", "nothing")
    return _box(name, value_type, current)


def feed_control(name: str, type: TensorType, request: Any) -> Control:
    """Make the control of a feed that is a single number, bool or text.

    Raises
    ------
    InputError
        The model's input is not a scalar, or the request does not fit it.
    """
    if type.dtype is None or (
        type.shape is not None and any(dim not in (1, None) for dim in type.shape)
    ):
        next = f"interact(session, {sanitize(name)}=np.asarray(…))"
        raise _refusal(
            name, f"an array, because the input is {type}", sanitize(repr(request)), next
        )
    # NumPy's letter of the dtype decides between a box, a text and a slider.
    code = np.dtype(type.dtype.numpy).kind
    if code == "b":
        value_type = "bool"
    elif type.dtype.name == "string":
        value_type = "str"
    elif code in "iu":
        value_type = "int"
    else:
        value_type = "float"
    if isinstance(request, tuple):
        control = _slider(name, value_type, None, request)
    elif isinstance(request, list):
        control = _menu(name, request, request[0] if request else None)
    else:
        if code in "iu":
            limits = np.iinfo(type.dtype.numpy)
        else:
            limits = None
        control = _box(
            name, value_type, request, (int(limits.min), int(limits.max)) if limits else _ANY_NUMBER
        )
    # A model may declare a single number as an array of one element.
    shape = (1,) * len(type.shape or ())
    dtype: Any = type.dtype.numpy
    if value_type == "str":
        dtype = object
    return Control(name, control.widget, lambda value: np.full(shape, control.read(value), dtype))


def _kind_of(value: Any) -> str:
    kinds: dict[Any, str] = {bool: "bool", int: "int", float: "float", str: "str", list: "list"}
    return kinds.get(type(value), "any")


def _refusal(name: str, expected: str, got: str, next: str = "") -> InputError:
    next = next or f"interact(session, {sanitize(name)}=(0.0, 1.0))"
    return InputError(f"interact, {sanitize(name)}", expected=expected, got=got, next=next)


# ---- widgets -----------------------------------------------------------------------------------------------------------------


def _slider(name: str, kind: str, current: Any, request: tuple[Any, ...]) -> Control:
    finite = all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x)
        for x in request
    )
    if (
        kind not in ("int", "float")
        or len(request) not in (2, 3)
        or not finite
        or not request[0] < request[1]
    ):
        if kind in ("int", "float"):
            expected = "(min, max) or (min, max, step)"
        else:
            expected = f"a value of kind {kind}"
        raise _refusal(name, expected, sanitize(repr(request)))
    # A value outside the range could not be shown, so the control begins in the middle then.
    low, high, *steps = request
    if isinstance(current, (int, float)) and low <= current <= high:
        value = current
    else:
        value = (low + high) / 2
    if kind == "int":
        if any(int(x) != x for x in request):
            next = f"{sanitize(name)}=({math.floor(low)}, {math.ceil(high)})"
            raise _refusal(name, "integers", sanitize(repr(request)), next)
        if steps:
            whole_step = int(steps[0])
        else:
            whole_step = 1
        widget = ipywidgets.IntSlider(
            int(value), int(low), int(high), whole_step, description=name, style=_STYLE
        )
        return Control(name, widget, int)
    # A power of ten by default, so that values people type are on the slider.
    if steps:
        step = float(steps[0])
    else:
        step = 10.0 ** math.floor(math.log10((high - low) / _STEPS))
    widget = ipywidgets.FloatSlider(
        float(value),
        min=float(low),
        max=float(high),
        step=_step_through(low, float(value), step),
        description=name,
        style=_STYLE,
        readout_format=".4g",
    )
    return Control(name, widget, float)


def _range_around(value: float) -> tuple[float, float]:
    """Choose a range as ``ipywidgets.interact`` does: twice the number's size to both sides; for 0, up to 1."""
    low, high = sorted((-value, 3 * value))
    if low < high:
        return (low, high)
    return (type(value)(0), type(value)(1))


def _step_through(low: float, value: float, step: float) -> float:
    """Refine the step until it reaches a value: a browser snaps other values and reports that as the user's move."""
    # Decimal steps, as people type decimal numbers.
    for digits in range(6):
        finer = step / 10.0**digits
        steps = (value - low) / finer
        if abs(steps - round(steps)) < 1e-6:
            return finer
    return step / 10.0**6


def _menu(name: str, choices: list[Any], current: Any) -> Control:
    if not choices:
        raise _refusal(name, "a list of choices", "an empty list")
    if current in choices:
        selected = choices.index(current)
    else:
        selected = 0
    options = [(str(choice), index) for index, choice in enumerate(choices)]
    widget = ipywidgets.Dropdown(options=options, value=selected, description=name, style=_STYLE)
    return Control(name, widget, lambda index: choices[index])


def _box(name: str, kind: str, current: Any, bounds: tuple[float, float] = _ANY_NUMBER) -> Control:
    common: dict[str, Any] = {"description": name, "style": _STYLE}
    try:
        if kind == "bool":
            return Control(name, ipywidgets.Checkbox(bool(current), **common), bool)
        if kind in ("int", "float"):
            number: float = int(current) if kind == "int" else float(current)
            if math.isfinite(number) and abs(number) <= _MOST_ON_A_SLIDER:
                low, high = _range_around(number)
                return replace(
                    _slider(name, kind, number, (max(low, bounds[0]), min(high, bounds[1]))),
                    grows=True,
                )
            if kind == "int":
                widget_of = ipywidgets.IntText
            else:
                widget_of = ipywidgets.FloatText
            return Control(name, widget_of(number, **common), type(number))
        if kind == "str":
            return Control(
                name, ipywidgets.Text(str(current), continuous_update=False, **common), str
            )
        if kind.startswith("list"):
            widget = ipywidgets.Text(json.dumps(list(current)), continuous_update=False, **common)
            return Control(name, widget, lambda text: _parse_list(name, text))
    except (TypeError, ValueError):
        raise _refusal(name, f"a value of kind {kind}", sanitize(repr(current))) from None
    raise _refusal(
        name,
        "an attr that is a number, bool, text or list of them",
        kind,
        f"session.set_attrs({sanitize(name)}=…)",
    )


def _parse_list(name: str, text: str) -> list[Any]:
    try:
        # JSON and not Python, as what is typed into a page must not be run.
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise _refusal(name, "a list", sanitize(text), "[1, 2, 3]")
    return values

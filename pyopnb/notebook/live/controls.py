"""Choose a slider, box or menu for an attr or a scalar feed, and read its value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets
import numpy as np

from pyopnb.common import sanitize
from pyopnb.engine import TensorType, op_schema
from pyopnb.errors import InputError

__all__ = ["Control", "attr_control", "feed_control", "named_widget"]

_STEPS = 100
_ANY_NUMBER = (-math.inf, math.inf)
# A browser's integers end at 2**53.
_MOST_ON_A_SLIDER = 1e15
_NUMBERS: Mapping[str, Callable[[Any], float]] = {"int": int, "float": float}
# A browser adds steps up, which gives 3.0000000000000004.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": lambda moved: float(f"{moved:.12g}"),
}
_KINDS = {"b": "bool", "i": "int", "u": "int"}


@dataclass(frozen=True)
class Control:
    """A widget, and a function that converts its value for an attr or feed.

    Attributes
    ----------
    widget : ipywidgets.Widget
    read : callable
        Converts the widget's value; raises `InputError` for text that cannot be parsed.
    grows : bool
        Whether it is a slider with a default range.
    """

    name: str
    widget: Any
    read: Callable[[Any], Any]
    grows: bool = False

    def move(self, value: Any) -> None:
        """Set the widget as a user does with the mouse, and widen a default range."""
        if self.grows:
            self.widget.min = min(value, self.widget.min)
            self.widget.max = max(value, self.widget.max)
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
        return f"{value:.6g}" if isinstance(value, float) else sanitize(str(value))


def attr_control(name: str, attr: op_schema.Attr, current: Any, request: Any) -> Control:
    """Make the control of an attr.

    A request is a range, choices or a value; without one, the attr's schema and value decide.

    Raises
    ------
    InputError
        The request does not fit the attr.
    """
    kind = attr.kind if attr.kind != "any" else type(current).__name__
    if attr.choices and not isinstance(request, (tuple, list)):
        return _menu(name, list(attr.choices), current if request is None else request)
    if request is None and (current is op_schema.REQUIRED or current is None):
        raise _refusal(name, f"a value of kind {kind}", "nothing")
    return _control(name, kind, current, request)


def feed_control(name: str, type: TensorType, request: Any) -> Control:
    """Make the control of a feed that is a single number, bool or text.

    Raises
    ------
    InputError
        The model's input is not a scalar, or the request does not fit it.
    """
    shape = type.shape or ()
    if type.dtype is None or any(size not in (1, None) for size in shape):
        expected = f"an array, because the input is {type}"
        next_ = f"interact(session, {sanitize(name)}=np.asarray(…))"
        raise _refusal(name, expected, sanitize(repr(request)), next_)
    dtype: Any = np.dtype(type.dtype.numpy)
    kind = _KINDS.get(dtype.kind, "float")
    bounds = _ANY_NUMBER
    if kind == "int":
        limits = np.iinfo(dtype)
        bounds = (int(limits.min), int(limits.max))
    if type.dtype.name == "string":
        kind, dtype = "str", object
    control = _control(name, kind, None, request, bounds)
    # A model may declare a single number as an array of one element.
    ones = (1,) * len(shape)
    return replace(control, read=lambda value: np.full(ones, control.read(value), dtype))


def _control(
    name: str, kind: str, current: Any, request: Any, bounds: tuple[float, float] = _ANY_NUMBER
) -> Control:
    """Make the control for a range, a list of choices, or a value."""
    if isinstance(request, tuple):
        return _slider(name, kind, current, request)
    if isinstance(request, list) and not kind.startswith("list"):
        return _menu(name, request, current)
    value = current if request is None else request
    try:
        if kind == "bool":
            return Control(name, named_widget("Checkbox", name, bool(value)), bool)
        if kind in _NUMBERS:
            return _number(name, kind, _NUMBERS[kind](value), bounds)
        if kind == "str":
            return Control(
                name, named_widget("Text", name, str(value), continuous_update=False), str
            )
        if kind.startswith("list"):
            text = named_widget("Text", name, json.dumps(list(value)), continuous_update=False)
            return Control(name, text, lambda typed: _parse_list(name, typed))
    except (TypeError, ValueError):
        raise _refusal(name, f"a value of kind {kind}", sanitize(repr(value))) from None
    expected = "an attr that is a number, bool, text or list of them"
    raise _refusal(name, expected, kind, f"session.set_attrs({sanitize(name)}=…)")


def named_widget(kind: str, name: str, value: Any, **options: Any) -> Any:
    """Make a widget with its name beside it."""
    return getattr(ipywidgets, kind)(value=value, description=name, **options)


def _refusal(name: str, expected: str, got: str, next: str = "") -> InputError:
    next = next or f"interact(session, {sanitize(name)}=(0.0, 1.0))"
    return InputError(f"interact, {name}", expected=expected, got=got, next=next)


def _number(name: str, kind: str, number: float, bounds: tuple[float, float]) -> Control:
    """Make a slider that ends at three times the number, within the dtype's limits.

    It begins at zero, or at one where the number counts something: sizes, axes and limits of the
    other sign make ops fail. A number that is infinite, NaN or too large for a slider gets a box.
    """
    if not math.isfinite(number) or abs(number) > _MOST_ON_A_SLIDER:
        return Control(name, named_widget(f"{kind.title()}Text", name, number), _NUMBERS[kind])
    first = 1 if kind == "int" and number > 1 else 0
    low, high = sorted((first, 3 * number)) if number else (0, 1)
    ends = (max(low, bounds[0]), min(high, bounds[1]))
    return replace(_slider(name, kind, number, ends), grows=True)


def _slider(name: str, kind: str, current: Any, request: tuple[Any, ...]) -> Control:
    wanted = (int,) if kind == "int" else (int, float)
    is_number = [isinstance(x, wanted) and abs(x) < math.inf for x in request]
    is_range = kind in _NUMBERS and len(request) in (2, 3) and all(is_number)
    if not is_range or not request[0] < request[1] or not all(step > 0 for step in request[2:]):
        expected = f"{kind}s: (min, max) or (min, max, step) with min < max and step > 0"
        raise _refusal(name, expected, sanitize(repr(request)))
    low, high = request[:2]
    # A value outside the range could not be shown, so the control begins in the middle then.
    value = (low + high) / 2
    if isinstance(current, (int, float)) and low <= current <= high:
        value = current
    options = {"min": low, "max": high}
    if kind == "int":
        options["step"] = request[2] if request[2:] else 1
    else:
        # A power of ten by default, so that values people type are on the slider.
        step = request[2] if request[2:] else 10.0 ** math.floor(math.log10((high - low) / _STEPS))
        options |= {"step": _step_through(low, value, step), "readout_format": ".4g"}
    number = _NUMBERS[kind]
    widget = named_widget(f"{kind.title()}Slider", name, number(value), **options)
    return Control(name, widget, _READERS[kind])


def _step_through(low: float, value: float, step: float) -> float:
    """Refine the step until it reaches a value.

    A browser moves a slider to the nearest step and reports that as the user's move.
    """
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
    selected = choices.index(current) if current in choices else 0
    options = [(str(choice), index) for index, choice in enumerate(choices)]
    widget = named_widget("Dropdown", name, selected, options=options)
    return Control(name, widget, choices.__getitem__)


def _parse_list(name: str, text: str) -> list[Any]:
    try:
        # JSON and not Python, because text that is typed into a page must not run as code.
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise _refusal(name, "a list", sanitize(text), "[1, 2, 3]")
    return values

"""Arguments of public functions, checked by the functions' own annotations before anything is done with them.

The annotation of a parameter says what it takes, mypy holds the callers in this package to it, and this module those in
notebooks. What an annotation cannot say (a size, an op that is there) the functions check themselves.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from pyopnb.errors import InputError
from pyopnb.ops.messages import closest, sanitize

__all__ = ["check_arguments", "check_by_name", "describe", "is_path", "is_text"]

_SHOWN = (str, bytes, int, float, complex, list, tuple, dict, set, os.PathLike)  # by their repr

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def check_arguments(
    function: Callable[_Arguments, _Returned],
    *,
    but: Collection[str] = (),
    advice: Mapping[str, str] | None = None,
) -> Callable[_Arguments, _Returned]:
    """Decorate a public function so that an argument of another kind than its annotation is an `InputError`.

    Parameters
    ----------
    function : callable
        Its annotations are text (``from __future__ import annotations``); one that `_RULES` does not have is not checked.
    but : collection of str
        Parameters that the function checks itself, as it has more to say.
    advice : mapping of str to str, optional
        What to type instead of a wrong argument, by its name. Names that other libraries have are keys as well.

    Returns
    -------
    callable

    Examples
    --------
    >>> @check_arguments
    ... def halve(path: str | os.PathLike[str], times: int = 1): ...
    >>> halve("x", times=1.5)
    Traceback (most recent call last):
        ...
    pyopnb.errors.InputError: halve, times: expected a whole number, got float 1.5. Try: times=1
    """
    # All that can be known beforehand is found here, once; a call costs a look-up an argument.
    signature = _Signature(function, but, advice or {})

    @functools.wraps(function)
    def wrapper(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        __tracebackhide__ = True
        signature.check_count(args)
        for position, value in enumerate(args):
            signature.check(signature.name_at(position), value)
        signature.check_names(len(args), kwargs)
        for name, value in kwargs.items():
            signature.check(name, value)
        return function(*args, **kwargs)

    return wrapper


class _Signature:
    """The parameters of a public function, and what each of them takes."""

    def __init__(
        self, function: Callable[..., Any], but: Collection[str], advice: Mapping[str, str]
    ) -> None:
        # A constructor is called by the name of its class.
        owner = function.__qualname__.split(".")
        self.where = owner[-2] if owner[-1] == "__init__" else owner[-1]
        self.advice = advice
        self.names = inspect.signature(function).parameters
        self.positional: list[str] = []
        self.required: list[str] = []
        self.keyword_only: list[str] = []
        self.variadic = ""
        self.takes_any_name = False
        self.rules: dict[str, _Rule] = {}
        for name, parameter in self.names.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.takes_any_name = True
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.variadic = name
            elif parameter.kind is not parameter.KEYWORD_ONLY:
                self.positional.append(name)
                if parameter.default is parameter.empty:
                    self.required.append(name)
            else:
                self.keyword_only.append(name)
            # Annotations are texts here, as the modules postpone them. One without a rule takes anything.
            rule = _RULES.get(str(parameter.annotation))
            if rule is not None and name not in but:
                self.rules[name] = rule

    def name_at(self, position: int) -> str:
        return self.positional[position] if position < len(self.positional) else self.variadic

    def check(self, name: str, value: object) -> None:
        """Refuse an argument of another kind than its annotation."""
        __tracebackhide__ = True
        rule = self.rules.get(name)
        if rule is not None and not rule.accepts(value):
            raise InputError(
                f"{self.where}, {name}",
                expected=rule.expected,
                got=describe(value),
                next=self.advice.get(name) or rule.advice(name, value),
            )

    def check_count(self, args: Sequence[object]) -> None:
        """Refuse more arguments by position than there are; those behind ``*`` are given by name."""
        __tracebackhide__ = True
        count = len(self.positional)
        if self.variadic or len(args) <= count:
            return
        # A method's or constructor's object is none of the arguments that people count.
        is_method = bool(self.positional) and self.positional[0] == "self"
        most = count - 1 if is_method else count
        advice = None
        if self.keyword_only:
            surplus = (
                sanitize(repr(args[count]), 40) if isinstance(args[count], _SHOWN) else "value"
            )
            advice = f"{self.keyword_only[0]}={surplus}"
        raise InputError(
            self.where,
            expected=f"{_counted(most)} without a name",
            got=str(most + len(args) - count),
            next=advice,
        )

    def check_names(self, count: int, names: Collection[str]) -> None:
        """Refuse names that no parameter has, and a call without a value that it needs."""
        __tracebackhide__ = True
        for name in names:
            if name not in self.names and not self.takes_any_name:
                close = closest(name, self.names)
                advice = self.advice.get(name) or close
                got = f"{sanitize(name, 60)}="
                raise InputError(self.where, expected="one of its parameters", got=got, next=advice)
        # Those before were given by position.
        for name in self.required[count:]:
            if name not in names:
                rule = self.rules.get(name)
                expected = "a value" if rule is None else rule.expected
                where = f"{self.where}, {name}"
                raise InputError(where, expected=expected, got="none", next=self.advice.get(name))


def _counted(count: int) -> str:
    if count == 0:
        return "no argument"
    return "at most one argument" if count == 1 else f"at most {count} arguments"


def describe(value: object) -> str:
    """Describe a value for a message: its type, and its repr where that is short.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> describe("x"), describe(None), describe(np.zeros(3))
    ("str 'x'", 'None', 'an array of float64')
    """
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, type):
        return f"the class {sanitize(value.__name__, 60)}"
    name = sanitize(type(value).__name__, 60)
    # The repr of any other object can be long, slow or the user's own code.
    if not isinstance(value, _SHOWN):
        return f"an object of {name}"
    try:
        return f"{name} {sanitize(repr(value), 60)}"
    except ValueError:  # an int of more digits than Python prints
        return name


def is_text(value: object) -> bool:
    """Tell whether a value is a str that UTF-8 can encode: no file and no model holds a lone surrogate.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_by_name(value: object, where: str, next: str) -> None:
    """Refuse a value that is not a mapping with names as keys.

    Parameters
    ----------
    value : object
    where : str
    next : str
        What to type.

    Raises
    ------
    InputError
    """
    if not _is_by_name(value):
        raise InputError(where, expected=_BY_NAME.expected, got=describe(value), next=next)


# ---- kinds -------------------------------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """What an annotation takes, in words and as a function, and what to type where it does not."""

    expected: str
    accepts: Callable[[Any], bool]
    advice: Callable[[str, Any], str | None] = lambda name, value: None


def _is_flag(value: object) -> bool:
    # 0 and 1 as well, as people write them who come from C.
    return isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1))


def _is_int(value: object) -> bool:
    # A bool is no number, and an array of one element no index, although Python takes both.
    if isinstance(value, (bool, np.bool_, np.ndarray)):
        return False
    try:
        return -(2**63) <= operator.index(value) < 2**63  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return False


def is_path(value: object) -> bool:
    """Tell whether a value is a path that the system can look up.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    if not isinstance(value, (str, os.PathLike)):
        return False
    path = os.fspath(value)
    try:
        return isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _are_texts(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and all(map(is_text, value.tolist()))
    if isinstance(value, (str, bytes)):
        return is_text(value)
    return isinstance(value, Collection) and all(map(is_text, value))


def _is_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(is_text, value))


def _whole(name: str, value: object) -> str | None:
    return f"{name}={int(value)}" if isinstance(value, float) and math.isfinite(value) else None


def _decoded(name: str, value: object) -> str:
    return f"os.fsdecode({name})" if isinstance(value, bytes) else '"folder/file"'


def _unpacked(name: str, value: object) -> str | None:
    if not isinstance(value, (list, tuple)) or not value or not all(map(is_text, value)):
        return None
    return sanitize(", ".join(map(repr, value)), 60)


def _listed(name: str, value: object) -> str | None:
    if isinstance(value, bytes):
        return f"[{sanitize(repr(value.decode(errors='replace')), 60)}]"
    # A generator has names that may be right.
    is_generator = isinstance(value, Iterable) and not isinstance(value, (Collection, np.ndarray))
    return "list(…)" if is_generator else '["x"]'


def _optional(rule: _Rule) -> _Rule:
    def accepts(value: object) -> bool:
        return value is None or rule.accepts(value)

    return _Rule(f"{rule.expected}, or None", accepts, rule.advice)


_FLAG = _Rule("True or False", _is_flag, lambda name, value: f"{name}=True")
_INT = _Rule("a whole number", _is_int, _whole)
_TEXT = _Rule("str", is_text, _unpacked)
_PATH = _Rule("a path", is_path, _decoded)
_TEXTS = _Rule("names", _are_texts, _listed)
_BY_NAME = _Rule("a dict with names as keys", _is_by_name)
_CALLABLE = _Rule("a function", callable)
_ITEMS = _Rule(
    "a list", lambda value: isinstance(value, Iterable) and not isinstance(value, (str, bytes))
)

_RULES: dict[str, _Rule] = {
    "bool": _FLAG,
    "bool | None": _optional(_FLAG),
    "int": _INT,
    "int | None": _optional(_INT),
    # Tolerances, whose values `diff` checks itself: True has a meaning there.
    "float | None": _Rule("a number, or None", lambda value: not isinstance(value, np.ndarray)),
    "str": _TEXT,
    "str | None": _optional(_TEXT),
    "str | os.PathLike[str]": _PATH,
    "str | os.PathLike[str] | None": _optional(_PATH),
    "Sequence[str] | str": _TEXTS,
    "str | Sequence[str] | None": _optional(_TEXTS),
    "Sequence[Any]": _ITEMS,
    "Mapping[str, Any] | None": _optional(_BY_NAME),
    "Callable[[Seen], object]": _Rule(
        "a function of one argument, a Seen", callable, lambda name, value: "print"
    ),
    "Callable[[Result], Any] | None": _optional(_CALLABLE),
    "Callable[[Version], None]": _CALLABLE,
    "Callable[[str], None] | None": _optional(_CALLABLE),
    "Callable[[list[Any], Any, str], Any]": _CALLABLE,
}
"""What is checked, by annotation."""

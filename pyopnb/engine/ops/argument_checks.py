"""Check the arguments of public functions by the functions' own annotations.

The annotation of a parameter says what it takes. mypy holds the callers in this package to it, and
this module holds callers in notebooks to it, before the function begins. What an annotation cannot
say (a size, an op that is there) the functions check themselves.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pyopnb.common import messages, sanitize
from pyopnb.errors import InputError

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
    """Decorate a public function to refuse arguments of another kind than their annotations.

    The traceback of a `PyopError` then ends at the user's own line, see `hide_internal_frames`.

    Parameters
    ----------
    function : callable
        Its annotations are text (``from __future__ import annotations``); one that `_RULES` does
        not have is not checked.
    but : collection of str
        Parameters that the function checks itself, as it has more to say.
    advice : mapping of str to str, optional
        What to type instead of a wrong argument, by its name. Keys can also be names from other
        libraries.

    Examples
    --------
    >>> @check_arguments
    ... def halve(path: str | os.PathLike[str], times: int = 1): ...
    >>> halve("x", times=1.5)
    Traceback (most recent call last):
        ...
    pyopnb.errors.InputError: halve, times: expected a whole number, got float 1.5.
    """
    signature = inspect.signature(function)
    owner = function.__qualname__.split(".")
    # A constructor is called by the name of its class.
    where = owner[-2] if owner[-1] == "__init__" else owner[-1]
    remedies = advice or {}
    rules = {}
    for name, parameter in signature.parameters.items():
        rule = _RULES.get(str(parameter.annotation))
        if rule is not None and name not in but:
            variadic = parameter.kind is parameter.VAR_POSITIONAL
            rules[name] = (*rule, variadic)

    kinds = {parameter.kind for parameter in signature.parameters.values()}
    # Beside **attrs, an attr may have the name of such a parameter; `bind` refused it before
    # Python 3.13.
    unnamed: Collection[str] = ()
    if inspect.Parameter.VAR_KEYWORD in kinds:
        unnamed = [
            name
            for name, parameter in signature.parameters.items()
            if parameter.kind is parameter.POSITIONAL_ONLY
        ]
    # Functions that take feeds by name.
    options: Collection[str] = ()
    if "named" in signature.parameters:
        options = [
            name
            for name, parameter in signature.parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]

    @messages.hide_internal_frames
    @functools.wraps(function)
    def wrapper(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        __tracebackhide__ = True
        by_name = {name: value for name, value in kwargs.items() if name not in unnamed}
        try:
            arguments = signature.bind(*args, **by_name).arguments
        except TypeError as error:
            remedy = _suggest_call(where, signature, kwargs, remedies)
            raise InputError(f"{where}: {sanitize(error)}", next=remedy) from None
        for name in options:
            if name in kwargs and _is_feed(kwargs[name]):
                raise InputError(
                    f"{where}, {name}",
                    expected="an option (a feed of that name goes into one dict of all feeds)",
                    got=describe(kwargs[name]),
                    next=f'{{"{name}": {name}}}',
                )
        for name, (expected, accepts, is_variadic) in rules.items():
            if name not in arguments:
                continue
            for value in arguments[name] if is_variadic else (arguments[name],):
                if not accepts(value):
                    raise InputError(
                        f"{where}, {name}",
                        expected=expected,
                        got=describe(value),
                        next=remedies.get(name),
                    )
        return function(*args, **kwargs)

    return wrapper


def _suggest_call(
    where: str, signature: inspect.Signature, kwargs: Collection[str], remedies: Mapping[str, str]
) -> str | None:
    """Suggest what to type for an unknown keyword, or else the call with its required arguments."""
    for name in kwargs:
        if name in signature.parameters:
            continue
        remedy = remedies.get(name)
        if remedy is None and name in ("tol", "tolerance") and "rtol" in signature.parameters:
            remedy = "rtol=1e-5"
        remedy = remedy or messages.closest(name, signature.parameters)
        # A session takes feeds by their names; these functions take them in a dict.
        if remedy is None and "feeds" in signature.parameters:
            remedy = f'{{"{name}": {name}}}'
        return remedy or f"leave {sanitize(name)} out"
    needed = []
    for name, parameter in signature.parameters.items():
        if parameter.default is parameter.empty and name != "self":
            # Without its annotation: the name, or with its one or two asterisks.
            bare = parameter.replace(annotation=parameter.empty)
            needed.append(str(bare))
    return f"{where}({', '.join(needed)})"


def _is_feed(value: object) -> bool:
    """Tell whether a value can only be a feed: an array, or a list of numbers or arrays."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, (int, float)) or _is_feed(item) for item in value)
    return hasattr(value, "__array__") and not isinstance(value, np.generic)


def describe(value: object) -> str:
    """Describe a value for a message: its type, and its repr where that is short.

    Examples
    --------
    >>> describe(None), describe(1.5), describe(np.zeros(3)), describe(object())
    ('None', 'float 1.5', 'an array of float64', 'an object of object')
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
    return f"{name} {sanitize(repr(value), 60)}"


def is_text(value: object) -> bool:
    """Tell whether a value is a str that UTF-8 can encode.

    A str with a lone surrogate cannot be, so no file and no model holds one.
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
    next : str
        What to type.

    Raises
    ------
    InputError
    """
    if not _is_by_name(value):
        raise InputError(where, expected=_BY_NAME[0], got=describe(value), next=next)


# ---- kinds ---------------------------------------------------------------------------------------


_Rule = tuple[str, Callable[[Any], bool]]
"""The values that an annotation takes, in words and as a function."""


def _is_flag(value: object) -> bool:
    # Also 0 and 1, as C programmers write them.
    return isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1))


def _is_int(value: object) -> bool:
    # A bool is no number, and an array of one element no index, although Python takes both.
    if isinstance(value, (bool, np.bool_, np.ndarray)):
        return False
    try:
        # Whether it can be an index is the question.
        return -(2**63) <= operator.index(value) < 2**63  # type: ignore[arg-type]
    except TypeError:
        return False


def is_path(value: object) -> bool:
    """Tell whether a value is a path that the system can look up."""
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


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _optional(rule: _Rule) -> _Rule:
    expected, accepts = rule
    return f"{expected}, or None", lambda value: value is None or accepts(value)


_FLAG: _Rule = ("True or False", _is_flag)
_INT: _Rule = ("a whole number", _is_int)
_TEXT: _Rule = ("str", is_text)
_PATH: _Rule = ("a path", is_path)
_TEXTS: _Rule = ("a list of names", _are_texts)
_BY_NAME: _Rule = ("a dict with names as keys", _is_by_name)
_CALLABLE: _Rule = ("a function", callable)

_RULES: dict[str, _Rule] = {
    "bool": _FLAG,
    "bool | None": _optional(_FLAG),
    "int": _INT,
    "int | None": _optional(_INT),
    # Tolerances, whose values `diff` checks itself: True has a meaning there.
    "float | None": ("a number, or None", lambda value: not isinstance(value, np.ndarray)),
    "str": _TEXT,
    "str | None": _optional(_TEXT),
    "str | os.PathLike[str]": _PATH,
    "str | os.PathLike[str] | None": _optional(_PATH),
    "Sequence[str] | str": _TEXTS,
    "str | Sequence[str] | None": _optional(_TEXTS),
    "Mapping[str, Any] | Sequence[str] | str": ("names, or types by name", _are_texts),
    "Sequence[Any]": ("a list", _is_list),
    "Sequence[NodeProto] | NodeProto": (
        "NodeProtos",
        lambda value: _is_list(value) or hasattr(value, "op_type"),
    ),
    "Mapping[str, Any]": _BY_NAME,
    "Mapping[str, Any] | None": _optional(_BY_NAME),
    "Callable[[Seen], object]": ("a function of one argument, a Seen", callable),
    "Callable[[Result], Any] | None": _optional(_CALLABLE),
    "Callable[[Version], None]": _CALLABLE,
    "Callable[[str], None] | None": _optional(_CALLABLE),
    "Callable[[list[Any], Any, str], Any]": _CALLABLE,
}
"""The rules that are checked, by annotation."""


def index_error(where: str, noun: str, key: object, known: Iterable[str]) -> InputError:
    """Make the error for values by name that were indexed like one array: ``result[x > 0]``."""
    advice = messages.suggest_key("", known)
    advice = advice and f"{where}[{advice}]"
    return InputError(where, expected=f"the name of one {noun}", got=describe(key), next=advice)

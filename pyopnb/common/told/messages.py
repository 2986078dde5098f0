"""Texts of messages, and the frames that a traceback shows."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from pyopnb.errors import PyopError, sanitize

__all__ = [
    "closest",
    "duration",
    "hide_internal_frames",
    "level_of_user",
    "moved",
    "one_line",
    "plural",
    "sanitize",
    "sanitize_source",
    "suggest",
    "suggest_key",
]

# How many keys are listed if a key resembles none of them.
_FEW = 3


def sanitize_source(source: str) -> str:
    """Make source code safe to print without cutting it."""
    lines = []
    for line in source.split("\n"):
        line = line.expandtabs(4)
        lines.append(sanitize(line, len(line)))
    return "\n".join(lines)


def one_line(text: str) -> str:
    """Make text safe to print on one line."""
    return sanitize(text).replace("\n", " ")


def plural(count: int, noun: str) -> str:
    """Join a count and its noun, in the plural where needed.

    Examples
    --------
    >>> plural(1, "node"), plural(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write a time, or a difference of times, with three digits and a prefix.

    Examples
    --------
    >>> duration(1.214398), duration(-0.0042), duration(55e-6), duration(0)
    ('1.21 s', '-4.2 ms', '55 µs', '0 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        # Three digits of 0.9996 are 1.
        if abs(seconds) >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}" if abs(seconds) < 1000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e6:.3g} µs"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that a mistyped one most likely means.

    Returns
    -------
    str or None
        None where none is similar.

    Examples
    --------
    >>> closest("demo::Ordr", ["demo::Order"]), closest("demo::Zebra", ["demo::Order"])
    ('demo::Order', None)
    """
    import difflib  # 3 ms, and only on the way to an error

    # Ops are compared by their types: that demo::Zebra shares a domain with demo::Order
    # makes them no more alike.
    by_type: dict[str, list[str]] = {}
    for candidate in known:
        # A name that differs in upper and lower case only is closer than any that difflib ranks.
        if candidate.lower() == name.lower():
            return candidate
        by_type.setdefault(candidate.rpartition("::")[2], []).append(candidate)
    matches = difflib.get_close_matches(name.rpartition("::")[2], by_type, n=1)
    if not matches:
        return None
    # Where several domains have such an op, the nearest domain.
    return difflib.get_close_matches(name, by_type[matches[0]], n=1, cutoff=0)[0]


def suggest_key(name: str, known: Iterable[str]) -> str | None:
    """Suggest the key to type instead of a mistyped one: the closest, or the few that there are.

    Returns
    -------
    str or None
        None where none is similar among many. For no key at all, the first.

    Examples
    --------
    >>> suggest_key("Y", ["x", "y"]), suggest_key("", ["x", "y"]), suggest_key("z", ["x", "y"])
    ('"y"', '"x"', '"x", "y"')
    """
    names = list(known)
    near = closest(name, names)
    if near is not None:
        names = [near]
    elif not name:
        names = names[:1]
    elif len(names) > _FEW:
        return None
    return ", ".join(f'"{sanitize(key)}"' for key in names) or None


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest a name to type instead of a mistyped one: the closest, or all if none is similar."""
    names = list(known)
    return closest(name, names) or ", ".join(names) or "nothing"


_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def hide_internal_frames(
    function: Callable[_Arguments, _Returned],
) -> Callable[_Arguments, _Returned]:
    """Decorate a public function to end the traceback of a `PyopError` at the user's own line.

    Exceptions of the user's code keep all their frames.
    """

    @functools.wraps(function)
    def wrapper(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # its context stays as it was

    return wrapper


def moved(error: PyopError, where: str, next: str | None) -> PyopError:
    """Copy an error, with another place and advice."""
    return type(error)(where, expected=error.expected, got=error.got, next=next)


def level_of_user() -> int:
    """Find the ``stacklevel`` by which a warning names the first line outside pyopnb."""
    frame, level = sys._getframe(1), 1
    # Python files of onnxruntime are between the bridge and the caller who makes a session.
    packages = ("pyopnb.", "onnxruntime.")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(packages):
        frame, level = frame.f_back, level + 1
    return level

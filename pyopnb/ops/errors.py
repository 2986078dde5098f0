"""The errors of pyopnb, and the one place where their texts are made.

    PyopError                     everything that pyopnb itself refuses
    ├── NotationError             a type that is not written as float32[N,3]        (ValueError)
    ├── DefinitionError           a class that cannot be an op                      (TypeError)
    ├── UnknownOp                 a name that the registry does not have            (LookupError)
    ├── ModelError                a model, node or attr that cannot be used         (ValueError)
    │   └── ModuleRefused         a model names a module that nobody allowed        (PermissionError)
    ├── FeedError                 what was fed is not what the model takes          (ValueError)
    ├── ResultError               what compute returned is not what the node gives  (TypeError)
    ├── EscapedInput              an input view was kept past compute               (RuntimeError)
    └── SchemaChanged             a bare session was left behind by a redefinition  (RuntimeError)

What the user's own code raises is never relabelled: it arrives as itself, with a note.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

__all__ = [
    "DefinitionError",
    "EscapedInput",
    "FeedError",
    "ModelError",
    "ModuleRefused",
    "NotationError",
    "PyopError",
    "ResultError",
    "SchemaChanged",
    "UnknownOp",
    "closest",
    "hide_internal_frames",
    "one_line",
    "plural",
    "sanitize",
    "sanitize_source",
    "suggest",
]

_LONGEST = 200


def sanitize(value: object, longest: int = _LONGEST) -> str:
    r"""Text that came from a file, a user or an array, made safe to print.

    Control characters and the bidirectional marks that can reorder a line become escapes, and what is
    longer than ``longest`` is cut: names in a hostile model can be of any length and content.

    Examples
    --------
    >>> sanitize("a\x1b[31mred")
    'a\\x1b[31mred'
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text)} characters)"
    if text.isprintable():  # which nearly all are
        return text
    return "".join(c if c.isprintable() or c in "\n " else c.encode("unicode_escape").decode() for c in text)


def sanitize_source(source: str) -> str:
    """A source for the eye, whole: nothing is cut, and what could deceive is an escape."""
    lines = [line.expandtabs(4) for line in source.split("\n")]
    return "\n".join("".join(sanitize(line[at : at + _LONGEST]) for at in range(0, len(line), _LONGEST)) for line in lines)


def one_line(text: str) -> str:
    """`sanitize` without line breaks."""
    return sanitize(text).replace("\n", " ")


def plural(count: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> plural(1, "node"), plural(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one was most likely meant to be; None where none is like it."""
    import difflib  # 3 ms, and only on the way to an error

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def suggest(name: str, known: Iterable[str]) -> str:
    """The known name that a mistyped one was most likely meant to be; without one, all of them."""
    names = list(known)
    return closest(name, names) or ", ".join(names) or "nothing"


_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def hide_internal_frames(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Make a public function refuse with the user's own line as the whole traceback: the text names the place.

    What the user's code raises passes with all its frames.
    """

    @functools.wraps(function)
    def called(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # nothing is chained that was not before

    return called


class PyopError(Exception):
    """What pyopnb refuses: where, what was expected, what came, and what to type next.

    Parameters
    ----------
    where : str
        Op, node, port or cell, in the words that the user typed.
    expected, got : str, optional
        In the notation of types (``float32[N,3]``) where they are types.
    next : str, optional
        What to type next.

    Examples
    --------
    >>> print(PyopError("demo::SoftClip, output 0", expected="float32[N,3]", got="float64[2,3]",
    ...                 next="return y.astype(np.float32)"))
    demo::SoftClip, output 0: expected float32[N,3], got float64[2,3]. Try: return y.astype(np.float32)
    """

    def __init__(self, where: str, *, expected: str | None = None, got: str | None = None, next: str | None = None) -> None:
        self.where, self.expected, self.got, self.next = where, expected, got, next
        facts = ", ".join(f"{word} {fact}" for word, fact in (("expected", expected), ("got", got)) if fact)
        text = f"{where}: {facts}." if facts else where if where.endswith((".", "!", "?")) else f"{where}."
        super().__init__(f"{text} Try: {next}" if next else text)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.where, self.expected, self.got, self.next)


def _rebuilt(cls: type[PyopError], where: str, expected: str, got: str, next: str) -> PyopError:
    # A keyword-only constructor cannot be pickled by args alone, and errors cross process borders in test runners.
    return cls(where, expected=expected, got=got, next=next)


class NotationError(PyopError, ValueError):
    """A type that is not written as ``float32[N,3]``."""


class DefinitionError(PyopError, TypeError):
    """A class that cannot be an op."""


class UnknownOp(PyopError, LookupError):
    """A name that the registry does not have."""


class ModelError(PyopError, ValueError):
    """A model, node or attr that cannot be used."""


class ModuleRefused(ModelError, PermissionError):
    """A model names a module that the caller did not allow."""


class FeedError(PyopError, ValueError):
    """What was fed is not what the model takes."""


class ResultError(PyopError, TypeError):
    """What ``compute`` or ``infer`` returned is not what the node gives."""


class EscapedInput(PyopError, RuntimeError):
    """A view of an input was kept past ``compute``, by a holder that cannot be given memory of its own."""


class SchemaChanged(PyopError, RuntimeError):
    """An op's outputs changed their types under a session that cannot rebuild itself."""

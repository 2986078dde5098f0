"""The errors of pyopnb, the one place where their texts are made, and what texts are made with.

    PyopError                     all errors of pyopnb itself
    ├── NotationError             a type that is not written as float32[N,3]        (ValueError)
    ├── DefinitionError           a class that cannot be an op                      (TypeError)
    ├── UnknownOp                 a name that is not in the registry                (LookupError)
    ├── UnknownName               a name that is in no result or trace              (KeyError)
    ├── ModelError                a model, node or attr that cannot be used         (ValueError)
    │   └── ModuleRefused         a model names a module that nobody allowed        (PermissionError)
    ├── FeedError                 a feed that the model does not take               (ValueError)
    ├── ArgumentError             an argument of another kind, or one too many      (TypeError)
    ├── ResultError               a return value that the node cannot give          (TypeError)
    ├── EscapedInput              a view of an input was kept past compute          (RuntimeError)
    ├── NotLowered                an op that does not become ONNX operators         (NotImplementedError)
    ├── NotFinite                 a training whose loss is NaN or infinite          (FloatingPointError)
    ├── SchemaChanged             a bare session was left behind by a redefinition  (RuntimeError)
    └── RunRefused                a run that could hang, end the process or race    (RuntimeError)

Exceptions of the user's own code are never wrapped: they arrive as themselves, with a note.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

__all__ = [
    "ArgumentError",
    "DefinitionError",
    "EscapedInput",
    "FeedError",
    "ModelError",
    "ModuleRefused",
    "NotFinite",
    "NotLowered",
    "NotationError",
    "PyopError",
    "ResultError",
    "RunRefused",
    "SchemaChanged",
    "UnknownName",
    "UnknownOp",
    "closest",
    "hide_internal_frames",
    "moved",
    "one_line",
    "plural",
    "require_native",
    "sanitize",
    "sanitize_source",
    "suggest",
    "suggest_key",
]

_LONGEST = 200


def sanitize(value: object, longest: int = _LONGEST) -> str:
    r"""Text from a file, a user or an array, made safe to print: names in a hostile model can have any length and content.

    Parameters
    ----------
    value : object
    longest : int
        Characters after which the text is cut.

    Returns
    -------
    str
        With control characters, bidirectional marks, which can reorder a line, and characters that nobody sees as escapes.

    Examples
    --------
    >>> sanitize("a\x1b[31mred")
    'a\\x1b[31mred'
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text)} characters)"
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):  # nearly always
        return text
    return "".join(c if _is_visible(c) or c in "\n " else c.encode("unicode_escape").decode() for c in text)


# Unicode's Default_Ignorable_Code_Point, as far as Python calls them printable, and the blank of Braille: two names that differ
# in one of them look the same.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


def sanitize_source(source: str) -> str:
    """`sanitize` for source code, of which nothing is cut.

    Parameters
    ----------
    source : str

    Returns
    -------
    str
    """
    lines = [line.expandtabs(4) for line in source.split("\n")]
    return "\n".join("".join(sanitize(line[at : at + _LONGEST]) for at in range(0, len(line), _LONGEST)) for line in lines)


def one_line(text: str) -> str:
    """`sanitize`, with blanks for line breaks.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
    """
    return sanitize(text).replace("\n", " ")


def plural(count: int, noun: str) -> str:
    """A count and its noun.

    Parameters
    ----------
    count : int
    noun : str

    Returns
    -------
    str

    Examples
    --------
    >>> plural(1, "node"), plural(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one was most likely meant to be.

    Parameters
    ----------
    name : str
    known : iterable of str

    Returns
    -------
    str or None
        None where none is similar.
    """
    import difflib  # 3 ms, and only on the way to an error

    names = list(known)
    same = [each for each in names if each.lower() == name.lower()]
    return next(iter(same or difflib.get_close_matches(name, names, n=1)), None)


def suggest_key(name: str, known: Iterable[str]) -> str | None:
    """What to type between brackets instead of a mistyped name: the closest known one or, where none is similar, the first.

    Parameters
    ----------
    name : str
    known : iterable of str

    Returns
    -------
    str or None
        None where nothing is known.

    Examples
    --------
    >>> suggest_key("Y", ["x", "y"]), suggest_key("z", ["x", "y"]), suggest_key("z", [])
    ('"y"', '"x"', None)
    """
    names = list(known)
    key = closest(name, names) or next(iter(names), None)
    return None if key is None else f'"{sanitize(key)}"'


def suggest(name: str, known: Iterable[str]) -> str:
    """What to type instead of a mistyped name: the closest known name or, where none is similar, all of them.

    Parameters
    ----------
    name : str
    known : iterable of str

    Returns
    -------
    str
    """
    names = list(known)
    return closest(name, names) or ", ".join(names) or "nothing"


_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")


def hide_internal_frames(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
    """Decorate a public function so that the traceback of a `PyopError` ends at the user's own line.

    Exceptions of the user's code keep all their frames.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
    """

    @functools.wraps(function)
    def wrapper(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except PyopError as error:
            raise error.with_traceback(None)  # noqa: B904  # its context stays as it was

    return wrapper


def require_native(module: str) -> None:
    """Import a compiled module of pyopnb, with advice where it is missing.

    Python that runs in the root of a checkout finds the sources before the installed package, and they are not compiled.

    Parameters
    ----------
    module : str

    Raises
    ------
    ImportError
        The module is not there, or cannot be loaded.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            "pyopnb's native modules are not built here: the sources of pyopnb are imported, not an installed pyopnb. "
            "Type: pip install -e .   (in the folder with pyproject.toml; or leave that folder to use an installed pyopnb)"
        ) from error


class PyopError(Exception):
    """Base class of pyopnb's errors: where, what was expected, what came, and what to type next.

    Parameters
    ----------
    where : str
        Op, node, port or cell, as the user wrote it.
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
        return _unpickle, (type(self), self.where, self.expected, self.got, self.next)


def moved(error: PyopError, where: str, next: str | None) -> PyopError:
    """The same error of another place, with another advice."""
    return type(error)(where, expected=error.expected, got=error.got, next=next)


def _unpickle(cls: type[PyopError], where: str, expected: str, got: str, next: str) -> PyopError:
    # An exception with keyword-only parameters cannot be pickled by itself, and test runners send errors between processes.
    return cls(where, expected=expected, got=got, next=next)


class NotationError(PyopError, ValueError):
    """A type that is not written as ``float32[N,3]``."""


class DefinitionError(PyopError, TypeError):
    """A class that cannot be an op."""


class UnknownOp(PyopError, LookupError):
    """A name that is not in the registry."""


class UnknownName(PyopError, KeyError):
    """A name that no output of a result, or no tensor of a trace, has."""

    __str__ = Exception.__str__  # KeyError's shows the repr


class ModelError(PyopError, ValueError):
    """A model, node or attr that cannot be used."""


class ModuleRefused(ModelError, PermissionError):
    """A model names a module that the caller did not allow."""


class FeedError(PyopError, ValueError):
    """A feed that the model does not take."""


class ArgumentError(PyopError, TypeError):
    """An argument of another kind than a function takes, more arguments, or a keyword that it does not have."""


class ResultError(PyopError, TypeError):
    """A return value of ``compute`` or ``infer`` that the node cannot give."""


class EscapedInput(PyopError, RuntimeError):
    """An op kept an input, or a view of it, past ``compute``, where ONNX Runtime uses its memory again."""


class NotLowered(PyopError, NotImplementedError):
    """An op, or a line of it, that does not become ONNX operators with the same results."""


class NotFinite(PyopError, FloatingPointError):
    """A training whose loss or gradient is NaN or infinite.

    Attributes
    ----------
    training : Training or None
        The training as it was after the step before; None where the error comes from another process.
    """

    training: object = None


class SchemaChanged(PyopError, RuntimeError):
    """An op changed its output types under a session that cannot rebuild itself."""


class RunRefused(PyopError, RuntimeError):
    """A run at a place where it could wait for ever, end the process, or change what another one changes."""

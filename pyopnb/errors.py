"""The exceptions and warnings of pyopnb.

    PyopError               the base class of all refusals of pyopnb
    ├── InputError          an argument, feed or type that cannot be used   (ValueError, TypeError)
    ├── UnknownName         a name that no op, output or tensor has         (KeyError)
    ├── DefinitionError     a class that cannot be an op                    (TypeError)
    ├── ModelError          a model, node or attr that cannot be used       (ValueError)
    │   └── ModuleRefused   a model names a module that is not allowed      (PermissionError)
    ├── ResultError         a return value that the node cannot give        (TypeError)
    ├── EscapedInput        a view of an input was kept past compute        (RuntimeError)
    ├── NotLowered          an op that does not become ONNX operators       (NotImplementedError)
    ├── NotFinite           a training whose loss is NaN or infinite        (FloatingPointError)
    ├── SchemaChanged       a redefinition left a bare session behind       (RuntimeError)
    └── RunRefused          a run that could hang, end the process or race  (RuntimeError)

pyopnb never wraps exceptions of your own code: they arrive unchanged, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "DefinitionError",
    "EscapedInput",
    "Filled",
    "InputError",
    "ModelError",
    "ModuleRefused",
    "NotFinite",
    "NotLowered",
    "PyopError",
    "ResultError",
    "RunRefused",
    "SchemaChanged",
    "SessionRebuilt",
    "StayedInPython",
    "UnknownName",
    "VersionsLowered",
]


# A warning lists this many nodes.
_SHOWN = 5
# `Filled` lists more, as each of these is a Python node until something is done.
_SHOWN_FILLED = 10


_LONGEST = 200
# Characters of each part of an error, which can list many names.
_LONGEST_PART = 2000


def sanitize(value: object, longest: int = _LONGEST) -> str:
    r"""Make text from a file, a user or an array safe to print.

    A long text is cut, and characters that could mislead a reader are escaped.

    Parameters
    ----------
    longest : int
        Characters after which the text is cut.

    Returns
    -------
    str
        With escapes for control characters, bidirectional marks, which can reorder a line, and
        invisible characters.

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
    characters = []
    for character in text:
        if not _is_visible(character) and character not in "\n ":
            character = character.encode("unicode_escape").decode()
        characters.append(character)
    return "".join(characters)


# Unicode's Default_Ignorable_Code_Point, as far as Python calls them printable, and the blank of
# Braille: two names that differ in one of them look the same.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def _is_visible(character: str) -> bool:
    return character.isprintable() and not _INVISIBLE.match(character)


class PyopError(Exception):
    """Base class of pyopnb's errors: where, what was expected, what it got, and what to type next.

    Parameters
    ----------
    where : str
        Op, node, port or cell, as you wrote it.
    expected, got : str, optional
        Types are written in the notation ``float32[N,3]``.
    next : str, optional
        What to type next.

    Examples
    --------
    >>> print(PyopError("demo::SoftClip, output 0", expected="float32[N,3]", got="float64[2,3]",
    ...                 next="return y.astype(np.float32)"))
    demo::SoftClip, output 0: expected float32[N,3], got float64[2,3].
    Try: return y.astype(np.float32)
    """

    def __init__(
        self,
        where: str,
        *,
        expected: str | None = None,
        got: str | None = None,
        next: str | None = None,
    ) -> None:
        # Names come from files and from users, so what any part says is safe to print.
        self.where = sanitize(where, _LONGEST_PART)
        self.expected = _sanitized(expected)
        self.got = _sanitized(got)
        self.next = _sanitized(next)
        # All messages have one form: where, what was expected, what it got, what to type next.
        facts = []
        if self.expected:
            facts.append(f"expected {self.expected}")
        if self.got:
            facts.append(f"got {self.got}")
        text = self.where
        if facts:
            text += f": {', '.join(facts)}."
        elif not text.endswith((".", "!", "?")):
            text += "."
        if self.next:
            text += f" Try: {self.next}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.where, self.expected, self.got, self.next)
        return _unpickle, (type(self), parts, str(self))


def _sanitized(part: str | None) -> str | None:
    return None if part is None else sanitize(part, _LONGEST_PART)


def _unpickle(cls: type[PyopError], parts: tuple[str | None, ...], text: str) -> PyopError:
    # Exceptions with keyword-only parameters cannot be pickled, and test runners send
    # errors between processes. The parts are clean: cleaning them again could cut them again.
    error = cls("")
    error.where, error.expected, error.got, error.next = str(parts[0]), *parts[1:]
    error.args = (text,)
    return error


class InputError(PyopError, ValueError, TypeError):
    """An argument, a feed or a written type that cannot be used.

    Its name, kind, dtype, shape or value is wrong.
    """


class UnknownName(PyopError, KeyError):
    """A name that no op of the registry, no output of a result or no tensor of a trace has."""

    # KeyError shows the repr of its text, with quotes.
    __str__ = Exception.__str__


class DefinitionError(PyopError, TypeError):
    """A class that cannot be an op."""


class ModelError(PyopError, ValueError):
    """A model, node or attr that cannot be used."""


class ModuleRefused(ModelError, PermissionError):
    """A model names a module that the caller did not allow."""


class ResultError(PyopError, TypeError):
    """A return value of ``compute`` or ``infer`` that the node cannot give."""


class EscapedInput(PyopError, RuntimeError):
    """An op kept an input, or a view of it, after ``compute`` returned.

    ONNX Runtime uses that memory again.
    """


class NotLowered(PyopError, NotImplementedError):
    """An op, or a line of it, that does not become ONNX operators with the same results.

    Attributes
    ----------
    source : LoweredSource or None
        The lines of ``compute`` with their ONNX operators, and the line that stays in Python.
    """

    source: object = None


class NotFinite(PyopError, FloatingPointError):
    """A training whose loss or gradient is NaN or infinite.

    Attributes
    ----------
    training : Training or None
        The training as it was after the previous step; None if the error comes from another
        process.
    """

    training: object = None


class SchemaChanged(PyopError, RuntimeError):
    """An op changed its output types under a session that cannot rebuild itself."""


class RunRefused(PyopError, RuntimeError):
    """A run that could hang, end the process, or race with another run."""


class VersionsLowered(UserWarning):
    """A model runs with older versions than it declares, in which it means the same.

    The installed onnxruntime does not support the newer ones. A process warns once for each pair of
    versions; ``Session.lowered`` lists the pairs of a session.
    """


class SessionRebuilt(UserWarning):
    """A session was rebuilt because an op was redefined with other outputs or got other attrs."""


class Filled(UserWarning):
    """The nodes that `pyopnb.fill` replaced, and the nodes that it could not replace.

    Attributes
    ----------
    nodes : tuple of FilledNode
        In the order of the model; one without an op says why.
    """

    def __init__(self, nodes: Iterable[Any]) -> None:
        self.nodes = tuple(nodes)
        replaced = [node for node in self.nodes if node.op]
        unchanged = [node for node in self.nodes if not node.op]
        catalog = [node for node in replaced if node.op.startswith("pyopnb.catalog")]
        reference = [node for node in replaced if node not in catalog]
        lines = _listing("Python node", "run by the ONNX reference implementation:", reference)
        lines += _listing("Python node", "run by the catalog:", catalog)
        lines += _listing("node", "left unchanged, so the model does not load:", unchanged)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        # By default the text would be passed to the constructor, which takes nodes.
        return type(self), (self.nodes,)


def _listing(noun: str, head: str, nodes: Sequence[object]) -> list[str]:
    """List the first nodes under a line that counts them all."""
    if not nodes:
        return []
    if len(nodes) == 1:
        plural = ""
    else:
        plural = "s"
    lines = [f"{len(nodes)} {noun}{plural}, {head}"]
    for node in nodes[:_SHOWN_FILLED]:
        lines.append(f"  {node}")
    if len(nodes) > _SHOWN_FILLED:
        lines.append(f"  … and {len(nodes) - _SHOWN_FILLED} more")
    return lines


class StayedInPython(UserWarning):
    """Python nodes are left in a model that `pyopnb.lower` returned.

    They call their ops, which do not become ONNX operators.

    Attributes
    ----------
    reasons : dict of str to str
        The reason for each node, by the name that messages use.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        count = len(self.reasons)
        lines = [f"{count:,} Python node{'' if count == 1 else 's'} left in the model:"]
        for where, reason in list(self.reasons.items())[:_SHOWN]:
            lines.append(f"  {where}: {reason}")
        if count > _SHOWN:
            lines.append(f"  … and {count - _SHOWN} more")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        # As for `Filled`: the constructor takes the reasons and not the text.
        return type(self), (self.reasons,)

"""The common base of all diffs: a verdict, no truth value, a short text, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, Self

from pyopnb.common import Displayable, sanitize
from pyopnb.diffs.documents import read_fields, write_fields
from pyopnb.diffs.tolerances import Tolerances
from pyopnb.errors import InputError

__all__ = [
    "MAX_LINES",
    "Comparable",
    "DiffBase",
    "ToleranceDiff",
    "fit_lines",
]

MAX_LINES = 12
"""The most lines that the text of a diff has."""

_MAX_WIDTH = 160


class DiffBase(Displayable):
    """A result of `pyopnb.diff`.

    It has no truth value: ``if diff(a, b)`` would be read as "if they differ" by one and as "if
    they agree" by another.
    """

    __slots__ = ()

    _FORMAT: ClassVar[str]
    _VERSION: ClassVar[int] = 1

    @property
    def verdict(self) -> str:
        """Return the verdict in one word; the possible words depend on the kind of diff."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """Tell whether the two agree."""
        raise NotImplementedError

    def headline(self) -> list[str]:
        """Write the headline.

        Returns
        -------
        list of str
            At most three lines: the verdict, where the two differ, and by how much.
        """
        raise NotImplementedError

    def __bool__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"{name} is neither true nor false. Try: diff(a, b).ok, or .verdict")

    def __repr__(self) -> str:
        return str(self)

    def to_json(self) -> str:
        """Serialize the diff.

        Returns
        -------
        str
            Strict JSON with everything that the diff knows, for `from_json`. Numbers that JSON
            lacks are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
        """
        return json.dumps(self._to_plain(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a diff that `to_json` wrote.

        Parameters
        ----------
        text : str
            From `to_json`.

        Returns
        -------
        Diff, TraceDiff, ModelDiff or OpDiff
            One of the class that reads. The verdict follows from the facts; the one in the
            text is not trusted.

        Raises
        ------
        InputError
            The text is something else, or was written by a later version.
        """
        try:
            return cls._from_plain(json.loads(text, parse_constant=_refuse_constant))
        except InputError:
            # The error already says what was expected.
            raise
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            message = sanitize(f"{type(error).__name__}: {error}")
        except RecursionError:
            message = "a text that is nested too deeply"
        where = f"{cls.__name__}.from_json"
        raise InputError(where, expected="what to_json wrote", got=message)

    def _to_plain(self) -> dict[str, Any]:
        """Write the diff as plain dicts, lists and numbers, with its format and version."""
        head = {
            "format": self._FORMAT,
            "version": self._VERSION,
            "verdict": self.verdict,
            "ok": self.ok,
        }
        return {**head, **write_fields(self)}

    @classmethod
    def _from_plain(cls, document: Any) -> Self:
        """Read the output of `_to_plain`."""
        where = f"{cls.__name__}.from_json"
        if not isinstance(document, dict) or document.get("format") != cls._FORMAT:
            expected = f"JSON with format {cls._FORMAT}"
            raise InputError(where, expected=expected, got=sanitize(json.dumps(document), 80))
        if document.get("version") != cls._VERSION:
            got = sanitize(document.get("version"))
            expected = f"version {cls._VERSION}"
            raise InputError(where, expected=expected, got=got, next="a newer pyopnb")
        diff: Self = read_fields(cls, cls._restored(document))
        return diff

    @classmethod
    def _restored(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Convert the fields of a JSON document to the form that readers expect."""
        return document


class Comparable(Displayable):
    """Base class of results of other packages that `pyopnb.diff` can compare, such as trainings."""

    _NOUN: ClassVar[str]

    def _diff(self, other: Self) -> DiffBase:
        """Compare it as a with another of its class as b."""
        raise NotImplementedError


class ToleranceDiff(DiffBase):
    """A diff whose verdict depends on a tolerance."""

    __slots__ = ()

    def judged(
        self, *, rtol: float | None = None, atol: float | None = None, stol: float | None = None
    ) -> Self:
        """Apply another tolerance to the same facts, without the arrays.

        The verdict is exact. How many elements are over is known only for the tolerance of `diff`,
        for none at all, and where all pass; ``facts.over`` is None elsewhere.

        Parameters
        ----------
        rtol, atol, stol : float, optional
            As in `pyopnb.diff`.

        Returns
        -------
        Diff, TraceDiff or ModelDiff
            A new diff of the same class.

        Raises
        ------
        InputError
            A tolerance is negative or not finite.

        Examples
        --------
        >>> import numpy as np, pyopnb
        >>> diff = pyopnb.diff(np.float32([1, 2]), np.float32([1, 2.5]))
        >>> diff.verdict, diff.judged(atol=0.5).verdict
        ('different', 'close')
        """
        tolerances = Tolerances(rtol, atol, stol)
        tolerances.check()
        return self._judged(tolerances)

    def _judged(self, tolerances: Tolerances) -> Self:
        raise NotImplementedError


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _one_line(text: str, width: int = _MAX_WIDTH) -> str:
    """Put text on one line that is safe to print and at most ``width`` characters long."""
    # Names come from model files: control characters in them could rewrite the terminal.
    text = sanitize(text, 10**6).replace("\n", " ")
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…"


def fit_lines(lines: Sequence[str], width: int = _MAX_WIDTH, more: str = "more lines") -> str:
    """Join lines for printing: at most `MAX_LINES`, each on one line.

    If there are more, the last line says how many were left out.
    """
    if len(lines) > MAX_LINES:
        # The last line says how many were left out, so that the text does not look complete.
        lines = [*lines[: MAX_LINES - 1], f"… and {len(lines) - MAX_LINES + 1} {more}"]
    return "\n".join(_one_line(line, width) for line in lines)

"""The forms of an op as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyopnb.common import Displayable, Table, sanitize
from pyopnb.diffs import Diff
from pyopnb.display import LoweredSource, View, markup, view
from pyopnb.testing import OpExample

__all__ = ["Form", "Forms", "view_forms"]


@dataclass(frozen=True)
class Form:
    """One form of an op.

    Attributes
    ----------
    name : str
        ``"Python"``, ``"ONNX function"`` or ``"C++"``.
    diffs : tuple of Diff
        Its results against Python's, at each size; empty for Python itself.
    seconds : tuple of float
        The fastest run at each size, in ONNX Runtime, with one thread.
    nodes : int or None
        The number of nodes in the function, without constants.
    reason : str
        Why the op has no such form; empty if it has one.
    source : LoweredSource or None
        The lines of ``compute`` with the function's operators, and the line that stays in Python.
    """

    name: str
    diffs: tuple[Diff, ...] = ()
    seconds: tuple[float, ...] = ()
    nodes: int | None = None
    reason: str = ""
    source: LoweredSource | None = None

    @property
    def verdict(self) -> str:
        """Tell in a few words whether its results are Python's."""
        if not self.diffs:
            if self.seconds:
                return ""
            return "no"
        # The smallest size at which they differ is the easiest one to look into.
        wrong = [diff for diff in self.diffs if not diff.ok]
        if wrong:
            return wrong[0].headline()[0]
        return "yes"


@dataclass(frozen=True, repr=False)
class Forms(Displayable, Sequence[Form]):
    """The result of `pyopnb.forms`: a row for each form.

    Attributes
    ----------
    op : str
        The version in Python.
    examples : tuple of OpExample
        One for each size.
    all : tuple of Form
        Python first.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> @pyopnb.pyop("doctest::Half")
    ... class Half:
    ...     def compute(self, x):
    ...         return x / 2
    >>> both = pyopnb.forms("doctest::Half", np.ones(3, np.float32))
    >>> [(form.name, form.verdict, form.nodes) for form in both]
    [('Python', '', None), ('ONNX function', 'yes', 1)]
    """

    op: str
    examples: tuple[OpExample, ...]
    all: tuple[Form, ...]

    def __getitem__(self, place: Any) -> Any:
        return self.all[place]

    def __len__(self) -> int:
        return len(self.all)

    def table(self) -> Table:
        """Return the forms as rows.

        Returns
        -------
        Table
            One row for each form.
        """
        rows = []
        for form in self.all:
            times = [_duration(seconds) for seconds in form.seconds]
            if not times:
                times = [""] * len(self.examples)
            if form.nodes is None:
                nodes = ""
            else:
                nodes = str(form.nodes)
            rows.append([form.name, form.verdict, *times, nodes])
        return Table(["form", "equal to Python", *map(str, self.examples), "nodes"], rows)

    @property
    def source(self) -> LoweredSource | None:
        """Return the lines of ``compute`` with the ONNX operators that they became."""
        for form in self.all:
            if form.source is not None:
                return form.source
        return None

    def __repr__(self) -> str:
        parts = [self.op, repr(self.table())]
        for form in self.all:
            if form.reason:
                parts.append(f"{form.name}: {sanitize(form.reason, 400)}")
        if self.source is not None:
            parts += ["", repr(self.source)]
        return "\n".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms"


@view.register
def view_forms(thing: Forms) -> View:
    """Show an op's forms as a table, with the source of the one in the ONNX operators."""
    title = f"the forms of {thing.op}"
    parts = [f"<div><b>{markup.escape(thing.op)}</b></div>", thing.table()._repr_html_()]
    for form in thing:
        if form.reason:
            parts.append(markup.note(f"{form.name}: {form.reason}"))
    if thing.source is not None:
        parts.append(markup.paragraph(view(thing.source).body))
    return View(thing, title, repr(thing), markup.join(parts))

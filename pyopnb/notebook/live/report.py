"""What a live output shows of a run: versions, time, result or error, and what changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.html import details, escape, join, note, pre
from pyopnb.display.show import html
from pyopnb.display.steady import SteadyColours
from pyopnb.notebook.live.run import Run
from pyopnb.ops.registry import Version

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """A run, as text and as HTML.

    Attributes
    ----------
    run : Run
    before : Run or None
        The run with the previous versions of the ops.
    diff : Diff or None
        How the result differs from the one that ``baseline`` names.
    baseline : str
    state : str
        Added to the first line.
    colours : SteadyColours, optional
        Of an output that is drawn many times, and must not jump.
    """

    run: Run
    before: Run | None = None
    diff: Diff | None = None
    baseline: str = "the previous version"
    state: str = ""
    colours: SteadyColours | None = None

    def text(self) -> str:
        lines = [self._head(), self.run.traceback() if self.run.error else repr(self.run.result)]
        if self.diff is not None:
            lines.append(f"against {self.baseline}: {self.diff}")
        return "\n".join([*lines, *(str(diff(old, new)) for old, new in self._op_changes())])

    def html(self) -> str:
        return join(self._parts())

    def _parts(self) -> Iterator[str]:
        yield note(self._head())
        if self.run.error:
            style = "border-left:4px solid #c43b3b;padding-left:8px;margin:4px 0"
            name = escape(type(self.run.error).__name__)
            yield f'<div style="{style}" role="alert"><b>{name}</b>{pre(self.run.traceback())}</div>'
        elif self.run.result is not None:
            yield html(self.run.result) if self.colours is None else self.colours.result_html(self.run.result)
        for old, new in self._op_changes():
            title = f"changes in {new.op}, version {old.number} → {new.number}"
            yield details(title, html(diff(old, new)), open=True)
        if self.diff is not None and self.colours is not None:
            yield f"<div><b>against {self.baseline}</b></div>{self.colours.diff_html(self.diff)}"
        elif self.diff is not None:
            yield details(f"against {self.baseline}: {self.diff.verdict}", html(self.diff), open=not self.diff.ok)

    def _head(self) -> str:
        ops = ", ".join(f"{name} version {version.number}" for name, version in self.run.versions.items()) or "no ops"
        seconds = self.run.seconds
        duration = f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
        ended = time.strftime("%H:%M:%S", time.localtime(self.run.ended))
        parts = [ops, f"interrupted after {duration}" if self.run.interrupted else duration, ended, self.state]
        return " · ".join(filter(None, parts))

    def _op_changes(self) -> list[tuple[Version, Version]]:
        """The previous and the current version of each op that changed."""
        if self.before is None:
            return []
        return [(self.before.versions[op], self.run.versions[op]) for op in self.run.changed_ops(self.before)]

"""What a live output shows of a run: versions, settings, time, result or error, and what changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.html import MAX_BYTES, details, escape, join, note, pre
from pyopnb.display.show import html
from pyopnb.display.steady import SteadyColours
from pyopnb.notebook.live.run import Run
from pyopnb.ops.op import Version

__all__ = ["LiveReport"]


@dataclass(frozen=True)
class LiveReport:
    """A run, as text and as HTML.

    Attributes
    ----------
    run : Run or None
        The last that ended.
    good : Run or None
        The last without an error; its result stays when a later run raises.
    before : Run or None
        The run with the previous versions or attrs.
    diff : Diff or None
        How the result differs from the one that ``baseline`` names.
    baseline : str
    state : str
        Added to the first line.
    colours : SteadyColours, optional
        Of an output that is drawn many times, and must not jump.
    running : float
        When the run in flight began; 0 if none is.
    """

    run: Run | None
    good: Run | None = None
    before: Run | None = None
    diff: Diff | None = None
    baseline: str = "the previous run"
    state: str = ""
    colours: SteadyColours | None = None
    running: float = 0.0

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.running:
            yield self._running()
        if self.run is None:
            return
        # The head says what ran, so that two outputs can be told apart in the saved notebook.
        yield self._head(self.run, self.state)
        if self.run.error:
            yield self.run.traceback()
            if self.good is not None:
                yield f"the last result without an error: {self._head(self.good)}"
        if self.good is not None:
            yield self.good.shown.text if self.good.shown else repr(self.good.result)
        yield from self._changed_settings()
        if self.diff is not None:
            yield f"against {self.baseline}: {self.diff}"
        yield from (str(diff(old, new)) for old, new in self._changed_ops())

    def html(self) -> str:
        # What the user's own function makes has the size that it has.
        shown = self.good.shown if self.good else None
        return join(self._parts(), MAX_BYTES + (len(shown.html.encode()) if shown else 0))

    def _parts(self) -> Iterator[str]:
        if self.running:
            yield f'<div><progress aria-label="running"></progress> {escape(self._running())}</div>'
        if self.run is None:
            return
        yield note(self._head(self.run, self.state))
        if self.run.error:
            style = "border-left:4px solid #c43b3b;padding-left:8px;margin:4px 0"
            name = escape(type(self.run.error).__name__)
            yield f'<div style="{style}" role="alert"><b>{name}</b>{pre(self.run.traceback())}</div>'
            if self.good is not None:
                yield note(f"the last result without an error: {self._head(self.good)}")
        if self.good is not None and self.good.shown:
            yield self.good.shown.html
        elif self.good is not None and self.good.result is not None:
            draw = self.colours.result_html if self.colours else html
            yield draw(self.good.result)
        yield from map(note, self._changed_settings())
        # The lines of the class that changed stand beside the numbers that they changed.
        for old, new in self._changed_ops():
            title = f"changes in {new.op}, version {old.number} → {new.number}"
            yield details(title, html(diff(old, new)), open=True)
        if self.diff is not None and self.colours is not None:
            yield f"<div><b>against {self.baseline}</b></div>{self.colours.diff_html(self.diff)}"
        elif self.diff is not None:
            title = f"against {self.baseline}: {self.diff.verdict}"
            yield details(title, html(self.diff), open=not self.diff.ok)

    def _running(self) -> str:
        return f"running since {time.strftime('%H:%M:%S', time.localtime(self.running))}"

    def _head(self, run: Run, state: str = "") -> str:
        ops = [f"{name} version {version.number}" for name, version in run.versions.items()]
        words = [", ".join(ops) or "no ops"]
        words += [f"{name} = {value}" for name, value in run.settings.items()]
        seconds = run.seconds
        duration = f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
        words.append(f"stopped after {duration}" if run.interrupted else duration)
        words.append(time.strftime("%H:%M:%S", time.localtime(run.ended)))
        return " · ".join([*words, state] if state else words)

    def _changed_settings(self) -> list[str]:
        changes = self.run.changed_settings(self.before) if self.run else {}
        return [f"{name}: {old} → {new}" for name, (old, new) in changes.items()]

    def _changed_ops(self) -> list[tuple[Version, Version]]:
        """Return the previous and the current version of each op that changed."""
        if self.before is None or self.run is None:
            return []
        before, after = self.before.versions, self.run.versions
        return [(before[op], after[op]) for op in self.run.changed_ops(self.before)]

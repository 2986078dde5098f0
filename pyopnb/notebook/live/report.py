"""Report the runs of a live output: versions, settings, time, result or error, and changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pyopnb.common import messages
from pyopnb.diffs import Diff, diff
from pyopnb.display import SteadyColors, markup, show
from pyopnb.notebook.live.run import Run
from pyopnb.notebook.live.shown import Shown

__all__ = ["LiveState", "report"]

_COLUMN = "display:inline-block;margin:0 8px 4px 0;vertical-align:top"
# Three heat maps are side by side; curves need more room.
_NARROW, _WIDE = "344px", "100%"


@dataclass(frozen=True)
class LiveState:
    """The runs of a live output.

    Attributes
    ----------
    run : Run or None
        The last that ended.
    good : Run or None
        The last without an error; its result stays when a later run raises.
    before : Run or None
        The one that the last is compared with.
    diff : Diff or None
        How their results differ.
    """

    run: Run | None = None
    good: Run | None = None
    before: Run | None = None
    diff: Diff | None = None


def report(
    state: LiveState,
    baseline: str,
    *,
    ended: bool = False,
    running: float = 0.0,
    colors: SteadyColors,
) -> Shown:
    """Write the state of a live output as text and as HTML.

    Parameters
    ----------
    baseline : str
        The run with which the last one is compared.
    running : float
        When the run in flight began; 0 if none is.
    colors : SteadyColors
        Of the runs so far, as pictures that are drawn again must not jump.
    """
    parts = list(_parts(state, baseline, ended, running, colors))
    # The result of the user's own function keeps its size.
    most = markup.MAX_BYTES
    if state.good is not None and state.good.shown is not None:
        most += len(state.good.shown.html.encode())
    page = markup.join([part.html for part in parts], most)
    return Shown(page, "\n".join([part.text for part in parts]))


def _parts(
    state: LiveState, baseline: str, ended: bool, running: float, colors: SteadyColors
) -> Iterator[Shown]:
    if running:
        text = f"running since {_clock(running)}"
        bar = '<progress aria-label="running"></progress>'
        yield Shown(f"<div>{bar} {markup.escape(text)}</div>", text)
    run, good, before = state.run, state.good, state.before
    if run is None:
        return
    # The head names the model, so that two outputs can be told apart in the saved notebook.
    head = _head(run)
    if ended:
        head += " · ended"
    yield _remark(head)
    if run.error:
        text = run.traceback()
        yield Shown(markup.alert(type(run.error).__name__, text), text)
        if good is not None:
            yield _remark(f"the last result without an error: {_head(good)}")
    if good is not None:
        yield _results(state, good, baseline, colors)
    if before is not None:
        for name, (old, new) in run.changed_settings(before).items():
            yield _remark(f"{name}: {old} → {new}")
        # The changed lines of the class are shown beside the numbers that they changed.
        for op in run.changed_ops(before):
            first, second = before.versions[op], run.versions[op]
            change = diff(first, second)
            title = f"changes in {op}, version {first.number} → {second.number}"
            changes = show(change, verdict=False).body
            yield Shown(markup.details(title, changes, open=True), str(change))


def _results(state: LiveState, good: Run, baseline: str, colors: SteadyColors) -> Shown:
    """Show the last result, beside the one before it and their difference."""
    if state.before is None or state.diff is None:
        return _drawn(good, colors)
    if good.result is not None:
        colors.hold(good.result)
    before, now = _drawn(state.before, colors), _drawn(good, colors)
    legend = markup.note(f"a: now, b: {baseline}; colors and axes hold all runs so far")
    against = legend + colors.diff_html(state.diff, ("now", baseline))
    columns = {baseline: before.html, "now": now.html, f"against {baseline}": against}
    facts = state.diff.worst.facts
    is_map = facts is not None and facts.pairs is None and good.shown is None
    if len(state.diff.parts) == 1 and facts is not None and facts.pairs and facts.differing:
        # The table or the curves of the difference have all numbers of both.
        del columns[baseline]
    style = f"{_COLUMN};max-width:{_NARROW if is_map else _WIDE}"
    html = ""
    for title, content in columns.items():
        html += f'<div style="{style}"><b>{markup.escape(title)}</b>{content}</div>'
    return Shown(html, f"{now.text}\nagainst {baseline}: {state.diff}")


def _drawn(run: Run, colors: SteadyColors) -> Shown:
    if run.shown is not None or run.result is None:
        return run.shown or Shown("", "")
    return Shown(colors.result_html(run.result, run.feeds), repr(run.result))


def _remark(text: str) -> Shown:
    return Shown(markup.note(text), text)


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _head(run: Run) -> str:
    ops = [f"{name} version {version.number}" for name, version in run.versions.items()]
    words = [", ".join(ops) or "no ops"]
    words += [f"{name} = {value}" for name, value in run.settings.items()]
    duration = messages.duration(run.seconds)
    words.append(f"stopped after {duration}" if run.interrupted else duration)
    words.append(_clock(run.ended))
    return " · ".join(words)

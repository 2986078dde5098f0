"""One run of a session for a live output: its result, the op versions it used, and its error."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from pyopnb.common import sanitize
from pyopnb.engine import Result, Session, Version, op_names, registry
from pyopnb.errors import InputError
from pyopnb.notebook.live.shown import ResultView, Shown, shown_by
from pyopnb.notebook.tracebacks import cell_of

__all__ = ["Run", "require_session", "run_session", "set_attrs"]

_PACKAGE = str(Path(__file__).parents[2])


@dataclass(frozen=True, eq=False)
class Run:
    """The outcome of one run.

    Attributes
    ----------
    versions : dict
        The versions of the session's ops, by op name.
    settings : dict
        The values that the run used and the model does not say, as text: of controls, and of
        attrs that were set.
    result : Result or None
        None if it raised.
    ended : float
        As `time.time` gives it.
    feeds : dict
        What the run was fed.
    shown : Shown or None
        The view of the result that the user asked for.
    """

    versions: Mapping[str, Version]
    settings: Mapping[str, str]
    seconds: float
    result: Result | None
    error: BaseException | None
    ended: float
    feeds: Mapping[str, Any] = field(default_factory=dict)
    shown: Shown | None = None

    @property
    def interrupted(self) -> bool:
        """Tell whether the user stopped the run."""
        return isinstance(self.error, KeyboardInterrupt)

    def traceback(self) -> str:
        """Format the error with the user's own lines only."""
        if self.error is None:
            return ""
        if self.interrupted:
            return "interrupted"
        error = traceback.TracebackException.from_exception(self.error)
        frames = [frame for frame in error.stack if not frame.filename.startswith(_PACKAGE)]
        error.stack = _UserFrames(frames)
        return "".join(error.format(chain=False)).rstrip()

    def changed_settings(self, before: Run) -> dict[str, tuple[str, str]]:
        """List the settings that differ from an earlier run, with both values."""
        changes = {}
        for name in {**before.settings, **self.settings}:
            old = before.settings.get(name, "the model's")
            new = self.settings.get(name, "the model's")
            if old != new:
                changes[name] = (old, new)
        return changes

    def changed_ops(self, before: Run) -> list[str]:
        """List the ops whose version differs from an earlier run."""
        return [n for n, v in self.versions.items() if before.versions.get(n, v) is not v]


class _UserFrames(traceback.StackSummary):
    """Frames whose cells are named as IPython names them, and not by temporary files."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **options: Any) -> str:
        text = super().format_frame_summary(frame_summary, **options)
        shell = get_ipython()
        cell = cell_of(shell, frame_summary.filename) if shell is not None else ""
        return text.replace(f'File "{frame_summary.filename}"', cell) if cell else text


def require_session(session: object, where: str) -> None:
    """Raise `InputError` unless this is a session of pyopnb."""
    if not isinstance(session, Session):
        got, next = sanitize(type(session).__name__), f"pyopnb.{where}(pyopnb.Session(model), x=x)"
        raise InputError(where, expected="a pyopnb.Session", got=got, next=next)


def set_attrs(session: Session) -> dict[str, str]:
    """List the attrs of a session that differ from the model's, as text."""
    settings = {}
    for label, attrs in session.changed_attrs.items():
        for name, value in attrs.items():
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            settings[f"{label}.{name}"] = sanitize(text)
    return settings


def run_session(
    session: Session,
    feeds: Mapping[str, Any],
    settings: Mapping[str, str],
    options: Any,
    view: ResultView = None,
) -> Run:
    """Run a session, and return the outcome.

    An exception is part of the outcome: it belongs in the output, not in the cell that redefined
    the op.

    Parameters
    ----------
    settings : dict
        For the outcome.
    options : RunOptions
        Set ``terminate`` in them to stop the run.
    view : callable or str, optional
        As for `shown_by`. If it raises, the run counts as one that raised.
    """
    # The versions are taken before the run, which uses them to its end.
    versions = {}
    for name in session.state.ops:
        op = registry.find(*op_names.split_name(name))
        if op is not None:
            versions[name] = op.current
    result: Result | None = None
    error: BaseException | None = None
    shown: Shown | None = None
    start = time.perf_counter()
    seconds = 0.0
    try:
        outputs = session.run(None, feeds, options)
        seconds = time.perf_counter() - start
        result = Result(dict(zip(session.state.feeds.output_names, outputs, strict=True)))
        if view is not None:
            shown = shown_by(view, result, feeds)
    except (Exception, KeyboardInterrupt) as raised:
        result, error = None, KeyboardInterrupt() if options.terminate else raised
        seconds = seconds or time.perf_counter() - start
    return Run(versions, settings, seconds, result, error, time.time(), feeds, shown)

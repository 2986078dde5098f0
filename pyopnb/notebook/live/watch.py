"""``pyopnb.watch``: an output that runs a session again whenever an op or an attr changes."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.diffs import diff
from pyopnb.engine import Session, check_arguments
from pyopnb.notebook.live.output import LiveOutput
from pyopnb.notebook.live.pane import weakly
from pyopnb.notebook.live.run import Run, require_session
from pyopnb.notebook.live.shown import ResultView

__all__ = ["Watch", "watch"]


class Watch(LiveOutput):
    """An output that runs a session again whenever an op is redefined or an attr is set.

    `watch` makes one.

    Attributes
    ----------
    result : Result or None
        The result of the last run without an error.
    error : BaseException or None
        The exception of the last run.
    diff : Diff or None
        How the result differs from the one with the previous versions or attrs.
    seconds : float
        Duration of the last run.
    runs : int
        How often the session was run here.
    closed : bool
        Whether the output has ended.
    """

    def __init__(
        self,
        session: Session,
        feeds: Mapping[str, Any],
        tolerance: tuple[float | None, float | None],
        view: ResultView,
    ) -> None:
        super().__init__(session, feeds, view, tolerance)
        self._forget_attrs = weakref.finalize(self, session.subscribe(weakly(self._follow)))
        self.refresh()

    def _baseline(self, run: Run) -> Run | None:
        """Compare with the last good run if an op or an attr changed since.

        Without a change, the new run is compared with the same run as before.
        """
        good = self._state.good
        if good is None or run.error or run.changed_ops(good) or run.changed_settings(good):
            return good
        return self._state.before

    def close(self) -> None:
        """Stop following the ops for good; the output stays as it is."""
        self._forget_attrs()
        super().close()


@check_arguments
def watch(
    session: Session,
    /,
    *feeds: Any,
    rtol: float | None = None,
    atol: float | None = None,
    view: ResultView = None,
    **named: Any,
) -> Watch:
    """Run a session now, and again in the same output whenever an op or an attr changes.

    The output shows the result, how it differs from the previous one, the time, the attrs that
    differ from the model's, and the changed lines of the class. If a run raises, the exception
    appears there, above the last good result, and not in the cell that redefined the op. A long run
    does not block the cell, and a button stops it. Where an output cannot be updated after its
    cell, as in a terminal or ``jupyter nbconvert --execute``, the cell waits for its runs. The
    output ends when its cell is deleted or run again. The saved notebook keeps its last state as
    plain HTML.

    In JupyterLab and Notebook 7, the output follows again after the page was reloaded, or opened
    later or twice, as long as the kernel runs. Elsewhere the last state is shown, and says that it
    is not live.

    Parameters
    ----------
    session : Session
        A `pyopnb.Session`.
    *feeds, **named
        As in a call of the session. Arrays are copied.
    rtol, atol : float, optional
        As for `pyopnb.diff`.
    view : callable or str, optional
        Called with the result, to show its return value instead: a matplotlib figure, an array, or
        anything that IPython displays. Or ``"boxes"``, which draws outputs ``[N,4]`` (left, top,
        right, bottom) on the picture that is fed, or ``"audio"``, with players at 16,000 Hz. For
        another rate, write ``view=lambda result: IPython.display.Audio(result["y"], rate=44_100)``.

    Returns
    -------
    Watch
        It displays itself as the last expression of a cell. ``stop()`` stops a run and ``close()``
        ends the output; ``result``, ``error``, ``diff`` and ``seconds`` wait for a run in progress.

    Raises
    ------
    InputError
        The session is not a `pyopnb.Session`, the feeds do not fit it, the view has an unknown
        name, or a tolerance is no tolerance.

    Examples
    --------
    The last line of a cell shows the output::

        pyopnb.watch(session, x=x)

    Show one output of the model, and let rounding be no difference::

        pyopnb.watch(session, x=x, atol=1e-3, view=lambda result: result["scores"])
    """
    require_session(session, "watch")
    # A wrong tolerance is refused here, in the cell, and not at the first comparison.
    diff(0.0, 0.0, rtol=rtol, atol=atol)
    return Watch(session, _copy_feeds(session, feeds, named), (rtol, atol), view)


def _copy_feeds(
    session: Session, feeds: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Copy the feeds into memory that no other code writes to."""
    by_name = session.state.feeds.by_name(feeds, named)
    # The feeds are checked once, and copied: a later change of the user's array must not look
    # like one of the op's.
    checked, _ = session.state.feeds.check(by_name)
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in checked.items()
    }

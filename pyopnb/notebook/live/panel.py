"""The panel of ``%pyop panel``: ops with buttons, and the sessions and outputs that use them."""

from __future__ import annotations

import re
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets
from IPython.core.getipython import get_ipython

from pyopnb.common import Table, locks
from pyopnb.display import markup, show, to_html
from pyopnb.engine import Op, Session, op_names, registry
from pyopnb.notebook.live.cells import LiveCells, current_run
from pyopnb.notebook.live.pane import Pane, close_widget

__all__ = ["Panel"]


class Panel:
    """The ops with their buttons, and what uses them; ``%pyop panel`` makes one.

    It follows each definition, and each cell. It lives while its cell shows it or a variable holds
    it.

    Attributes
    ----------
    closed : bool
        Whether it has ended.
    """

    def __init__(self, cells: LiveCells) -> None:
        self._cells = cells
        self._lock = threading.RLock()
        self._rows: dict[str, _OpRow] = {}
        self._errors: dict[str, str] = {}
        self._ops = ipywidgets.VBox()
        self._pane = Pane([self._ops], lambda: None)
        self.closed = False

        def on_change(changed: object) -> None:
            cells.update_panels()

        self._unsubscribe = registry.subscribe(on_change, removed=on_change)
        weakref.finalize(self, self._unsubscribe)
        cells.panels.add(self)
        # What was raised before the panel was opened.
        runs = [output.last_run for output in cells.outputs]
        for error in (getattr(sys, "last_value", None), *(run.error for run in runs if run)):
            if error is not None:
                self.note(error)
        self.update()

    @property
    def widget(self) -> ipywidgets.Widget:
        """Return the panel as an ordinary widget."""
        return self._pane.widget

    def note(self, error: BaseException) -> None:
        """Keep an error as the last one of each op that it names."""
        # Only the text is kept: the error holds the frames of the user's code.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        for op in registry:
            if re.search(rf"(?<![\w.:]){re.escape(op.name)}(?!\w)", text):
                self._errors[op.name] = text

    def update(self) -> None:
        """Show the ops, sessions and live outputs as they are now."""
        locks.locked(self._lock, self._update)

    def _update(self) -> None:
        if self.closed:
            return
        rows = {}
        for op in registry:
            if not op.is_generated:
                # A row that stays keeps the focus and what is unfolded.
                row = self._rows.pop(op.name, None) or _OpRow(op.name)
                row.show(op, self._errors.get(op.name, ""))
                rows[op.name] = row
        gone, self._rows = self._rows, rows
        self._ops.children = [row.widget for row in rows.values()]
        for row in gone.values():
            close_widget(row.widget)
        table = self._uses()
        parts = [table._repr_html_()]
        if not rows:
            parts.insert(0, to_html(registry))
        text = f"{show(registry).text}\n\n{table!r}"
        self._pane.show(markup.join(parts), text, to_html(registry), running=False)

    def _uses(self) -> Table:
        """List the sessions of the notebook's variables, and the live outputs."""
        shell: Any = get_ipython()
        names: dict[Session, str] = {}
        for name, value in list(shell.user_ns.items()):
            # IPython keeps what cells returned under such names.
            if isinstance(value, Session) and not name.startswith("_"):
                names.setdefault(value, name)
        rows = [("session", name, _versions(session), "") for session, name in names.items()]
        for output in list(self._cells.outputs):
            session, run = output.session, output.last_run
            state = ""
            if run is not None and run.error is not None:
                state = type(run.error).__name__
            kind = type(output).__name__.lower()
            rows.append((kind, names.get(session, ""), _versions(session), state))
        otherwise = "no variable is a session, and no output is live"
        return Table(("live", "session", "ops", "error"), sorted(rows), otherwise)

    def close(self) -> None:
        """Stop following the ops; the output stays as it is."""
        self._unsubscribe()
        self._cells.release(self)
        locks.locked(self._lock, self._close)

    def _close(self) -> None:
        self.closed = True
        self._pane.close()

    def __repr__(self) -> str:
        return f"{registry!r}\n\n{self._uses()!r}"

    def _ipython_display_(self) -> None:
        self._cells.hold(self, current_run())
        html, text = to_html(registry), repr(self)
        self._pane.display(self._uses()._repr_html_(), text, html)


class _OpRow:
    """An op in the panel: its version, its buttons, its source, and what was said last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head, self._content = ipywidgets.HTML(), ipywidgets.Output()
        # Of the last click.
        self._answer = ""
        self._facts: list[str] = []
        line = [self._head]
        for label, act in (("roll back", self._roll_back), ("check", self._check)):
            button = ipywidgets.Button(description=label, tooltip=f"{label} {name}")
            button.on_click(partial(self._click, act))
            line.append(button)
        self.widget = ipywidgets.VBox([ipywidgets.HBox(line), self._content])

    def show(self, op: Op, error: str) -> None:
        """Show the current version of the op, and its last error, if any."""
        version = op.current
        self._head.value = markup.escape(repr(version))
        source = markup.note("its source is not known")
        if version.source is not None:
            source = markup.source(version.source)
        self._facts = [markup.details("source", source)]
        if error:
            self._facts.append(markup.alert("last error", error))
        self._draw()

    def _draw(self) -> None:
        data = {"text/html": markup.join([*self._facts, self._answer])}
        self._content.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    def _click(self, act: Callable[[], str], button: Any) -> None:
        # An exception here would only be in the kernel's log.
        try:
            self._answer = act()
        except (Exception, KeyboardInterrupt) as error:
            text = "".join(traceback.format_exception_only(error)).rstrip()
            self._answer = markup.alert(button.description, text)
        self._draw()

    def _roll_back(self) -> str:
        return markup.note(repr(registry.rollback(self._name)))

    def _check(self) -> str:
        from pyopnb.testing import check

        return check(self._name)._repr_html_()


def _versions(session: Session) -> str:
    """Name the ops of a session with the versions that its next run uses."""
    ops = [registry.find(*op_names.split_name(name)) for name in session.state.ops]
    return ", ".join(str(op.current) for op in ops if op is not None)

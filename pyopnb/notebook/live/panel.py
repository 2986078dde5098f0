"""The panel of ``%pyop panel``: ops with buttons, and the sessions and outputs that use them."""

from __future__ import annotations

import re
import threading
import traceback
from collections import defaultdict

import ipywidgets

from pyopnb.common import Table, locks
from pyopnb.display import markup, to_html
from pyopnb.engine import Op, Session, registry
from pyopnb.notebook.expressions import user_namespace
from pyopnb.notebook.live.cells import LiveCells, current_run
from pyopnb.notebook.live.pane import Pane

__all__ = ["Panel"]


class Panel:
    """The ops with their buttons, and what uses them; ``%pyop panel`` makes one.

    It follows each definition and each cell, until its own cell is deleted or run again.
    """

    def __init__(self, cells: LiveCells) -> None:
        self._cells, self._lock = cells, threading.RLock()
        self._rows: dict[str, _OpRow] = defaultdict(_OpRow)
        self._ops = ipywidgets.VBox()
        self._content = "", "", ""
        self._pane = Pane([self._ops], lambda: None)
        self.widget = self._pane.widget

        def on_change(_: object) -> None:
            cells.update_panels()

        self._unsubscribe = registry.subscribe(on_change, removed=on_change)
        cells.hold(self, current_run())
        cells.panels.add(self)
        self.update()

    def note(self, error: BaseException | None) -> None:
        """Keep an error as the last one of each op that it names."""
        # Only the text is kept: the error holds the frames of the user's code.
        text = _text(error)
        for name, row in list(self._rows.items()):
            if re.search(rf"(?<![\w.:]){re.escape(name)}(?!\w)", text):
                row.error = text

    def update(self) -> None:
        """Show the ops, sessions and live outputs as they are now."""
        locks.locked(self._lock, self._update)

    def _update(self) -> None:
        # A row that stays keeps the focus and what is unfolded.
        ops = {op.name: op for op in registry if not op.is_generated}
        for name, op in ops.items():
            self._rows[name].show(op)
        self._ops.children = [self._rows[name].pane.widget for name in ops]
        for name in self._rows.keys() - ops:
            self._rows.pop(name).pane.close()
        content = self._describe()
        # A terminal prints what is shown, and not after each cell.
        if content != self._content:
            self._content = content
            self._pane.show(*content, running=False)

    def _describe(self) -> tuple[str, str, str]:
        """Return what is below the ops as HTML, all as text, and the ops as HTML to be saved."""
        names = {}
        for name, value in list(user_namespace().items()):
            # IPython keeps what cells returned under such names.
            if isinstance(value, Session) and not name.startswith("_"):
                names[value] = name
        uses = [("Session", session) for session in names]
        uses += [(type(output).__name__, output.session) for output in self._cells.outputs]
        rows = [(kind, names.get(used, ""), ", ".join(used.state.ops)) for kind, used in uses]
        otherwise = "no variable is a session. Try: session = pyopnb.Session(model)"
        table = Table(("live", "session", "ops"), rows, otherwise)
        below, ops = table._repr_html_(), to_html(registry)
        if not self._rows:
            below = ops + below
        return below, f"{registry!r}\n\n{table!r}", ops

    def close(self) -> None:
        """Stop following the ops; the output stays as it is."""
        self._unsubscribe()
        self._cells.release(self)
        for row in self._rows.values():
            row.pane.close()
        self._pane.close()

    def __repr__(self) -> str:
        return self._content[1]

    def _ipython_display_(self) -> None:
        self._pane.display(*self._content)


class _OpRow:
    """An op in the panel: its buttons, version, source and last error, and what a check said."""

    def __init__(self) -> None:
        self.error = self._answer = ""
        # No wider than their words, and never narrower, so that those of all rows are in line.
        layout = {"width": "auto", "flex": "0 0 auto"}
        texts = ("roll back", "check")
        buttons = [ipywidgets.Button(description=text, layout=layout) for text in texts]
        for button in buttons:
            button.on_click(self._click)
        self.pane = Pane(buttons, lambda: None)
        self.pane.widget.layout.flex_flow = "row"

    def show(self, op: Op) -> None:
        """Show the current version of the op, its last error, and the last answer."""
        self._op = op
        parts = [markup.details(repr(op.current), to_html(op.current)), self._answer]
        if self.error:
            parts.append(markup.alert("last error", self.error))
        self.pane.replace(markup.join(parts), repr(op))

    def _click(self, button: ipywidgets.Button) -> None:
        from pyopnb.testing import check

        self._answer = ""
        # An exception here would only be in the kernel's log.
        try:
            if button.description == "check":
                self._answer = check(self._op.name)._repr_html_()
            else:
                registry.rollback(self._op.name)
        except (Exception, KeyboardInterrupt) as error:
            self.error = _text(error)
        self.show(self._op)


def _text(error: BaseException | None) -> str:
    return "".join(traceback.format_exception_only(error)).rstrip()

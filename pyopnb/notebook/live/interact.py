"""``pyopnb.interact``: sliders and boxes for the attrs of a session's ops and for feeds, with the result below."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ipywidgets
import numpy as np
from IPython.display import display

from pyopnb.diffs.api import diff
from pyopnb.diffs.arrays.diff import Diff
from pyopnb.display.html import note
from pyopnb.notebook.live.controls import Control, attr_control, feed_control
from pyopnb.notebook.live.following import Following
from pyopnb.notebook.live.output import Clock
from pyopnb.notebook.live.picture import as_html, as_text
from pyopnb.notebook.live.run import Run, refuse_other, run
from pyopnb.ops.errors import FeedError, PyopError, hide_internal_frames, sanitize, suggest
from pyopnb.ops.registry import registry, split_name
from pyopnb.ops.result import Result
from pyopnb.ops.schema import REQUIRED, Attr
from pyopnb.ops.text_table import Table
from pyopnb.ops.types import ANY
from pyopnb.runtime.session import Session

__all__ = ["MIME", "Interact", "interact"]

MIME = "application/vnd.pyopnb.controls+json"
"""For which the JupyterLab extension shows the widgets while they live, and the table in their place where they do not."""

_QUICK = 0.1  # seconds within which a run follows a slider while it is dragged; a slower one waits until it is let go


class Interact(Following):
    """Controls for a session, and the result that follows them; made by `interact`.

    Attributes
    ----------
    controls : dict
        `Control` by name.
    values : dict
        What the controls say now.
    result, reference : Result or None
        Of the last run that ended well, and the one that was pinned.
    diff : Diff or None
        What sets the result apart from the reference.
    error : BaseException or None
        What the last run raised.
    """

    def __init__(
        self, session: Session, feeds: Mapping[str, Any], controls: Mapping[str, Control], at: Mapping[str, Any]
    ) -> None:
        super().__init__(session)
        self._feeds, self.controls = dict(feeds), dict(controls)
        self._at = dict(at)  # the node or op of each attr; feeds are not in it
        self._pinned: Run | None = None
        self.diff: Diff | None = None
        self._pin = ipywidgets.Button(description="Pin as reference", tooltip="Hold what follows against this result")
        self._pin.on_click(lambda _: self.pin())
        self.widget = ipywidgets.VBox([*(control.widget for control in self.controls.values()), self._pin])
        for control in self.controls.values():
            control.widget.observe(lambda _: self.beat(), names=["value"])
        self.beat()

    # ---- what it knows -------------------------------------------------------------------------------------------------------

    @property
    def values(self) -> dict[str, Any]:
        return {name: control.value for name, control in self.controls.items()}

    @property
    def reference(self) -> Result | None:
        return self._pinned.result if self._pinned else None

    # ---- running -------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._apply()
        except (Exception, KeyboardInterrupt) as error:
            self._last = Run({}, 0.0, None, error, time.time())  # an attr that the op refuses is an answer as well
        else:
            with Clock(self._tick):
                self._last = run(self._session, self._given())
        self._judge(self._last)

    def _apply(self) -> None:
        """Give the session's nodes the attrs that changed."""
        attrs = self._session.attrs
        for name, (where, attr, labels) in self._at.items():
            value = self.controls[name].value
            if any(attrs[label].get(attr) != value for label in labels if label in attrs):
                self._session.set_attrs(where, **{attr: value})

    def _given(self) -> dict[str, Any]:
        scalars = {name: control.value for name, control in self.controls.items() if name not in self._at}
        return {**self._feeds, **scalars}

    def _judge(self, now: Run) -> None:
        if now.error is not None:
            return
        self._good = now
        self.diff = None if self._pinned is None else diff(now.result, self._pinned.result)
        for control in self.controls.values():
            if hasattr(control.widget, "readout"):  # a slider
                control.widget.continuous_update = now.seconds < _QUICK

    def _told(self) -> tuple[str, str]:
        if self._last is None:
            return "", "not run"
        found = self.diff if self._last.error is None else None
        # The table of the controls is not drawn anew, so the result says itself what it belongs to.
        said = [f"{name} = {control.said}" for name, control in self.controls.items()]
        held = self._last, None, found, " · ".join([*said, "ended"] if self.closed else said), "against the reference"
        return as_html(*held), as_text(*held)

    def _ipython_display_(self) -> None:
        if not self.closed:
            self._display_controls()
        super()._ipython_display_()

    def _display_controls(self) -> None:
        """The widgets, with their values as a table for whoever opens the saved notebook without a kernel."""
        table = Table(("control", "first value"), [(name, c.said) for name, c in self.controls.items()])
        text = f"{table._repr_html_()}{note('Run this cell to move the controls.')}"
        bundle = {**self.widget._repr_mimebundle_(), MIME: {}, "text/html": text, "text/plain": repr(table)}
        display(bundle, raw=True)  # type: ignore[no-untyped-call]

    # ---- what the user does with it ------------------------------------------------------------------------------------------

    def pin(self) -> None:
        """Make the result the reference that what follows is held against."""
        self._pinned = self._good
        if self._good is not None:
            self.diff = diff(self._good.result, self._good.result)
        self._show()

    def set(self, **values: Any) -> None:
        """Move controls, as a user does with the mouse.

        Raises
        ------
        FeedError
            There is no such control.
        """
        for name, value in values.items():
            if name not in self.controls:
                raise _unknown(name, self.controls)
            self.controls[name].move(value)

    def close(self) -> None:
        """Let go of the session; what is shown stays."""
        super().close()
        self.widget.close_all()


@hide_internal_frames
def interact(session: Session, /, **asked: Any) -> Interact:
    """Sliders, boxes and menus for attrs and scalar feeds of a session; the result below follows them.

    Changing an attr builds nothing anew: see `Session.set_attrs`.

    Parameters
    ----------
    session : Session
    **asked
        By name of an input of the model, or of an attr of its ops. To an input: an array, which is fed as it is, or a number,
        bool, text, ``(lowest, highest)``, ``(lowest, highest, step)`` or list of choices, which become a control. To an attr:
        the same; ``None`` leaves it to its schema. Where several ops have an attr, or one node is meant:
        ``**{"SoftClip.limit": (0.1, 5.0)}``. Where no attr is named, all have controls that can have one.

    Returns
    -------
    Interact
        Shows itself as the last expression of a cell. Its button pins the result as the reference of a diff.

    Raises
    ------
    FeedError
        A name is unknown, an input has no value, or what was asked for does not fit.
    """
    refuse_other(session, "interact")
    types = session._feeds.types
    attrs = _attrs(session)
    fixed: dict[str, Any] = {}
    controls: dict[str, Control] = {}
    at: dict[str, Any] = {}
    if not any(name not in types for name in asked):
        asked = {**asked, **{name: None for name, (_, attr, _, now) in attrs.items() if "." not in name and _simple(attr, now)}}
    for name, value in asked.items():
        if name in types:
            if isinstance(value, np.ndarray) or not isinstance(value, (bool, int, float, str, tuple, list)):
                fixed[name] = value.copy() if isinstance(value, np.ndarray) else value
            else:
                controls[name] = feed_control(name, types[name] or ANY, value)
        elif name in attrs:
            where, attr, labels, now = attrs[name]
            controls[name] = attr_control(name, attr, now, value)
            at[name] = where, attr.name, labels
        else:
            raise _unknown(name, [*types, *attrs])
    session._feeds.checked({**fixed, **{name: control.value for name, control in controls.items() if name in types}})
    return Interact(session, fixed, controls, at)


def _unknown(name: str, known: Any) -> FeedError:
    expected = "an input of the model or an attr of its ops"
    return FeedError(f"interact, {sanitize(name)}", expected=expected, got=sanitize(name), next=suggest(name, known))


def _simple(attr: Attr, now: Any) -> bool:
    try:
        attr_control(attr.name, attr, now, None)
    except PyopError:
        return False
    return True


def _attrs(session: Session) -> dict[str, tuple[str, Attr, list[str], Any]]:
    """What can be controlled, by ``attr`` where one op has it, ``Op.attr`` and ``node.attr``: where it is, and its value."""
    found: dict[str, tuple[str, Attr, list[str], Any]] = {}
    plain: dict[str, set[str]] = {}
    for label, op, values in session.nodes():
        for attr in registry[op].current.schema.attrs:
            now = values.get(attr.name, REQUIRED)
            plain.setdefault(attr.name, set()).add(op)
            found[f"{label}.{attr.name}"] = label, attr, [label], now
            for name in (f"{split_name(op)[1]}.{attr.name}", attr.name):
                labels = [*found[name][2], label] if name in found else [label]
                found[name] = op, attr, labels, now
    return {name: held for name, held in found.items() if len(plain.get(name, ())) < 2}

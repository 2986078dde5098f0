"""``pyopnb.interact``: controls for feeds and for attrs of a session's ops, above the result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ipywidgets
import numpy as np

from pyopnb.common import Table, messages
from pyopnb.diffs import diff
from pyopnb.display import markup
from pyopnb.engine import (
    ANY,
    Result,
    Session,
    check_arguments,
    one_run,
    op_names,
    op_schema,
    registry,
)
from pyopnb.errors import InputError, PyopError
from pyopnb.notebook.live.controls import Control, attr_control, feed_control
from pyopnb.notebook.live.explorer import Explorer
from pyopnb.notebook.live.output import LiveOutput
from pyopnb.notebook.live.pane import weakly
from pyopnb.notebook.live.run import Run, require_session
from pyopnb.notebook.live.shown import ResultView

__all__ = ["Interact", "interact"]

# Runs that take fewer seconds follow a slider while it is dragged; others wait
# until it is released.
_FAST = 0.1


@dataclass(frozen=True)
class _Target:
    """An attr that can be controlled, of one node or of all nodes of an op."""

    # The node or op, as `Session.set_attrs` takes it.
    where: str
    attr: op_schema.Attr
    nodes: tuple[str, ...]
    value: Any


class Interact(LiveOutput):
    """Controls of a session, and the result that follows them; created by `interact`.

    Attributes
    ----------
    session : Session
        A session with its own attrs, so that the controls do not change your session.
    controls : dict
        `Control` by name.
    values : dict
        The controls' current values.
    result, reference : Result or None
        The result of the last run without an error, and the pinned result.
    diff : Diff or None
        How the result differs from the reference.
    error : BaseException or None
        The exception of the last run.
    """

    _baseline_name = "the reference"

    def __init__(
        self,
        session: Session,
        feeds: Mapping[str, Any],
        controls: Mapping[str, Control],
        targets: Mapping[str, _Target],
        view: ResultView,
    ) -> None:
        super().__init__(session.with_attrs(), feeds, view)
        self.controls = dict(controls)
        # These are the controls of attrs; the others are of feeds.
        self._targets = dict(targets)
        self._pinned: Run | None = None
        self._pin_button = ipywidgets.Button(
            description="Pin as reference", tooltip="Compare later results with this one"
        )
        self._call = ipywidgets.HTML()
        self._pin_button.on_click(weakly(self.pin))
        # All controls begin at one place, behind the longest name.
        width = f"{max(map(len, self.controls), default=0)}ch"
        for control in self.controls.values():
            control.widget.style.description_width = width
            control.widget.observe(weakly(self.refresh), names=["value"])
        self.refresh()

    @property
    def values(self) -> dict[str, Any]:
        return {name: control.value for name, control in self.controls.items()}

    @property
    def reference(self) -> Result | None:
        if self._pinned:
            return self._pinned.result
        return None

    @property
    def call(self) -> str:
        """Return the Python that sets the attrs of the controls on your own session."""
        calls: dict[tuple[str, ...], list[str]] = {}
        for name, target in self._targets.items():
            # An attr that one op has alone needs no op.
            where = () if name == target.attr.name else (repr(target.where),)
            setting = f"{target.attr.name}={self.controls[name].value!r}"
            calls.setdefault((target.where, *where), [*where]).append(setting)
        return "\n".join(f"session.set_attrs({', '.join(words)})" for words in calls.values())

    # ---- running

    def _current_feeds(self) -> dict[str, Any]:
        # A text that is no list raises here, and the op may refuse a value.
        values = self.values
        self._apply_attrs(values)
        self._call.value = self._call_html()
        scalars = {name: value for name, value in values.items() if name not in self._targets}
        return {**self._feeds, **scalars}

    def _settings(self) -> dict[str, str]:
        controlled = set()
        for target in self._targets.values():
            controlled |= {f"{node}.{target.attr.name}" for node in target.nodes}
        settings = {name: control.text for name, control in self.controls.items()}
        for name, text in super()._settings().items():
            if name not in controlled:
                settings[name] = text
        return settings

    def _baseline(self, run: Run) -> Run | None:
        return self._pinned

    def _run(self) -> Run | None:
        run = super()._run()
        if run is not None and run.error is None:
            for control in self.controls.values():
                # Only sliders have a readout.
                if hasattr(control.widget, "readout"):
                    control.widget.continuous_update = run.seconds < _FAST
        return run

    def _apply_attrs(self, values: Mapping[str, Any]) -> None:
        """Set the attrs that changed on the session's nodes."""
        attrs = self.session.attrs
        for name, target in self._targets.items():
            value, attr = values[name], target.attr.name
            # Setting an attr can rebuild the session, so only changed attrs are set.
            if any(attrs[node].get(attr) != value for node in target.nodes if node in attrs):
                self.session.set_attrs(target.where, **{attr: value})

    # ---- display ---------------------------------------------------------------------------------

    def _controls(self) -> list[ipywidgets.Widget]:
        widgets = [control.widget for control in self.controls.values()]
        return [*widgets, self._pin_button, self._call]

    def _call_html(self) -> str:
        """Write the call, which the JupyterLab extension lets users copy."""
        if not self._targets:
            return ""
        return f'<code class="pyopnb-copy">{markup.escape(self.call, 1_000)}</code>'

    def _controls_html(self) -> str:
        used = self._state.run.settings if self._state.run else {}
        rows = [(name, used.get(name, "")) for name in self.controls]
        return Table(("control", "value"), rows)._repr_html_() + str(self._call.value)

    # ---- called by users -------------------------------------------------------------------------

    def pin(self) -> None:
        """Make the result the reference that later results are compared with."""
        self.wait()
        pinned = self._state.good
        if pinned is not None:
            self._pinned = pinned
            self._state = replace(
                self._state, before=pinned, diff=diff(pinned.result, pinned.result)
            )
        self._update()

    def set(self, /, **values: Any) -> None:
        """Move controls, as a user would with the mouse.

        Parameters
        ----------
        **values
            Values by the name of the control.

        Raises
        ------
        InputError
            There is no such control.
        """
        for name, value in values.items():
            if name not in self.controls:
                raise _unknown(name, self.controls)
            self.controls[name].move(value)


@check_arguments
def interact(
    session: Session | np.ndarray,
    /,
    *feeds: Any,
    view: ResultView = None,
    **requests: Any,
) -> Interact | Explorer:
    """Show sliders, boxes and menus for attrs and scalar feeds of a session, with the result below.

    An array gets sliders for its leading axes, and menus for its colors, instead.

    The controls change the attrs of a separate session, which shares everything else with yours;
    see `Session.with_attrs`. A long run does not block the page, and a button stops it. Moving a
    control stops a run whose result is out of date.

    Parameters
    ----------
    session : Session or ndarray
        A `pyopnb.Session`; it keeps its own attrs. Or an array to look at.
    *feeds
        Inputs of the model in their order, as in a call of the session.
    **requests
        By the name of an input of the model or of an attr of its ops. An array is fed as it is. A
        number, bool, str, ``(min, max)``, ``(min, max, step)`` or list of choices becomes a
        control. For an attr, ``None`` chooses the control from the op's schema. If several ops have
        the attr, or to control a single node, write ``**{"SoftClip.limit": (0.1, 5.0)}``. If you
        name no attr, every attr that can have a control gets one. A number without a range gets a
        slider up to three times the number, of its sign.
    view : callable or str, optional
        Shows the result instead, as for `watch`.

    Returns
    -------
    Interact or Explorer
        It displays itself as the last expression of a cell. A button pins the result, and later
        results are compared with it.

    Raises
    ------
    InputError
        A name or view is unknown, an input has no value, or a request does not fit.

    Examples
    --------
    A slider for an attr, and a fixed array as the input::

        pyopnb.interact(session, x=x, limit=(0.1, 5.0))

    A slider with a step, a menu, and a slider for a scalar input of the model::

        pyopnb.interact(session, x=x, limit=(0.0, 5.0, 0.5), mode=["soft", "hard"], gain=(0.0, 2.0))
    """
    if isinstance(session, np.ndarray):
        if feeds or requests:
            got = f"{len(feeds) + len(requests)} more"
            advice = "pyopnb.interact(array), whose menus choose axes and colors"
            raise InputError("interact", expected="one array", got=got, next=advice)
        return Explorer(session)
    require_session(session, "interact")
    types = session.state.feeds.types
    requests = one_run.feeds_by_name(list(types), feeds, requests)
    available = _targets(session)
    arrays: dict[str, Any] = {}
    controls: dict[str, Control] = {}
    targets: dict[str, _Target] = {}
    # No attr was named, so all that can have a control get one.
    if all(name in types for name in requests):
        for name, target in available.items():
            with contextlib.suppress(PyopError):
                if "." not in name and name not in types:
                    controls[name] = attr_control(name, target.attr, target.value, None)
                    targets[name] = target
    for name, request in requests.items():
        if name in types and isinstance(request, (bool, int, float, str, tuple, list)):
            controls[name] = feed_control(name, types[name] or ANY, request)
        elif name in types:
            arrays[name] = request.copy() if isinstance(request, np.ndarray) else request
        elif name in available:
            targets[name] = target = available[name]
            controls[name] = attr_control(name, target.attr, target.value, request)
        else:
            raise _unknown(name, [*types, *available])
    # A wrong feed is refused here, in the cell, and not in the output of the first run.
    scalars = {name: control.value for name, control in controls.items() if name in types}
    session.state.feeds.check(session.state.feeds.by_name((), {**arrays, **scalars}))
    return Interact(session, arrays, controls, targets, view)


def _unknown(name: str, known: Iterable[str]) -> InputError:
    expected = "an input of the model or an attr of its ops"
    return InputError(
        f"interact, {name}",
        expected=expected,
        got=name,
        next=messages.suggest(name, known),
    )


def _targets(session: Session) -> dict[str, _Target]:
    """List the attrs that can be controlled, by name.

    An attr has the names ``node.attr`` and ``Op.attr``, and also ``attr`` if only one op has it.
    """
    targets: dict[str, _Target] = {}
    owners: dict[str, set[str]] = {}
    # A short name means an attr of one op only. An attr that several ops have needs the name
    # of the op or the node.
    for label, op, values in session.nodes():
        for attr in registry[op].current.schema.attrs:
            owners.setdefault(attr.name, set()).add(op)
            target = _Target(label, attr, (label,), values.get(attr.name, op_schema.REQUIRED))
            targets[f"{label}.{attr.name}"] = target
            for name in (f"{op_names.split_name(op)[1]}.{attr.name}", attr.name):
                nodes = (*targets[name].nodes, label) if name in targets else (label,)
                targets[name] = replace(target, where=op, nodes=nodes)
    return {name: target for name, target in targets.items() if len(owners.get(name, ())) < 2}

"""A model as a layered picture, with HTML around it, and as text."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.common import messages, plural, sanitize
from pyopnb.display.live_picture import live_picture, script
from pyopnb.display.model_boxes import GraphStyle, graph_of, text_lines
from pyopnb.display.model_facts import model_facts
from pyopnb.display.model_info import ModelInfo, Scope, title_of
from pyopnb.display.model_text import model_text
from pyopnb.display.page.markup import MAX_BYTES, details, join, note, pre
from pyopnb.display.svg.axes import quantity
from pyopnb.display.svg.boxes import BoxGraph, mark_look
from pyopnb.display.svg.colors import scale_for
from pyopnb.display.svg.folding import fold
from pyopnb.display.svg.graph import draw
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.views import Canvas, View, view
from pyopnb.engine import GraphIndex, Session, model_files, protos
from pyopnb.errors import ModelError

__all__ = ["view_model", "view_session"]

# A picture of more nodes does not show their names.
_NAMES_UP_TO = 80
# A box takes at least this many bytes of HTML.
_LEAST_BOX = 300
# The picture around a node has this many boxes.
_NEAR = 12
# The HTML of a folded body takes at most this many bytes.
_BODY_BYTES = 60_000
# A picture that is larger than this many pixels scrolls.
_WIDTH, _HEIGHT = 1_100, 700
# A misspelled name is compared with this many others.
_MOST_SUGGESTED = 5_000

_Value = TypeVar("_Value")


@view.register(Session)
def view_session(thing: Session, **options: Any) -> View:
    """Show the model that a session runs."""
    return view_model(thing.state.source(in_use=True).proto, **options)


@view.register(ModelProto)
@view.register(bytes)
@view.register(str)
@view.register(os.PathLike)
def view_model(
    model: ModelProto | bytes | str | os.PathLike[str],
    *,
    colors: Mapping[str, float] | None = None,
    legend: str = "",
    unit: str = "",
    log: bool | None = None,
    marks: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    around: str = "",
    room: int = MAX_BYTES,
) -> View:
    """Show a model.

    Parameters
    ----------
    colors : mapping, optional
        A number of each node, such as an error or a time, by an output's name or the node's name.
    legend : str
        The name of the numbers.
    unit : str
        The unit of the numbers, such as ``s``, which gets prefixes.
    log : bool, optional
        Whether the colors are logarithmic. By default they are if the largest number is over
        1,000 times the smallest.
    marks : mapping, optional
        Badges of nodes, with keys as in ``colors``: ``added``, ``removed``, ``changed``,
        or another short text.
    notes : mapping, optional
        Texts that the picture shows, where scripts run, for a node that is pointed at or clicked,
        by the names of its outputs. The first line of a text replaces the output's
        type, unless it is empty.
    around : str
        The name of an output or node, whose neighbors are drawn first; the whole graph is folded.
    room : int
        The most bytes of the HTML; groups are left out of it, if need be, but not in the file
        from ``save("….svg")``.

    Raises
    ------
    ModelError
        It is not a model, or it has no node of a name.
    """
    proto = model_files.as_proto(model)
    info = ModelInfo(proto)
    # Before any id is used: protobuf makes new objects for nodes that nothing references.
    scopes = _scopes(info)
    main = scopes[id(proto.graph)]
    # Names of all bodies take a while, and most pictures refer to none.
    by_name = _by_name(scopes.values()) if colors or marks or around else {}
    values = _select(by_name, colors or {}, "colors")
    badges = _select(by_name, marks or {}, "marks")
    centers = _select(by_name, {around: 0}, "around")
    scale = scale_for(values.values(), log=log, unit=unit) if values else None
    names = bool(around) or len(proto.graph.node) <= _NAMES_UP_TO
    style = GraphStyle(values, badges, names, legend, notes or {}, scale)
    # A constant that has a color or a mark stays a box, as it could not be seen otherwise.
    for scope in scopes.values():
        scope.fold({*values, *badges, *centers})
    graph = graph_of(main, style)
    title = _title(proto, main)
    alt = _alt(title, style)
    parts = [script()]
    # Alone in its output, a model says what it is.
    if room == MAX_BYTES:
        nodes = [node for scope in scopes.values() for node in scope.nodes]
        parts.append(pre("\n".join([title, *model_facts(main, nodes)])))
    space = room - sum(map(len, parts)) - 1_000
    # A node in a body is in no picture of the main graph.
    near = [at for at, node in enumerate(main.nodes, len(main.inputs)) if id(node) in centers]
    if near and len(graph.boxes) > _NEAR:
        parts.append(_graph_html(graph.near(near[0], _NEAR), alt, space // 3))
        space -= len(parts[-1])
        whole = f"the whole graph: {plural(len(main.nodes), 'node')}"
        parts.append(details(whole, _graph_html(fold(graph), alt, space)))
    else:
        parts.append(_graph_html(fold(graph), alt, space))
    parts += map(note, info.remarks[:3])
    parts += _folded_parts(scopes, style)
    return View(
        proto,
        title,
        model_text(title, main),
        join(parts, room),
        draw=lambda: draw(graph),
        canvas=_canvas(proto, scopes.values(), style),
    )


def _graph_html(graph: BoxGraph, alt: str, room: int) -> str:
    """Draw a graph, with its groups folded below it, in at most about ``room`` bytes."""
    html = ""
    if len(graph.boxes) * _LEAST_BOX < room:
        html = _image(draw(graph), alt, graph)
    if not html or len(html) > room:
        return note("there is no room for it; save('….svg') writes all")
    for box in graph.boxes:
        if box.inside:
            title = ", ".join([box.title, *box.rows]).replace("▸ ", "")
            # The groups after it need room too.
            content = _graph_html(box.inside(), title, (room - len(html)) // 2)
            html += details(title, content, key=box.names[0])
    return html


def _image(drawing: Drawing, alt: str, graph: BoxGraph) -> str:
    if drawing.width <= _WIDTH and drawing.height <= _HEIGHT:
        return live_picture(drawing, alt)
    # A picture of this size scaled to the page could not be read. It opens on what is worst.
    numbers = [-math.inf if box.value is None else box.value for box in graph.boxes]
    marks = [bool(box.mark) for box in graph.boxes]
    at = int(np.argmax(marks if any(marks) else numbers))
    element = live_picture(drawing, alt, max_height=_HEIGHT, at=at)
    size = f"{drawing.width:,} × {drawing.height:,} pixels"
    return element + note(f"{size}: scroll to see all of it")


def _alt(title: str, style: GraphStyle) -> str:
    """Describe the picture for readers who cannot see its colors."""
    scale = style.scale
    if scale is None:
        return title
    low, high = quantity(scale.low, scale.unit), quantity(scale.high, scale.unit)
    return f"{title}. Colors: {style.legend or 'a number'} from {low} to {high}"


def _title(proto: ModelProto, main: Scope) -> str:
    words = [plural(len(proto.graph.node), "node"), plural(len(main.inputs), "input")]
    words.append(plural(len(main.outputs), "output"))
    if proto.functions:
        words.append(plural(len(proto.functions), "function"))
    for opset in proto.opset_import[:6]:
        words.append(f"{sanitize(opset.domain, 40) or 'opset'} {opset.version}")
    name = "model"
    if proto.graph.name:
        name = f"model '{sanitize(proto.graph.name, 60)}'"
    return messages.one_line(f"{name}: {', '.join(words)}")


def _canvas(proto: ModelProto, scopes: Iterable[Scope], style: GraphStyle) -> Canvas:
    nodes = []
    scale = style.scale
    for scope in scopes:
        for node in scope.nodes:
            value = style.values.get(id(node))
            mark = style.marks.get(id(node), "")
            color = ""
            if mark:
                color = mark_look(mark)[0]
            if scale is not None and value is not None:
                color = scale.color(value)
            about = [mark] if mark else []
            for name in node.output:
                if style.notes.get(name):
                    about.append(f"{name}: {style.notes[name].strip()}")
            if color or about:
                nodes.append((node, value, color, text_lines(about)))
    return Canvas(proto, tuple(nodes), scale, style.legend)


# ---- which nodes


def _scopes(info: ModelInfo) -> dict[int, Scope]:
    """Collect the model's graph, its functions and all bodies by their ids, outer ones first."""
    scopes: dict[int, Scope] = {}
    for container in (info.model.graph, *info.functions.values()):
        for graph in GraphIndex(container).walk():
            outer = None if graph.outer is None else scopes[id(graph.outer.scope)]
            scopes[id(graph.scope)] = Scope(graph, info, outer)
    return scopes


def _by_name(scopes: Iterable[Scope]) -> dict[str, NodeProto]:
    """Find nodes by outputs and names; outputs win over names, and outer nodes over inner ones."""
    outputs: dict[str, NodeProto] = {}
    names: dict[str, NodeProto] = {}
    for scope in scopes:
        for node in scope.nodes:
            names.setdefault(node.name, node)
            for name in node.output:
                outputs.setdefault(name, node)
    for name, node in names.items():
        outputs.setdefault(name, node)
    # Nodes without a name and outputs that are left out are all called nothing.
    outputs.pop("", None)
    return outputs


def _select(
    by_name: Mapping[str, NodeProto], values: Mapping[str, _Value], option: str
) -> dict[int, _Value]:
    """Give each value to the id of its node."""
    selected = {}
    for name, value in values.items():
        # A node without outputs and without a name can be told apart from no other.
        if not name:
            continue
        if name not in by_name:
            raise _unknown_node(option, name, by_name)
        selected[id(by_name[name])] = value
    return selected


def _unknown_node(option: str, name: str, known: Iterable[str]) -> ModelError:
    near = sanitize(messages.suggest(name, list(known)[:_MOST_SUGGESTED]))
    expected = "the name of an output or node"
    return ModelError(f"show, {option}", expected=expected, got=name, next=near)


# ---- folded bodies


def _folded_parts(scopes: Mapping[int, Scope], style: GraphStyle) -> Iterator[str]:
    """Draw the bodies and functions of a model, each folded under its title."""
    drawn: set[int] = set()
    for scope in scopes.values():
        for node in scope.nodes:
            for title, body in scope.info.bodies(node):
                name = f"{title}: {plural(len(body.node), 'node')}"
                # Many nodes may call a function, and a body has one.
                if not title.startswith("function "):
                    holder = sanitize(node.name or protos.first_output(node), 60)
                    name = f"{title_of(node)} '{holder}', {name}"
                if id(body) not in drawn:
                    drawn.add(id(body))
                    graph = fold(graph_of(scopes[id(body)], style))
                    yield details(name, _graph_html(graph, name, _BODY_BYTES))

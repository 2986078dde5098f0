"""A model as a layered picture, with HTML around it, and as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from onnx import FunctionProto, ModelProto, NodeProto

from pyopnb.display.html import MAX_BYTES, details, join, note
from pyopnb.display.live_picture import MOST_ANSWERS, live_picture, script
from pyopnb.display.model_boxes import Facts, Scope, Wishes, graph_of, text_lines, title_of
from pyopnb.display.model_text import model_text
from pyopnb.display.svg.boxes import Graph
from pyopnb.display.svg.colours import Scale, scale_for
from pyopnb.display.svg.graph import Picture, draw, draw_within
from pyopnb.display.svg.marks import mark_colour
from pyopnb.display.svg.shapes import Drawing
from pyopnb.display.view import Canvas, View, view
from pyopnb.errors import InputError, ModelError
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import as_proto
from pyopnb.models.nodes import first_output
from pyopnb.ops.messages import plural, sanitize, suggest
from pyopnb.runtime.session.live_attrs import model_in_use
from pyopnb.runtime.session.session import Session

__all__ = ["view_model", "view_session"]

_NAMES_UP_TO = 80  # nodes of a picture that shows their names
_MOST_BODIES = 12  # drawn below the model
_BODY_BYTES = 30_000  # of the SVG of one of them
_MOST_INSIDE = 2_000  # boxes drawn inside others
_ANSWER_BYTES = 40  # of what one box tells, compressed
_WIDTH, _HEIGHT = 1_100, 700  # pixels from which on a picture scrolls

_Value = TypeVar("_Value")


@view.register(ModelProto)
@view.register(bytes)
@view.register(str)
@view.register(os.PathLike)
def view_model(
    model: ModelProto | bytes | str | os.PathLike[str],
    *,
    colours: Mapping[int | str, float] | None = None,
    legend: str = "",
    around: bool = False,
    log: bool | None = None,
    marks: Mapping[int | str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    open: Iterable[str] | bool = (),
    names: bool | None = None,
    shapes: bool = True,
    most: int = 4_000,
    room: int = MAX_BYTES,
) -> View:
    """The view of a model.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    colours : mapping, optional
        A number of each node, such as an error or a time, by the node's index in the main graph, an output's name or the node's
        name.
    legend : str
        What the numbers are.
    around : bool
        Whether the colours are symmetric about 0.
    log : bool, optional
        Whether the colours are logarithmic. By default they are if the largest number is over 1,000 times the smallest.
    marks : mapping, optional
        Badges of nodes, with keys like those of ``colours``: ``added``, ``removed``, ``changed``, or another short text.
    notes : mapping, optional
        What the picture tells, where scripts run, of a node that is pointed at or clicked: texts by the names of its outputs.
        The first line of a text replaces the output's type, unless it is empty.
    open : iterable of str, or bool
        Nodes whose bodies or functions are drawn inside them, by node name or output; functions also as ``domain::Name``. True
        opens everything.
    names : bool, optional
        Whether boxes show the nodes' names, or those of their first outputs, as tables do. By default they do if there are at
        most 80 nodes.
    shapes : bool
        Whether lines show types.
    most : int
        The most boxes of a picture. Of more, those near the largest number, the first badge or the beginning are shown.
    room : int
        The most bytes of the HTML; boxes are left out of it, if need be, but not of what ``save("….svg")`` writes.

    Returns
    -------
    View

    Raises
    ------
    ModelError
        It is not a model, or it has no node of a name.
    InputError
        ``most`` is not positive.
    """
    if most < 1:
        raise InputError("show, most", expected="1 or more", got=sanitize(most))
    proto = as_proto(model)
    facts = Facts(proto)
    scopes = _scopes(
        facts
    )  # before any id is used: protobuf makes new objects for nodes that nothing references
    open = open if isinstance(open, bool) else list(open)
    by_name = _by_name(scopes.values()) if colours or marks or open else {}
    wishes = Wishes(
        {
            id(node): float(number)
            for node, number in _select(proto, by_name, colours or {}, "colours")
        },
        {id(node): mark for node, mark in _select(proto, by_name, marks or {}, "marks")},
        len(proto.graph.node) <= _NAMES_UP_TO if names is None else names,
        shapes,
        legend,
        notes or {},
    )
    for scope in scopes.values():
        scope.fold({*wishes.values, *wishes.marks})
    main = scopes[id(proto.graph)]
    graphs = _graphs(scopes, main, wishes, _opened(facts, by_name, open))
    scale = scale_for(wishes.values.values(), log=log, around=around) if wishes.values else None
    title = _title(proto, main)
    folded = _folded(scopes, graphs)
    painter = _Painter(main, graphs[id(proto.graph)], wishes, scale, most)
    room -= len(script()) + 2_000
    parts = list(painter.html(title, folded, room * 2 // 3 if folded else room))
    body = join([script(), *parts], room + len(script()))
    return View(
        proto,
        title,
        model_text(title, main, wishes),
        body,
        painter.draw,
        canvas=_canvas(proto, scopes, wishes, scale),
    )


@view.register(Session)
def view_session(thing: Session, **options: Any) -> View:
    """Show the model that a session runs."""
    return view_model(model_in_use(thing._state), **options)


def _canvas(
    proto: ModelProto, scopes: Mapping[int, Scope], wishes: Wishes, scale: Scale | None
) -> Canvas:
    nodes = []
    for node in (node for scope in scopes.values() for node in scope.nodes):
        value, mark = wishes.values.get(id(node)), wishes.marks.get(id(node), "")
        about = [
            mark,
            *(
                f"{name}: {wishes.notes[name].strip()}"
                for name in node.output
                if name in wishes.notes
            ),
        ]
        colour = (
            scale.colour(value)
            if scale and value is not None
            else mark_colour(mark)
            if mark
            else ""
        )
        if colour or any(about):
            nodes.append((node, colour, text_lines(filter(None, about))))
    return Canvas(proto, tuple(nodes), scale, wishes.legend)


# ---- which nodes


def _by_name(scopes: Iterable[Scope]) -> dict[str, NodeProto]:
    """Nodes by outputs and names; outputs win over names, and outer nodes over inner ones."""
    nodes = [node for scope in scopes for node in scope.nodes]
    named: dict[str, NodeProto] = {}
    for node in nodes:
        for name in filter(None, node.output):
            named.setdefault(name, node)
    for node in nodes:
        if node.name:
            named.setdefault(node.name, node)
    return named


def _select(
    proto: ModelProto,
    by_name: Mapping[str, NodeProto],
    values: Mapping[int | str, _Value],
    option: str,
) -> Iterator[tuple[NodeProto, _Value]]:
    for key, value in values.items():
        if isinstance(key, str):
            if key not in by_name:
                raise _unknown_node(option, key, by_name)
            yield by_name[key], value
        elif 0 <= key < len(proto.graph.node):
            yield proto.graph.node[key], value
        else:
            expected = f"an index from 0 to {len(proto.graph.node) - 1}"
            raise ModelError(f"show, {option}", expected=expected, got=sanitize(key))


def _unknown_node(option: str, name: str, known: Iterable[str]) -> ModelError:
    near = sanitize(suggest(name, list(known)[:5_000]))
    return ModelError(
        f"show, {option}", expected="the name of an output or node", got=sanitize(name), next=near
    )


def _opened(
    facts: Facts, by_name: Mapping[str, NodeProto], open: Iterable[str] | bool
) -> set[int] | None:
    """The ids of the bodies and functions to open; None for all."""
    if isinstance(open, bool):
        return None if open else set()
    opened: set[int] = set()
    functions = {f"{f.domain}::{f.name}": f for f in facts.model.functions}
    for name in open:
        if name in functions:
            opened.add(id(functions[name]))
        elif name in by_name:
            opened |= {id(body) for _, body in facts.held(by_name[name])}
        else:
            raise _unknown_node("open", name, [*functions, *by_name])
    return opened


# ---- graphs of boxes


def _scopes(facts: Facts) -> dict[int, Scope]:
    """The model's graph, its functions and all bodies by their ids, outer ones first."""
    scopes: dict[int, Scope] = {}
    for container in (facts.model.graph, *facts.functions.values()):
        for graph in GraphIndex(container).walk():
            outer = None if graph.outer is None else scopes[id(graph.outer.scope)]
            scopes[id(graph.scope)] = Scope(graph, facts, outer)
    return scopes


def _graphs(
    scopes: Mapping[int, Scope], main: Scope, wishes: Wishes, opened: set[int] | None
) -> dict[int, Graph]:
    """The boxes of a scope and of all that is opened in it, inner scopes first, in a loop, so that deep nests need no stack."""
    graphs: dict[int, Graph] = {}
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    stack = [main]
    while stack:
        scope = stack[-1]
        own = id(scope.container)
        held = [entry for node in scope.nodes for entry in scope.facts.held(node)]
        to_open = [(title, body) for title, body in held if opened is None or id(body) in opened]
        if own not in entered:
            entered.add(own)
            inner = {
                id(body) for _, body in to_open
            } - entered  # a function that calls itself stays folded inside itself
            stack += [scopes[id(body)] for _, body in to_open if id(body) in inner]
            continue
        stack.pop()
        if own in graphs:
            continue
        size = len(scope.nodes) + sum(sizes.get(id(body), 0) for _, body in to_open)
        inside = {
            id(body): (title, graphs[id(body)])
            for title, body in to_open
            if id(body) in graphs and id(body) != own
        }
        if size > _MOST_INSIDE and inside:
            scope.facts.remarks.append(
                f"a graph of more than {_MOST_INSIDE:,} boxes inside others stays folded"
            )
            inside, size = {}, len(scope.nodes)
        titled = {
            key: Graph(graph.boxes, graph.lines, title) for key, (title, graph) in inside.items()
        }
        graphs[own], sizes[own] = graph_of(scope, wishes, titled), size
    return graphs


def _folded(scopes: Mapping[int, Scope], graphs: Mapping[int, Graph]) -> list[tuple[str, Scope]]:
    """The bodies and functions that stay folded, each with a title."""
    folded: dict[int, tuple[str, Scope]] = {}
    for scope in scopes.values():
        for node in scope.nodes:
            for what, body in (
                scope.facts.held(node) if node.attribute or scope.facts.functions else ()
            ):
                if id(body) not in graphs and id(body) not in folded:
                    holder = f"{title_of(node)} '{sanitize(node.name or first_output(node), 60)}', "
                    where = "" if isinstance(body, FunctionProto) else holder
                    folded[id(body)] = (
                        f"{where}{what}: {plural(len(body.node), 'node')}",
                        scopes[id(body)],
                    )
    return list(folded.values())


# ---- pictures and HTML


class _Painter:
    """Draws a model's main graph and its folded bodies with the same colours."""

    def __init__(
        self, scope: Scope, graph: Graph, wishes: Wishes, scale: Scale | None, most: int
    ) -> None:
        self._graph, self._wishes, self._scale, self._legend, self._most = (
            graph,
            wishes,
            scale,
            wishes.legend,
            most,
        )
        self._remarks = scope.facts.remarks
        indices = {id(node): len(scope.inputs) + number for number, node in enumerate(scope.nodes)}
        values = {key: value for key, value in wishes.values.items() if key in indices}
        marked = next((indices[key] for key in wishes.marks if key in indices), 0)
        self._focus = indices[max(values, key=values.__getitem__)] if values else marked

    def draw(self) -> Drawing:
        """The main graph, as large as the caller allows."""
        return draw(
            self._graph.part(self._most, self._focus), scale=self._scale, legend_title=self._legend
        )

    def html(self, title: str, folded: list[tuple[str, Scope]], room: int) -> Iterator[str]:
        """The main graph in at most ``room`` bytes, remarks, and the folded bodies and functions."""
        part = self._graph.part(self._most, self._focus)
        answers = min(MOST_ANSWERS, _ANSWER_BYTES * len(part.boxes), room // 4)
        picture = self._draw_within(
            part, (room - answers - 4_000) * 3 // 4, self._focus
        )  # Base64 is a third longer
        scale, count = self._scale, len(self._graph.boxes)
        colours = (
            f". Colours: {self._legend or 'a number'} from {scale.low:.3g} to {scale.high:.3g}"
            if scale
            else ""
        )
        yield _image(picture, title + colours)
        if count > picture.count:
            save = (
                f"most={count} and save('….svg') write"
                if count > self._most
                else "save('….svg') writes"
            )
            left_out = f"{count - picture.count:,} of {count:,} boxes are left out, to keep this output small"
            yield note(f"{left_out}; {save} all")
        yield from (note(remark) for remark in self._remarks[:3])
        for name, scope in folded[:_MOST_BODIES]:
            yield details(
                name,
                _image(self._draw_within(graph_of(scope, self._wishes, {}), _BODY_BYTES), name),
            )
        if len(folded) > _MOST_BODIES:
            yield note(
                f"{len(folded) - _MOST_BODIES} more bodies and functions: open=[name] shows them"
            )

    def _draw_within(self, graph: Graph, most: int, focus: int = 0) -> Picture:
        return draw_within(graph, most, scale=self._scale, legend_title=self._legend, around=focus)


def _image(picture: Picture, alt: str) -> str:
    large = picture.drawing.width > _WIDTH or picture.drawing.height > _HEIGHT
    return live_picture(picture, alt, max_height=_HEIGHT if large else None)


def _title(proto: ModelProto, main: Scope) -> str:
    name = f"model '{sanitize(proto.graph.name, 60)}'" if proto.graph.name else "model"
    opsets = ", ".join(
        f"{sanitize(x.domain, 40)} {x.version}" if x.domain else f"opset {x.version}"
        for x in proto.opset_import[:6]
    )
    ends = f"{plural(len(main.inputs), 'input')}, {plural(len(main.outputs), 'output')}"
    functions = f", {plural(len(proto.functions), 'function')}" if proto.functions else ""
    return f"{name}: {plural(len(proto.graph.node), 'node')}, {ends}{functions}, {opsets}".replace(
        "\n", " "
    )

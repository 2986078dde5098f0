"""A model as a layered picture, as HTML around it, and as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from onnx import FunctionProto, ModelProto, NodeProto

from pyopnb.display.html import LARGEST, details, image, note, page
from pyopnb.display.model_boxes import Facts, Scope, Wishes, graph_of, title_of
from pyopnb.display.model_text import listed
from pyopnb.display.svg.colours import Scale, scale
from pyopnb.display.svg.graph import Graph, Picture, within
from pyopnb.display.view import View
from pyopnb.models.index import GraphIndex
from pyopnb.models.io import as_proto
from pyopnb.models.nodes import first_output
from pyopnb.ops.errors import FeedError, ModelError, plural, sanitize, suggest

__all__ = ["drawn"]

_NAMES_UP_TO = 80  # nodes of a picture that shows their names
_MOST_BODIES = 12  # that are drawn below the model
_MOST_INSIDE = 2_000  # boxes that are drawn inside others
_WIDE, _HIGH = 1_100, 700  # pixels from which on a picture scrolls

_Value = TypeVar("_Value")


def drawn(
    model: ModelProto | bytes | str | os.PathLike[str],
    *,
    colours: Mapping[int | str, float] | None = None,
    legend: str = "",
    around: bool = False,
    log: bool | None = None,
    marks: Mapping[int | str, str] | None = None,
    open: Iterable[str] | bool = (),
    names: bool | None = None,
    shapes: bool = True,
    most: int = 4_000,
) -> View:
    """A model as a picture.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    colours : mapping, optional
        A number, such as an error or a time, of nodes: by their place in the main graph, an output's name or the node's name.
    legend : str
        What the numbers are.
    around : bool
        Whether 0 is the middle of the colours.
    log : bool, optional
        Whether equal ratios are equal steps of colour; without it, where the largest is over 1,000 times the least.
    marks : mapping, optional
        A badge of nodes, as ``colours`` names them: ``added``, ``removed``, ``changed``, or another short text.
    open : iterable of str, or bool
        Nodes whose bodies or functions are drawn inside them, by node name or output; functions also as ``domain::Name``. True
        opens everything.
    names : bool, optional
        Whether boxes show the nodes' names; without it, where there are at most 80 nodes.
    shapes : bool
        Whether lines show types.
    most : int
        Boxes of a picture; of more, those near the largest number, the first badge or the beginning are shown.

    Returns
    -------
    View

    Raises
    ------
    ModelError
        There is no model, or no node of a name.
    FeedError
        ``most`` is no positive number.
    """
    if most < 1:
        raise FeedError("show, most", expected="1 or more", got=sanitize(most))
    proto = as_proto(model)
    facts = Facts(proto)
    scopes = _scopes(facts)  # before any id is taken: a node is one object only as long as something holds it
    open = open if isinstance(open, bool) else list(open)
    by_name = _by_name(scopes.values()) if colours or marks or open else {}
    wishes = Wishes(
        {id(node): float(number) for node, number in _chosen(proto, by_name, colours or {}, "colours")},
        {id(node): mark for node, mark in _chosen(proto, by_name, marks or {}, "marks")},
        len(proto.graph.node) <= _NAMES_UP_TO if names is None else names,
        shapes,
    )
    for scope in scopes.values():
        scope.fold({*wishes.values, *wishes.marks})
    main = scopes[id(proto.graph)]
    graphs = _graphs(scopes, main, wishes, _opened(facts, by_name, open))
    seen = scale(wishes.values.values(), log=log, around=around) if wishes.values else None
    title = _title(proto, main)
    text = listed(title, main, wishes)
    rest = _rest(scopes, graphs)
    picture = _picture(graphs[id(proto.graph)], wishes, main, seen, legend, most, LARGEST - 8_000 - (60_000 if rest else 0))
    body = page(_parts(title, picture, graphs[id(proto.graph)], rest, wishes, facts, seen, legend, most))
    return View(proto, title, text, body, picture.whole)


# ---- which nodes


def _by_name(scopes: Iterable[Scope]) -> dict[str, NodeProto]:
    """Nodes by what may stand for them: an output before a name, an outer one before one inside."""
    found: dict[str, NodeProto] = {}
    nodes = [node for scope in scopes for node in scope.nodes]
    for node in nodes:
        for name in filter(None, node.output):
            found.setdefault(name, node)
    for node in nodes:
        if node.name:
            found.setdefault(node.name, node)
    return found


def _chosen(
    proto: ModelProto, by_name: Mapping[str, NodeProto], asked: Mapping[int | str, _Value], what: str
) -> Iterator[tuple[NodeProto, _Value]]:
    for key, value in asked.items():
        if isinstance(key, str):
            if key not in by_name:
                raise _nobody(what, key, by_name)
            yield by_name[key], value
        elif 0 <= key < len(proto.graph.node):
            yield proto.graph.node[key], value
        else:
            raise ModelError(f"show, {what}", expected=f"a place from 0 to {len(proto.graph.node) - 1}", got=sanitize(key))


def _nobody(what: str, name: str, known: Iterable[str]) -> ModelError:
    near = sanitize(suggest(name, list(known)[:5_000]))
    return ModelError(f"show, {what}", expected="the name of an output or node", got=sanitize(name), next=near)


def _opened(facts: Facts, by_name: Mapping[str, NodeProto], open: Iterable[str] | bool) -> set[int] | None:
    """The ids of the bodies and functions that are to be opened; None for all."""
    if isinstance(open, bool):
        return None if open else set()
    found: set[int] = set()
    functions = {f"{f.domain}::{f.name}": f for f in facts.model.functions}
    for name in open:
        if name in functions:
            found.add(id(functions[name]))
        elif name in by_name:
            found |= {id(body) for _, body in facts.held(by_name[name])}
        else:
            raise _nobody("open", name, [*functions, *by_name])
    return found


# ---- graphs of boxes


def _scopes(facts: Facts) -> dict[int, Scope]:
    """The model's graph, its functions and all bodies, outer ones first, by their ids."""
    found: dict[int, Scope] = {}
    for container in (facts.model.graph, *facts.functions.values()):
        for graph in GraphIndex(container).walk():
            outer = None if graph.outer is None else found[id(graph.outer.scope)]
            found[id(graph.scope)] = Scope(graph, facts, outer)
    return found


def _graphs(scopes: Mapping[int, Scope], main: Scope, wishes: Wishes, opened: set[int] | None) -> dict[int, Graph]:
    """The boxes of a scope and of all that is opened in it: inner ones first, in a loop, so that depth costs no stack."""
    done: dict[int, Graph] = {}
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    way = [main]
    while way:
        scope = way[-1]
        own = id(scope.container)
        held = [(what, body) for node in scope.nodes for what, body in scope.facts.held(node)]
        wanted = [(what, body) for what, body in held if opened is None or id(body) in opened]
        if own not in entered:
            entered.add(own)
            inner = {id(body) for _, body in wanted} - entered  # a function that is on the way already stays folded
            way += [scopes[key] for key in scopes if key in inner]
            continue
        way.pop()
        if own in done:
            continue
        size = len(scope.nodes) + sum(sizes.get(id(body), 0) for _, body in wanted)
        inside = {id(body): done[id(body)] for _, body in wanted if id(body) in done and id(body) != own}
        if size > _MOST_INSIDE and inside:
            scope.facts.remarks.append(f"what would be more than {_MOST_INSIDE:,} boxes inside others stays folded")
            inside, size = {}, len(scope.nodes)
        named = {id(body): _titled(done[id(body)], what) for what, body in wanted if id(body) in inside}
        done[own], sizes[own] = graph_of(scope, wishes, named), size
    return done


def _titled(graph: Graph, title: str) -> Graph:
    return Graph(graph.boxes, graph.lines, title)


def _rest(scopes: Mapping[int, Scope], graphs: Mapping[int, Graph]) -> list[tuple[str, Scope]]:
    """What stays folded, with a line that says what it is."""
    found: dict[int, tuple[str, Scope]] = {}
    for scope in scopes.values():
        for node in scope.nodes:
            for what, body in scope.facts.held(node) if node.attribute or scope.facts.functions else ():
                if id(body) not in graphs and id(body) not in found:
                    where = (
                        ""
                        if isinstance(body, FunctionProto)
                        else f"{title_of(node)} '{sanitize(node.name or first_output(node), 60)}', "
                    )
                    found[id(body)] = f"{where}{what}: {plural(len(body.node), 'node')}", scopes[id(body)]
    return list(found.values())


# ---- pictures and HTML


def _picture(graph: Graph, wishes: Wishes, scope: Scope, seen: Scale | None, legend: str, most: int, room: int) -> Picture:
    """As much of a graph as there is room for, in bytes of HTML; first of all what stands out."""
    first = len(scope.inputs)
    ids = {id(node): place + first for place, node in enumerate(scope.nodes)}
    values = {key: value for key, value in wishes.values.items() if key in ids}
    marked = next((ids[key] for key in wishes.marks if key in ids), 0)
    around = ids[max(values, key=values.__getitem__)] if values else marked
    return within(graph.part(most, around), room * 3 // 4 - 1_000, scale=seen, legend_title=legend, around=around)


def _parts(
    alt: str,
    picture: Picture,
    graph: Graph,
    rest: list[tuple[str, Scope]],
    wishes: Wishes,
    facts: Facts,
    seen: Scale | None,
    legend: str,
    most: int,
) -> Iterator[str]:
    said = f"{alt}. Colours: {legend or 'a number'} from {seen.low:.3g} to {seen.high:.3g}" if seen else alt
    yield _image(picture, said)
    left = len(graph.boxes) - picture.shown
    if left > 0:
        count = len(graph.boxes)
        whole = f"most={count} and save('….svg') write" if count > most else "save('….svg') writes"
        yield note(f"{left:,} of {count:,} boxes are left out, to keep this output small; {whole} all")
    for remark in facts.remarks[:3]:
        yield note(remark)
    for said, scope in rest[:_MOST_BODIES]:
        inner = within(graph_of(scope, wishes, {}), 30_000, scale=seen, legend_title=legend)
        yield details(said, _image(inner, said))
    if len(rest) > _MOST_BODIES:
        yield note(f"{len(rest) - _MOST_BODIES} more bodies and functions: open=[name] shows them")


def _image(picture: Picture, alt: str) -> str:
    size = picture.size
    large = size.width > _WIDE or size.height > _HIGH
    return image(picture.svg, alt, tall=_HIGH if large else None)


def _title(proto: ModelProto, main: Scope) -> str:
    name = f"model '{sanitize(proto.graph.name, 60)}'" if proto.graph.name else "model"
    opsets = ", ".join(
        f"{sanitize(x.domain, 40)} {x.version}" if x.domain else f"opset {x.version}" for x in proto.opset_import[:6]
    )
    ends = f"{plural(len(main.inputs), 'input')}, {plural(len(main.outputs), 'output')}"
    functions = f", {plural(len(proto.functions), 'function')}" if proto.functions else ""
    return f"{name}: {plural(len(proto.graph.node), 'node')}, {ends}{functions}, {opsets}".replace("\n", " ")

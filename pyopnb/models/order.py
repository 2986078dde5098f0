"""Nodes in the order in which they can run: each after those whose outputs it uses."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto

from pyopnb.models.nodes import Site, bodies
from pyopnb.ops.errors import ModelError, sanitize, suggest

__all__ = ["in_order", "used"]


def in_order(nodes: Sequence[NodeProto], known: Collection[str], outputs: Sequence[str]) -> list[NodeProto]:
    """The nodes, each after those whose outputs it or a body in it uses; as they are where that holds already.

    Parameters
    ----------
    nodes : sequence of NodeProto
    known : collection of str
        The graph's inputs and initializers.
    outputs : sequence of str
        The graph's outputs.

    Raises
    ------
    ModelError
        A name that a node or the graph uses is nobody's, or nodes wait for each other in a circle.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    names = {*known, *makers}
    waits: list[set[int]] = []
    for node in nodes:
        read = list(used(node))
        for name, where in read:
            if name not in names:
                raise _nobody(f"{where}, input {sanitize(name)}", name, names)
        waits.append({makers[name] for name, _ in read if name in makers})
    for name in outputs:
        if name not in names:
            raise _nobody(f"output {sanitize(name)}", name, names)
    order = _sorted(waits)
    if len(order) < len(nodes):
        raise _circle(nodes, waits, set(range(len(nodes))) - set(order))
    return [nodes[place] for place in order]


def _nobody(where: str, name: str, names: Collection[str]) -> ModelError:
    return ModelError(
        where,
        expected="an input, an initializer or an output of a node",
        got=f"{sanitize(name)}, which nobody makes",
        next=sanitize(suggest(name, sorted(names))),
    )


def used(node: NodeProto) -> Iterator[tuple[str, str]]:
    """The names that a node uses of the graph it stands in, and where: those of its bodies that no body makes itself."""
    where = _where(node)
    yield from ((name, where) for name in node.input if name)
    waiting: list[tuple[GraphProto, frozenset[str]]] = [(body, frozenset()) for body in _open_bodies(node)]
    while waiting:
        body, inner = waiting.pop()
        own = inner | {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
        own |= {tensor.values.name for tensor in body.sparse_initializer} | {name for n in body.node for name in n.output}
        for n in body.node:
            yield from ((name, f"{_where(n)} in {where}") for name in n.input if name and name not in own)
            waiting += [(deeper, own) for deeper in _open_bodies(n)]
        yield from ((info.name, where) for info in body.output if info.name not in own)


def _open_bodies(node: NodeProto) -> list[GraphProto]:
    """The bodies that see the names around them: of If, Loop and Scan. What an op does with a graph is its own affair."""
    return bodies(node) if node.domain in ("", "ai.onnx") else []


def _where(node: NodeProto) -> str:
    return Site(node, GraphProto(), "").where


def _sorted(waits: Sequence[set[int]]) -> list[int]:
    """Places in an order that can run, the first that can always first; those in a circle are left out."""
    left = [len(needed) for needed in waits]
    followers: Mapping[int, list[int]] = {place: [] for place in range(len(waits))}
    for place, needed in enumerate(waits):
        for before in needed:
            followers[before].append(place)
    ready = [place for place, count in enumerate(left) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for follower in followers[place]:
            left[follower] -= 1
            if not left[follower]:
                heapq.heappush(ready, follower)
    return order


def _circle(nodes: Sequence[NodeProto], waits: Sequence[set[int]], caught: set[int]) -> ModelError:
    way = [min(caught)]
    while (before := min(waits[way[-1]] & caught)) not in way:
        way.append(before)
    circle = [before, *reversed(way[way.index(before) :])]
    shown_way = " → ".join(sanitize(nodes[place].name or nodes[place].output[0] or nodes[place].op_type) for place in circle)
    return ModelError(
        _where(nodes[circle[0]]),
        expected="nodes that can run one after the other",
        got=f"a circle: {shown_way}",
        next="let one of them use another name",
    )

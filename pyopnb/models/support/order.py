"""The nodes of a graph or function in an order in which each finds its inputs made."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from onnx import FunctionProto, GraphProto, NodeProto

from pyopnb.models.nodes import bodies, first_output
from pyopnb.ops.errors import ModelError, sanitize

__all__ = ["in_order", "used_inside"]


def in_order(scope: GraphProto | FunctionProto, path: str) -> Sequence[NodeProto]:
    """The nodes as they stand where that order will do, which it nearly always does.

    Raises
    ------
    ModelError
        A name is made twice, or nodes wait for each other.
    """
    made: set[str] = set()
    wanted: set[str] = set()
    late = False
    last = len(scope.node) - 1
    for place, node in enumerate(scope.node):
        wanted.update(node.input)
        if node.attribute and place < last:  # nothing comes after the last node that its bodies could wait for
            wanted.update(used_inside(node))
        for name in node.output:
            if not name:
                continue
            if name in made:
                raise _twice(name, path)
            made.add(name)
            late = late or name in wanted
    graph = isinstance(scope, GraphProto)
    given = [*(i.name for i in scope.input), *(t.name for t in scope.initializer)] if graph else scope.input
    for name in made.intersection(given):
        raise _twice(name, path)
    return _sorted(scope, path) if late else scope.node


def _twice(name: str, path: str) -> ModelError:
    where = f"name {sanitize(name)}" + (f", in {path}" if path else "")
    return ModelError(where, expected="one meaning", got="two values of that name", next="rename one of them")


def _sorted(scope: GraphProto | FunctionProto, path: str) -> Sequence[NodeProto]:
    makers = {name: place for place, node in enumerate(scope.node) for name in node.output if name}
    waiting: list[set[int]] = []
    followers: dict[int, list[int]] = {}
    for place, node in enumerate(scope.node):
        waiting.append({makers[name] for name in (*node.input, *used_inside(node)) if name in makers})
        for before in waiting[place]:
            followers.setdefault(before, []).append(place)
    ready = deque(place for place, before in enumerate(waiting) if not before)
    ordered = []
    while ready:
        place = ready.popleft()
        ordered.append(scope.node[place])
        for after in followers.get(place, ()):
            waiting[after].discard(place)
            if not waiting[after]:
                ready.append(after)
    if len(ordered) < len(waiting):
        stuck = scope.node[next(place for place, before in enumerate(waiting) if before)]
        where = f"the node of output '{sanitize(first_output(stuck))}'" + (f", in {path}" if path else "")
        raise ModelError(where, expected="inputs that are made before it", got="a cycle: it waits for its own result")
    return ordered


def used_inside(node: NodeProto) -> Iterator[str]:
    """The names that the bodies of a node use and do not make, at whatever depth."""
    waiting: list[tuple[GraphProto, _Own]] = [(body, None) for body in bodies(node)]
    while waiting:
        body, outer = waiting.pop()
        made = {entry.name for entry in body.input} | {tensor.name for tensor in body.initializer}
        own: _Own = (made | {name for inner in body.node for name in inner.output}, outer)
        yield from (entry.name for entry in body.output if not _is_own(entry.name, own))
        for inner in body.node:
            yield from (name for name in inner.input if not _is_own(name, own))
            waiting += [(deeper, own) for deeper in bodies(inner)]


_Own = tuple[set[str], Any] | None


def _is_own(name: str, own: _Own) -> bool:
    while own is not None:
        if name in own[0]:
            return True
        own = own[1]
    return False

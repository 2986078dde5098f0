"""Compute how large a model becomes when all calls of its local functions are written out.

onnx and ONNX Runtime follow every call on its own. Twenty-five functions that each call the next
one twice take two kilobytes in a file, and become 2²⁵ nodes; a long chain of calls, or of bodies
and calls, goes as deep on their stacks. Check a model here before you hand it to them or follow its
calls as they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from pyopnb.engine.models.protos import bodies, path_of_function
from pyopnb.errors import ModelError

__all__ = ["MOST_DEEP", "MOST_NODES", "Expansion", "check_functions", "expansion", "function_key"]

MOST_NODES = 250_000
"""Nodes that the calls of functions may add to the nodes of a model."""

MOST_DEEP = 100
"""Calls of functions, and bodies around them, that may be inside one another.

onnx follows as many calls.
"""

# Beyond this a number of nodes is not exact, as it can have as many digits as there are functions.
_COUNTED = 10**15

_Key = tuple[str, str, str]


class Expansion(NamedTuple):
    """The size that a model has with all calls written out.

    Attributes
    ----------
    nodes : int
        Including nodes in bodies.
    added : int
        How many of them come from calls.
    depth : int
        The most bodies and calls inside one another.
    """

    nodes: int
    added: int
    depth: int


def function_key(item: FunctionProto | NodeProto) -> _Key:
    """Return domain, name and overload of a function, or of the function that a node would call."""
    name = item.op_type if isinstance(item, NodeProto) else item.name
    return item.domain, name, item.overload


def check_functions(model: ModelProto) -> None:
    """Refuse functions on which onnx or ONNX Runtime would not come to an end.

    Raises
    ------
    ModelError
        Two functions have one name, one calls itself directly or indirectly, or the calls expand to
        more than `MOST_NODES` nodes or go deeper than `MOST_DEEP`.
    """
    if not model.functions:
        return
    # Both limits apply to the inlined functions, whose sizes are computed without inlining.
    size = expansion(model)
    if size.added > MOST_NODES:
        expected = f"at most {MOST_NODES:,} nodes that come from calls of functions"
        # The count stops at `_COUNTED`.
        raise ModelError("model", expected=expected, got=f"{size.added:,}, if not more")
    if size.depth > MOST_DEEP:
        raise _too_deep(str(size.depth))


def expansion(model: ModelProto) -> Expansion:
    """Compute the size and depth that a model would have with all calls written out.

    Raises
    ------
    ModelError
        Two functions have one name, one calls itself directly or indirectly, or calls go
        deeper than `MOST_DEEP`.
    """
    sizes = _Sizes(model)
    count, deepest, added = sizes.measure(model.graph, 0)
    for key in sizes.functions:
        # Even an unused function must not call itself: onnx follows it all the same.
        sizes.measure_function(key, 0)
    return Expansion(count, added, deepest)


class _Sizes:
    """The sizes of functions with their calls written out, each measured once."""

    def __init__(self, model: ModelProto) -> None:
        self.functions: dict[_Key, FunctionProto] = {}
        for function in model.functions:
            key = function_key(function)
            # The runtime would take the first of two functions for all calls, onnx the last.
            if key in self.functions:
                where = path_of_function(function)
                raise ModelError(where, expected="one function of that name", got="two")
            self.functions[key] = function
        # None marks a function that is being measured.
        self._known: dict[_Key, tuple[int, int] | None] = {}

    def measure(self, scope: GraphProto | FunctionProto, level: int) -> tuple[int, int, int]:
        """Return a scope's number of nodes, its depth, and how many nodes come from calls."""
        count, deepest, added = 0, 0, 0
        for node, depth in _nodes(scope):
            count += 1
            deepest = max(deepest, depth)
            if self.functions and (key := function_key(node)) in self.functions:
                nodes, inner = self.measure_function(key, level + depth + 1)
                added += nodes
                deepest = max(deepest, depth + 1 + inner)
        return min(count + added, _COUNTED), deepest, min(added, _COUNTED)

    def measure_function(self, key: _Key, level: int) -> tuple[int, int]:
        """Return the number of nodes and the depth of a function that is called at this level."""
        where = path_of_function(self.functions[key])
        if key not in self._known:
            if level > MOST_DEEP:
                raise _too_deep(f"more, down to {where}")
            self._known[key] = None
            count, deepest, _ = self.measure(self.functions[key], level)
            self._known[key] = count, deepest
        size = self._known[key]
        if size is None:
            got = "a function that calls itself"
            advice = "a Loop node in its place, which repeats a body"
            raise ModelError(where, expected="no recursion", got=got, next=advice)
        return size


def _too_deep(got: str) -> ModelError:
    expected = f"at most {MOST_DEEP} calls of functions and bodies inside one another"
    return ModelError("model", expected=expected, got=got)


def _nodes(scope: GraphProto | FunctionProto) -> Iterator[tuple[NodeProto, int]]:
    """Yield the nodes of a graph or function, each with the number of bodies around it."""
    waiting: list[tuple[GraphProto | FunctionProto, int]] = [(scope, 0)]
    while waiting:
        graph, depth = waiting.pop()
        for node in graph.node:
            yield node, depth
            waiting += ((body, depth + 1) for body in bodies(node))

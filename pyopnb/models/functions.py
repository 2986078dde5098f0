"""The local functions of a model: whether writing out all calls of them ends, and after how many nodes.

onnx and ONNX Runtime follow every call on its own. Twenty-five functions that each call the next one twice are two kilobytes,
and 2²⁵ nodes to them; a long chain of calls, or of bodies and calls, goes as deep on their stacks. Whoever hands a model to
them, or follows its calls as they do, asks here first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from pyopnb.errors import ModelError
from pyopnb.models.nodes import bodies, path_of_function

__all__ = ["MOST_DEEP", "MOST_NODES", "Expansion", "check_functions", "expansion", "function_key"]

MOST_NODES = 250_000
"""Nodes that the calls of functions may add to those that a model has."""

MOST_DEEP = 100
"""Calls of functions, and bodies around them, that may be inside one another: as many calls as onnx follows."""

# Beyond this a number of nodes is not exact, as it can have as many digits as there are functions.
_COUNTED = 10**15

_Key = tuple[str, str, str]
_Calls = dict[_Key, list[tuple[_Key, int]]]


class Expansion(NamedTuple):
    """What a model is with all calls written out.

    Attributes
    ----------
    nodes : int
        With those in bodies.
    added : int
        How many of them come from calls.
    depth : int
        The most bodies and calls inside one another.
    """

    nodes: int
    added: int
    depth: int


def function_key(item: FunctionProto | NodeProto) -> _Key:
    """Domain, name and overload of a function, or of the one that a node calls if there is one."""
    if isinstance(item, NodeProto):
        name = item.op_type
    else:
        name = item.name
    return item.domain, name, item.overload


def check_functions(model: ModelProto) -> None:
    """Refuse functions that onnx or ONNX Runtime would not come to an end with.

    Raises
    ------
    ModelError
        Two functions have one name, one calls itself directly or indirectly, or the calls expand to more than `MOST_NODES`
        nodes or go deeper than `MOST_DEEP`.
    """
    if not model.functions:
        return
    # Both limits are on what the functions become, which is computed without writing them out.
    size = expansion(model)
    if size.added > MOST_NODES:
        expected = f"at most {MOST_NODES:,} nodes that come from calls of functions"
        if size.added < _COUNTED:
            got = f"{size.added:,}"
        else:
            got = f"{_COUNTED:,} or more"
        raise ModelError("model", expected=expected, got=got)
    if size.depth > MOST_DEEP:
        expected = f"at most {MOST_DEEP} calls of functions and bodies inside one another"
        raise ModelError("model", expected=expected, got=str(size.depth))


def expansion(model: ModelProto) -> Expansion:
    """Return the size and depth of a model with all calls written out, computed without writing them out.

    Raises
    ------
    ModelError
        Two functions have one name, or one calls itself directly or indirectly.
    """
    calls: _Calls = {}
    own_sizes: dict[_Key, tuple[int, int]] = {}
    for function in model.functions:
        key = function_key(function)
        # The runtime would take the first of two functions for all calls, onnx the last.
        if key in calls:
            raise ModelError(
                path_of_function(function), expected="one function of that name", got="two"
            )
        calls[key] = []
    for function in model.functions:
        key = function_key(function)
        own_sizes[key], calls[key] = _read(function, calls)
    sizes = _sizes(model, own_sizes, calls)
    (count, deepest), called = _read(model.graph, calls)
    added = sum(sizes[key][0] for key, _ in called)
    return Expansion(
        count + added, added, max([deepest, *(depth + sizes[key][1] + 1 for key, depth in called)])
    )


def _read(
    scope: GraphProto | FunctionProto, known: _Calls
) -> tuple[tuple[int, int], list[tuple[_Key, int]]]:
    """Count the nodes and the depth of a graph or function, and list its calls, each with its depth."""
    count, deepest, called = 0, 0, []
    for node, depth in _nodes(scope):
        count += 1
        if depth > deepest:
            deepest = depth
        if known and (key := function_key(node)) in known:
            called.append((key, depth))
    return (count, deepest), called


def _nodes(scope: GraphProto | FunctionProto) -> Iterator[tuple[NodeProto, int]]:
    waiting: list[tuple[GraphProto | FunctionProto, int]] = [(scope, 0)]
    while waiting:
        graph, depth = waiting.pop()
        for node in graph.node:
            yield node, depth
            waiting += ((body, depth + 1) for body in bodies(node))


def _sizes(
    model: ModelProto, own: dict[_Key, tuple[int, int]], calls: _Calls
) -> dict[_Key, tuple[int, int]]:
    """Return the nodes and the depth of every function with its calls written out."""
    sizes: dict[_Key, tuple[int, int]] = {}
    callers: dict[_Key, set[_Key]] = {}
    # Kahn's algorithm over the calls, callees first, so that no chain of functions costs stack.
    for key, called in calls.items():
        for callee, _ in called:
            callers.setdefault(callee, set()).add(key)
    waits_for = {key: len(dict(called)) for key, called in calls.items()}
    leaves = [key for key, count in waits_for.items() if not count]
    while leaves:
        key = leaves.pop()
        count, deepest = own[key]
        nodes = count + sum(sizes[callee][0] for callee, _ in calls[key])
        sizes[key] = (
            min(nodes, _COUNTED),
            max([deepest, *(depth + sizes[callee][1] + 1 for callee, depth in calls[key])]),
        )
        for caller in callers.get(key, ()):
            waits_for[caller] -= 1
            if not waits_for[caller]:
                leaves.append(caller)
    for function in model.functions:
        # What is left waits for itself.
        if function_key(function) not in sizes:
            raise ModelError(
                path_of_function(function),
                expected="no recursion",
                got="a function that calls itself",
            )
    return sizes

"""Local functions: how large a model becomes when all calls are written out, and inlining.

onnx and ONNX Runtime follow every call on its own. Twenty-five functions that each call the next
one twice take two kilobytes in a file, and become 2²⁵ nodes; a long chain of calls, or of bodies
and calls, goes as deep on their stacks. Check a model here before you hand it to them or follow its
calls as they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.common import sanitize
from pyopnb.engine.models.attribute_limits import check_attributes
from pyopnb.engine.models.protos import bodies, nodes_of_functions, path_of_function, walk
from pyopnb.errors import ModelError

__all__ = [
    "MOST_DEEP",
    "MOST_NODES",
    "TAP_DOMAIN",
    "Expansion",
    "check_functions",
    "expansion",
    "function_key",
    "inline_ops",
    "inlined_functions",
    "put_taps_last",
]

TAP_DOMAIN = "pyopnb.tap"
"""Domain of the taps, the nodes that `wrap` inserts beside the nodes that they look at.

They are never selected by name.
"""

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


# ---- inlining ------------------------------------------------------------------------------------


def inline_ops(proto: ModelProto, is_op: Callable[[NodeProto], bool]) -> ModelProto:
    """Inline the local functions that contain ops, directly or through other functions.

    ONNX Runtime infers the types of a function's outputs without the ops inside it; where the file
    does not declare them, calls have no types at all. onnx cannot inline a function that imports
    another version of the ONNX operators. The model then stays as it is, which is enough if the
    file declares those types.

    Parameters
    ----------
    is_op : callable
        It says whether a node runs through an op.

    Returns
    -------
    ModelProto
        A copy, or the model itself where nothing is inlined.

    Raises
    ------
    ModelError
        As from `check_functions` and `check_attributes`: ONNX Runtime would not come to an
        end, or take all memory.
    """
    # Most sessions do not need it.
    import onnx.inliner

    check_functions(proto)
    check_attributes(proto)
    nodes_by_function = nodes_of_functions(proto)
    holders: set[tuple[str, str]] = set()
    # Repeat until no function calls another one that has an op in it.
    while True:
        extended = set()
        for function, nodes in nodes_by_function.items():
            if any(is_op(n) or (n.domain, n.op_type) in holders for n in nodes):
                extended.add(function)
        if extended == holders:
            break
        holders = extended
    if not holders:
        return proto
    inlined = _prepared(proto)
    try:
        inlined = onnx.inliner.inline_selected_functions(inlined, sorted(holders))
    except (RuntimeError, ValueError):
        return proto
    if any(entry.domain == TAP_DOMAIN for entry in inlined.opset_import):
        put_taps_last(inlined.graph)
    return inlined


def inlined_functions(proto: ModelProto) -> ModelProto:
    """Return a copy with all calls of local functions written out, to read types.

    Raises
    ------
    ModelError
        As from `check_functions` and `check_attributes`; or onnx cannot write a call out.
    """
    # Most sessions do not need it.
    import onnx.inliner

    check_functions(proto)
    check_attributes(proto)
    try:
        return onnx.inliner.inline_local_functions(_prepared(proto))
    except RuntimeError as error:
        # The text begins with a file and a line in the onnx source.
        reason = sanitize(str(error).rpartition("failed: ")[2], 200)
        expected = "calls that their functions take"
        raise ModelError("model, functions", expected=expected, got=reason) from error


def _prepared(proto: ModelProto) -> ModelProto:
    """Copy a model so that the onnx inliner takes its functions and drops nothing that they say."""
    # Most sessions never need this import.
    from pyopnb.engine.models.ort_capabilities import schema_domains

    copy = ModelProto()
    copy.CopyFrom(proto)
    # onnx inlines only where all versions agree; for domains of ops, versions mean nothing.
    imports = {e.domain: e.version for e in copy.opset_import}
    for local in copy.functions:
        for entry in local.opset_import:
            if entry.domain not in schema_domains():
                entry.version = imports.setdefault(entry.domain, 1)
    del copy.opset_import[:]
    copy.opset_import.extend(helper.make_opsetid(*entry) for entry in imports.items())
    _give_defaults(copy)
    _forget_types(copy)
    return copy


def _forget_types(model: ModelProto) -> None:
    """Remove the types that a function with several calls declares for its values.

    Each call has its own types.
    """
    called = Counter(function_key(site.node) for site in walk(model))
    for function in model.functions:
        if called[function_key(function)] > 1:
            del function.value_info[:]


def _give_defaults(model: ModelProto) -> None:
    """Write functions' default attributes into the calls that leave them out.

    The onnx inliner drops the defaults.
    """
    defaults = {function_key(f): f.attribute_proto for f in model.functions if f.attribute_proto}
    for site in walk(model) if defaults else ():
        attr_names = {a.name for a in site.node.attribute}
        standing = defaults.get(function_key(site.node), ())
        site.node.attribute.extend(a for a in standing if a.name not in attr_names)


def put_taps_last(scope: GraphProto | FunctionProto) -> None:
    """Move the taps of a graph or function to its end, so that each runs as soon as it can.

    ONNX Runtime begins with the last of the nodes on whose outputs no other depends, and runs all
    that it needs before it. So the tap that looks at the first node comes last.
    """
    produced = {name: place for place, node in enumerate(scope.node) for name in node.output}

    def place(node: NodeProto) -> int:
        if node.domain != TAP_DOMAIN:
            return -len(scope.node)
        return -max((produced.get(name, -1) for name in node.input), default=-1)

    scope.node.sort(key=place)

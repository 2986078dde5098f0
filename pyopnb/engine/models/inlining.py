"""Inline local functions, above all the ones with ops in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from pyopnb.common import sanitize
from pyopnb.engine.models.attribute_limits import check_attributes
from pyopnb.engine.models.model_functions import check_functions, function_key
from pyopnb.engine.models.protos import nodes_of_functions, walk
from pyopnb.errors import ModelError

__all__ = ["TAP_DOMAIN", "inline_ops", "inlined_functions", "put_taps_last"]

TAP_DOMAIN = "pyopnb.tap"
"""Domain of the taps, the nodes that `wrap` inserts beside the nodes that they look at.

They are never selected by name.
"""


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

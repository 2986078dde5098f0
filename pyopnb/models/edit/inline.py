"""Local functions put in the places of their calls, where they hold ops."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto, NodeProto, helper

from pyopnb.models.nodes import nodes_of_functions, refuse_recursion, walk
from pyopnb.models.ort_capabilities import schema_domains

__all__ = ["inline_ops"]


def inline_ops(proto: ModelProto, is_op: Callable[[NodeProto], bool]) -> ModelProto:
    """The model with the local functions that hold ops put in the places of their calls.

    ONNX Runtime infers the types of a function's outputs without the ops inside it, and two calls whose values nobody declares
    then have no types at all. Where onnx cannot inline, because a function imports another version of ONNX's operators, the
    model stays as it is, which is enough where the file declares those types.
    """
    import onnx.inliner  # what most sessions never need

    held = nodes_of_functions(proto)
    refuse_recursion(held)
    holders: set[tuple[str, str]] = set()
    while True:  # a function that calls one with an op in it holds that op as well
        more = {f for f, nodes in held.items() if any(is_op(n) or (n.domain, n.op_type) in holders for n in nodes)}
        if more == holders:
            break
        holders = more
    if not holders:
        return proto
    ready = ModelProto()
    ready.CopyFrom(proto)
    # The versions of domains that only hold ops say nothing, and onnx inlines only where all versions agree.
    known = {e.domain: e.version for e in ready.opset_import}
    for function in ready.functions:
        for entry in function.opset_import:
            if entry.domain not in schema_domains():
                entry.version = known.setdefault(entry.domain, 1)
    del ready.opset_import[:]
    ready.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in known.items())
    _give_defaults(ready)
    try:
        return onnx.inliner.inline_selected_functions(ready, sorted(holders))
    except (RuntimeError, ValueError):
        return proto


def _give_defaults(model: ModelProto) -> None:
    """Write the functions' default attrs into the calls that do not give them: onnx's inliner forgets them."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions if f.attribute_proto}
    for site in walk(model) if defaults else ():
        given = {a.name for a in site.node.attribute}
        standing = defaults.get((site.node.domain, site.node.op_type), ())
        site.node.attribute.extend(a for a in standing if a.name not in given)

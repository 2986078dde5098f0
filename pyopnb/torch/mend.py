"""Find the calls that come out wrong, by letting torch run ever fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyopnb.common import sanitize
from pyopnb.torch.calls import Unwritable, encode
from pyopnb.torch.holes import Hole, hole_of
from pyopnb.torch.program import calls_in
from pyopnb.torch.stand_in import PARTS, define
from pyopnb.torch.wrappers import is_put_in, put_node, take_back

__all__ = ["mend"]


def mend(program: Any, reason: str, fault: Callable[[], str | None]) -> list[Hole]:
    """Let torch run the calls of a program that the exporter, or ONNX Runtime, gets wrong.

    With all calls in torch the model should be right. From there on the shortest beginning of the
    program that torch has to run is found by halving; the last op in it is at fault, and all its
    calls stay in torch. That is repeated until the model is right with these alone: of n ops, about
    log2(n) exports for each that is at fault.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    reason : str
        The fault of its model.
    fault : callable
        Exports the program as it is now, and describes the fault of the model; None where it
        agrees with torch.

    Returns
    -------
    list of Hole
        Empty where nothing helps; the program is as it was then.
    """
    ops = _by_op(program)
    if not ops or _fault_with(program, ops, fault) is not None:
        return []
    at_fault: list[tuple[list[Any], str]] = []
    while True:
        in_torch = [calls for calls, _ in at_fault]
        # Right with the first `high` ops in torch, and wrong with the first `low`.
        low, high = 0, len(ops)
        while high - low > 1:
            middle = (low + high) // 2
            text = _fault_with(program, [*in_torch, *ops[:middle]], fault)
            if text is None:
                high = middle
            else:
                low, reason = middle, text
        at_fault.append((ops[high - 1], reason))
        ops = ops[: high - 1]
        in_torch = [calls for calls, _ in at_fault]
        text = _fault_with(program, in_torch, fault) if ops else None
        if text is None:
            return _put(at_fault)
        reason = text


def _by_op(program: Any) -> list[list[Any]]:
    """Group the calls that torch could take over by their ops, in the program's order."""
    calls = list(calls_in(program))
    writes = any(_writes(node.target) for node in calls)
    grouped: dict[Any, list[Any]] = {}
    for node in calls:
        if not _can_take_over(node):
            continue
        returns = node.target._schema.returns
        # An op gives a copy, and values written to a view must reach its tensor.
        if writes and any(entry.alias_info is not None for entry in returns):
            continue
        grouped.setdefault(node.target, []).append(node)
    return list(grouped.values())


def _can_take_over(node: Any) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target.namespace in ("pyopnb", PARTS) or is_put_in(node):
        return False
    try:
        encode(node)
    except Unwritable:
        return False
    return True


def _writes(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)


def _fault_with(
    program: Any, ops: Sequence[list[Any]], fault: Callable[[], str | None]
) -> str | None:
    """Describe the fault of the model if torch runs these; the program is restored afterwards."""
    nodes = [node for calls in ops for node in calls]
    before = [(node.target, node.args, node.kwargs) for node in nodes]
    for node in nodes:
        put_node(node, define(node.target))
    # Even if the export raises, the program must be as before for the next attempt.
    try:
        return fault()
    finally:
        for node, (target, args, kwargs) in zip(nodes, before, strict=True):
            take_back(node, target, args, kwargs)


def _put(at_fault: Sequence[tuple[list[Any], str]]) -> list[Hole]:
    holes = []
    for calls, reason in at_fault:
        for node in calls:
            holes.append(hole_of(node, sanitize(reason, 200)))
    for hole in holes:
        put_node(hole.node, define(hole.node.target))
    return holes

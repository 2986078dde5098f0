"""Calls that come out wrong: found by letting torch take over ever fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyopnb.ops.messages import sanitize
from pyopnb.torch.calls import Unwritable, encode
from pyopnb.torch.holes import Hole, hole_of
from pyopnb.torch.program import calls_in
from pyopnb.torch.stand_in import define
from pyopnb.torch.wrappers import is_put_in, put_node, take_back

__all__ = ["mend"]

_Call = tuple[Any, tuple[Any, ...]]


def mend(program: Any, reason: str, fault: Callable[[], str | None]) -> list[Hole]:
    """Let torch run the calls of a program that the exporter, or ONNX Runtime, gets wrong.

    With all calls in torch the model should be sound. From there on the shortest beginning of the program that torch has to run
    is found by halving; the last op in it is at fault, and all its calls stay in torch. That is repeated until the model is
    sound with these alone: of n ops, about log2(n) exports for each that is at fault.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        It is changed.
    reason : str
        What is wrong with its model.
    fault : callable
        Exports the program as it is now, and tells what is wrong with the model; None where it gives torch's numbers.

    Returns
    -------
    list of Hole
        Empty where nothing helps; the program is as it was then.
    """
    ops = _by_op(program)
    if not ops or _fault_with(program, ops, fault) is not None:
        return []
    at_fault: list[tuple[list[_Call], str]] = []
    while True:
        found = [calls for calls, _ in at_fault]
        low, high = 0, len(ops)
        while high - low > 1:
            middle = (low + high) // 2
            said = _fault_with(program, [*found, *ops[:middle]], fault)
            low, high, reason = (low, middle, reason) if said is None else (middle, high, said)
        at_fault.append((ops[high - 1], reason))
        ops = ops[: high - 1]
        still = _fault_with(program, [calls for calls, _ in at_fault], fault) if ops else None
        if still is None:
            return [hole for calls, said in at_fault for hole in _put(calls, said)]
        reason = still


def _by_op(program: Any) -> list[list[_Call]]:
    """The calls that torch could take over, those of one op together, in the program's order."""
    calls = list(calls_in(program))
    changes = any(
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        for node, _ in calls
    )
    grouped: dict[Any, list[_Call]] = {}
    for node, around in calls:
        target = node.target
        if (
            not isinstance(target, torch._ops.OpOverload)
            or target.namespace.startswith("pyopnb")
            or is_put_in(node)
        ):
            continue
        if changes and any(entry.alias_info is not None for entry in target._schema.returns):
            continue  # an op gives a copy, and what is written to a view must reach its tensor
        try:
            encode(node)
        except Unwritable:
            continue
        grouped.setdefault(target, []).append((node, around))
    return list(grouped.values())


def _fault_with(
    program: Any, ops: Sequence[list[_Call]], fault: Callable[[], str | None]
) -> str | None:
    """What is wrong with the model if torch runs these; the program is as it was then."""
    nodes = [node for calls in ops for node, _ in calls]
    before = [(node.target, node.args, node.kwargs) for node in nodes]
    for node in nodes:
        put_node(node, define(node.target))
    try:
        return fault()
    finally:
        for node, (target, args, kwargs) in zip(nodes, before, strict=True):
            take_back(node, target, args, kwargs)


def _put(calls: Sequence[_Call], reason: str) -> list[Hole]:
    holes = [hole_of(node, around, sanitize(reason, 200)) for node, around in calls]
    for hole in holes:
        put_node(hole.node, define(hole.node.target))
    return holes

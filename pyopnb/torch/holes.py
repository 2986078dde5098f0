"""Find the calls for which the torch exporter has no ONNX operator."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

import torch

from pyopnb.common import sanitize
from pyopnb.errors import ModelError
from pyopnb.torch.calls import Unwritable, as_list, encode, target_name
from pyopnb.torch.program import calls_in, where_of
from pyopnb.torch.source import line_of, path_of, submodule_of

__all__ = ["Hole", "NoStandIn", "failed_call", "find_holes", "hole_of"]

# The types of this many inputs are written out.
_MOST_TYPES = 6


@dataclass(frozen=True)
class Hole:
    """A call that the exporter cannot write as ONNX.

    Attributes
    ----------
    op : str
        The torch op, as ``ops=`` of `export` and Python take it:
        ``torch.ops.aten.inverse.default``.
    line : str
        The user's line that calls it; empty where it is not known.
    types : str
        Of the inputs and outputs.
    reason : str
        The operator that the exporter lacks.
    path : str
        The submodule that calls it: ``encode.norm1 (LayerNorm)``.
    remedy : str
        The advice that would let the exporter write it, beside a cell of yours.
    """

    op: str
    line: str
    types: str
    reason: str
    path: str = ""
    remedy: str = ""
    node: Any = field(default=None, repr=False)
    target: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        text = f"{self.op} {self.types}: {self.reason}"
        return f"{self.line}: {text}" if self.line else text


def find_holes(program: Any, failure: BaseException) -> list[Hole]:
    """Find the call of a program that made the exporter fail, and calls like it.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    failure : BaseException
        The exception of the exporter.

    Returns
    -------
    list of Hole
        Empty where the failure has another reason.

    Raises
    ------
    NoStandIn
        No op can replace the call.
    """
    failed, cause = failed_call(failure)
    if failed is None:
        return []
    # The exporter decomposes a program with a table of its own before it translates it, so the call
    # need not be one of the program's. It notes where it comes from.
    return _holes_like(program, failed, str(cause).partition("\n")[0])


class NoStandIn(ModelError):
    """A call that neither the exporter nor an op that calls torch can carry out.

    Attributes
    ----------
    path, line : str
        The submodule and the user's line that call it; empty where they are not known.
    """

    path, line = "", ""

    @classmethod
    def of(cls, node: Any, where: str, **texts: str) -> NoStandIn:
        """Make the error for a call."""
        error = cls(where, **texts)
        error.path, error.line = path_of(node), line_of(node)
        return error


def failed_call(failure: BaseException) -> tuple[Any, BaseException]:
    """Find the call at which the exporter gave up, and the exception there."""
    call = None
    while True:
        # Its errors are chained: the outermost names the step, the next the call,
        # the last the reason.
        if str(failure).startswith("Error when translating node"):
            for frame, _ in traceback.walk_tb(failure.__traceback__):
                node = frame.f_locals.get("node")
                call = node if isinstance(node, torch.fx.Node) else call
        if failure.__cause__ is None:
            return call, failure
        failure = failure.__cause__


def _holes_like(program: Any, failed: Any, reason: str) -> list[Hole]:
    """List the user's call that a failed one comes from, and all with its op and dtypes."""
    # A body of control flow may use the names of the graph around it: one more op then calls torch,
    # which does no harm.
    calls: dict[str, list[Any]] = {}
    for node in calls_in(program):
        calls.setdefault(node.name, []).append(node)
    # Decomposition notes for each call which ones it comes from, the original one first.
    names = [source.name for source in reversed(failed.meta.get("from_node", []))]
    for name in (*names, failed.name):
        if name not in calls:
            continue
        kinds = set(map(_kind, calls[name]))
        # The exporter names one call at a time, and an export takes a second: a call that fails
        # once will fail again.
        alike = [node for node in calls_in(program) if _kind(node) in kinds]
        return [hole_of(node, reason) for node in alike]
    raise NoStandIn.of(
        failed,
        line_of(failed) or "module",
        expected="an op with an ONNX function",
        got=sanitize(str(failed.target)),
        next="rewrite that line",
    )


def _kind(node: Any) -> tuple[Any, ...]:
    """Describe a call by its op and the dtypes of its inputs, by which the exporter chooses."""
    dtypes = []
    for entry in node.all_input_nodes:
        dtypes.append(getattr(entry.meta.get("val"), "dtype", None))
    return node.target, tuple(dtypes)


def hole_of(node: Any, reason: str) -> Hole:
    """Describe a call as a hole.

    Parameters
    ----------
    node : torch.fx.Node

    Raises
    ------
    NoStandIn
        No op can replace it.
    """
    expected = "an op of the exporter, or one that can run in torch"
    if getattr(node.target, "namespace", "") == "pyopnb":
        # It already is a stand-in, and the exporter does not take that either.
        raise NoStandIn.of(node, where_of(node), expected=expected, got=sanitize(reason, 400))
    try:
        call = encode(node)
    except Unwritable as error:
        why = f"{reason}; expected {error.expected}, got {error.got}"
        where = where_of(node)
        got = sanitize(why, 400)
        raise NoStandIn.of(node, where, expected=expected, got=got) from None
    inputs = []
    for value in call.inputs:
        inputs.append(_type_text(None if value is None else value.meta["val"]))
    if len(inputs) > _MOST_TYPES:
        # A part has its weights among these.
        inputs[_MOST_TYPES - 1 :] = [f"and {len(inputs) - _MOST_TYPES + 1} more"]
    results = node.meta["val"]
    types = f"({', '.join(inputs)}) -> {', '.join(map(_type_text, as_list(results)))}"
    # The exporter's own text is a sentence on its registry of functions.
    if reason.startswith("No ") and "complex" not in reason:
        reason = "no ONNX function"
    return Hole(
        target_name(node.target),
        line_of(node),
        types,
        sanitize(reason),
        submodule_of(node),
        "",
        node,
        node.target,
    )


def _type_text(value: Any) -> str:
    """Write the type of a fake tensor as ``float32[N,3]``, with a letter for each open size."""
    if value is None:
        return "none"
    if not isinstance(value, torch.Tensor):
        # It is a size that the graph computes.
        return "int64[]"
    dims = []
    for size in value.shape:
        text = str(size)
        # An expression of sizes, as (s0 - 1)//2, is too long for a type.
        is_short = isinstance(size, int) or text.isidentifier()
        dims.append(text if is_short else "?")
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(dims)}]"

"""Annotate the user's source with each line's operators, up to where the trace stopped."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import CodeType

from onnx import NodeProto

from pyopnb.display import LoweredLine, LoweredSource
from pyopnb.engine import Version
from pyopnb.lowering.refusal import Refusal, SourceLine

__all__ = ["annotate"]


def annotate(
    version: Version,
    nodes: Iterable[NodeProto],
    lines: Mapping[str, SourceLine],
    refusal: Refusal | None = None,
) -> LoweredSource:
    """List the lines of ``compute`` and of the functions it calls, with the operators of each.

    Parameters
    ----------
    nodes : iterable of NodeProto
        The recorded nodes.
    lines : mapping
        By value, the line that a node comes from.
    refusal : Refusal, optional
        Why a line stays in Python.
    """
    operators: dict[tuple[str, int], list[str]] = defaultdict(list)
    # A dict and not a set, to keep the order. ``compute`` may have no code, if it is a partial
    # function.
    compute = getattr(getattr(version.cls, "compute", None), "__code__", None)
    codes: dict[CodeType, None] = {} if compute is None else {compute: None}
    for node in nodes:
        line = lines.get(node.output[0])
        if node.op_type != "Constant" and line is not None:
            operators[line.code.co_filename, line.number].append(node.op_type)
            codes[line.code] = None
    reasons: dict[tuple[str, int], str] = {}
    if refusal is not None and refusal.line is not None:
        reasons[refusal.line.code.co_filename, refusal.line.number] = refusal.got
        codes[refusal.line.code] = None
    texts: dict[tuple[str, int], str] = {}
    for code in codes:
        texts.update(_block(code))
    # Code without source, as in a plain console, still has line numbers.
    for key in [*operators, *reasons]:
        texts.setdefault(key, "")
    annotated = []
    for key, text in texts.items():
        line_operators = tuple(operators.get(key, ()))
        annotated.append(LoweredLine(key[1], text, line_operators, reasons.get(key, "")))
    return LoweredSource(str(version), tuple(annotated))


def _block(code: CodeType) -> dict[tuple[str, int], str]:
    """Return the lines of a function by file and number.

    A lambda has the lines of its whole statement.
    """
    first = code.co_firstlineno
    following = linecache.getlines(code.co_filename)[first - 1 :]
    if not following:
        return {}
    block = textwrap.dedent("".join(inspect.getblock(following)))
    numbered = enumerate(block.splitlines(), first)
    return {(code.co_filename, number): text for number, text in numbered}

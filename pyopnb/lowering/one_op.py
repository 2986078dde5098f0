"""One op, traced and compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyopnb.display import LoweredSource
from pyopnb.engine import Op, ort_capabilities
from pyopnb.errors import InputError
from pyopnb.lowering.annotate import annotate
from pyopnb.lowering.trace_op import LoweredOp, ranks_of, same_attrs, trace_op, without_warnings
from pyopnb.lowering.verify import tries_empty, verify
from pyopnb.lowering.written_form import compares_finite, written_form
from pyopnb.testing import OpExample, Subject

__all__ = ["called_on", "lower_op", "remember", "source_of"]


def lower_op(
    op: Op,
    examples: Sequence[OpExample],
    *,
    opset: int | None = None,
    finite: bool = False,
    compares: bool = True,
) -> LoweredOp:
    """Trace an op on its first example, and compare the function with the op.

    Parameters
    ----------
    finite : bool
        Assume that no array has NaN or infinities.
    compares : bool
        Whether to compare the results.

    Raises
    ------
    NotLowered
    InputError
        The examples have several dtypes or ranks.
    Exception
        The exception that the op raises on the first example.
    """
    # Run the op first, so that its own exceptions are not mistaken for tracing errors.
    _refuse_several(op, examples)
    subject = Subject(op, list(examples))
    expected = called_on(subject, examples[0])
    written = written_form(subject, examples[0], opset)
    opset = opset or ort_capabilities.newest_opset()
    if written is not None and compares_finite(subject):
        finite = True
    lowered = written
    if lowered is None:
        lowered = trace_op(subject, examples[0], expected, opset=opset, finite=finite)
    for number, example in enumerate(examples):
        if not lowered.holds_for(example):
            raise InputError(
                f"lower of {op.name}, example {number}",
                expected="the constant inputs of the first, which are part of the function",
                got="others",
                next="one call of lower for each",
            )
    if not compares:
        lowered.function.doc_string += " Not compared with compute."
        return lowered
    verify(lowered, subject, examples, finite=finite)
    lowered.function.doc_string += " Compared with compute."
    if written is not None and compares_finite(subject):
        lowered.function.doc_string += " Not compared on NaN and infinities."
    if not tries_empty(lowered):
        lowered.function.doc_string += " Not compared without elements."
    return lowered


def called_on(subject: Subject, example: OpExample) -> tuple[np.ndarray, ...]:
    """Call an op on an example with its warnings silenced.

    Raises
    ------
    Exception
        The exception that the op raises.
    """
    with without_warnings():
        return subject.call(example)


def source_of(op: Op, lowered: LoweredOp) -> LoweredSource | None:
    """Return the source of an op with each line's operators; None if its class wrote the form."""
    if lowered.is_written:
        return None
    return annotate(op.current, lowered.function.node, lowered.lines)


def remember(op: Op, lowered: LoweredOp) -> None:
    """Keep the source of a function for its display."""
    source = source_of(op, lowered)
    if source is not None:
        source.remember(lowered.function)


def _refuse_several(op: Op, examples: Sequence[OpExample]) -> None:
    """Refuse examples of several dtypes, ranks or attrs: a function is for one."""
    first = examples[0]
    for number, example in enumerate(examples):
        if ranks_of(example) != ranks_of(first) or not same_attrs(example.attrs, first.attrs):
            raise InputError(
                f"lower of {op.name}, example {number}",
                expected=f"the dtypes, ranks and attrs of the first, {first}",
                got=str(example),
                next="one call of lower for each",
            )

"""One op, traced and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyopnb.display.lowered_source import LoweredSource, remember_source
from pyopnb.errors import InputError, ModelError, NotLowered
from pyopnb.lowering.annotate import annotate
from pyopnb.lowering.trace_op import LoweredOp, ranks_of, trace_op, without_warnings
from pyopnb.lowering.verify import FLOATS, NoKernel, in_dtype, tries_empty, verify
from pyopnb.lowering.written_form import compares_finite, written_form
from pyopnb.models.ort_capabilities import newest_opset
from pyopnb.ops.messages import one_line, sanitize
from pyopnb.ops.op import Op
from pyopnb.testing.subject import Example, Subject

__all__ = ["called_on", "lower_op", "remember", "source_of"]


def lower_op(
    op: Op,
    examples: Sequence[Example],
    *,
    opset: int | None = None,
    finite: bool = False,
    sizes: bool = False,
    compares: bool = True,
) -> LoweredOp:
    """Trace an op on its first example, and compare the function with the op.

    Parameters
    ----------
    op : Op
    examples : sequence of Example
    opset : int, optional
    finite : bool
        Whether no array has NaN or infinities.
    sizes : bool
        Whether the function is for the sizes of the examples alone.
    compares : bool
        Whether to compare the results.

    Returns
    -------
    LoweredOp

    Raises
    ------
    NotLowered
    InputError
        The examples have several dtypes or ranks.
    Exception
        What the op raises on the first example.
    """
    # What the op itself raises is no reason of the trace, and is raised before it.
    _refuse_several(op, examples)
    subject = Subject(op, list(examples))
    expected = called_on(subject, examples[0])
    written = written_form(subject, examples[0], opset)
    opset = opset or newest_opset()
    if written is not None and compares_finite(subject):
        finite = True
    lowered = written
    if lowered is None:
        lowered = trace_op(subject, examples[0], expected, opset=opset, finite=finite, sizes=sizes)
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
    verify(lowered, subject, examples, finite=finite, sizes=sizes)
    if written is not None:
        # Its class has written it for these dtypes.
        lowered.function.doc_string += _verdict({}, tries_empty(lowered))
        if compares_finite(subject):
            lowered.function.doc_string += " Not compared on NaN and infinities."
        return lowered
    reasons: dict[str, str | None] = {}
    for dtype in FLOATS:
        example = in_dtype(examples[0], dtype)
        if example.types != examples[0].types:
            reasons[dtype.name] = _try_dtype(subject, example, opset, finite=finite, sizes=sizes)
    lowered.function.doc_string += _verdict(reasons, tries_empty(lowered))
    return lowered


def called_on(subject: Subject, example: Example) -> tuple[np.ndarray, ...]:
    """Call an op on an example without its warnings, which it gives where it runs.

    Raises
    ------
    Exception
        What the op raises.
    """
    with without_warnings():
        return subject.call(example)


def source_of(op: Op, lowered: LoweredOp) -> LoweredSource | None:
    """Return the source of an op with the operators of each line; None where its class wrote the function."""
    if lowered.is_written:
        return None
    return annotate(op.current, lowered.function.node, lowered.lines)


def remember(op: Op, lowered: LoweredOp) -> None:
    """Keep the source of a function for its display."""
    source = source_of(op, lowered)
    if source is not None:
        remember_source(lowered.function, source)


def _verdict(reasons: Mapping[str, str | None], without_elements: bool) -> str:
    """Say in which other dtypes results were compared, and why not in the others."""
    compared = [name for name, reason in reasons.items() if reason is None]
    verdict = " Compared with compute."
    if compared:
        verdict = f" Compared with compute, also in {' and '.join(compared)}."
    if not without_elements:
        verdict += " Not compared without elements: kernels of this onnxruntime give anything for them, or end the process."
    for name, reason in reasons.items():
        if reason is not None:
            verdict += f" Not compared in {name}: {reason}."
    return verdict


def _refuse_several(op: Op, examples: Sequence[Example]) -> None:
    """Refuse examples of several dtypes or ranks: a function is for one."""
    first = ranks_of(examples[0])
    for number, example in enumerate(examples):
        if ranks_of(example) != first:
            raise InputError(
                f"lower of {op.name}, example {number}",
                expected=f"the dtypes and ranks of the first, {examples[0]}",
                got=str(example),
                next="one call of lower for each",
            )


def _try_dtype(
    subject: Subject, example: Example, opset: int, *, finite: bool, sizes: bool
) -> str | None:
    """Trace and compare the op in another dtype, as far as it takes that and ONNX Runtime has kernels.

    Returns
    -------
    str or None
        Why it could not be compared.

    Raises
    ------
    NotLowered
        A result differs.
    """
    try:
        subject.schema.check_inputs(example.types, subject.op.name)
        expected = called_on(subject, example)
    except ModelError:
        return "the hints have another dtype"
    except Exception as error:  # an op need not take every dtype that its ports leave open
        return f"compute raises {type(error).__name__}, {_in_short(error)}"
    # Both may fail for want of a kernel in this dtype, which is not the example's.
    try:
        lowered = trace_op(subject, example, expected, opset=opset, finite=finite, sizes=sizes)
    except NotLowered as error:  # for want of a kernel in this dtype, which is not the example's
        return _in_short(error)
    try:
        verify(lowered, subject, [example], finite=finite, sizes=sizes)
    except NoKernel as error:
        return _in_short(error)
    return None


def _in_short(error: Exception) -> str:
    return one_line(sanitize(str(error), 160)).rstrip(".")

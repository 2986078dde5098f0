"""One op, traced and compared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from pyopnb.lowering.tracer import LoweredOp, trace_op
from pyopnb.lowering.verify import FLOATS, NoKernel, in_dtype, verify
from pyopnb.models.ort_capabilities import newest_opset
from pyopnb.ops.errors import FeedError, ModelError, NotLowered
from pyopnb.ops.op import Op
from pyopnb.testing.subject import Example, Subject

__all__ = ["lower_op"]


def lower_op(
    op: Op, examples: Sequence[Example], *, opset: int | None = None, finite: bool = False, sizes: bool = False
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

    Returns
    -------
    LoweredOp

    Raises
    ------
    NotLowered
    FeedError
        The examples have several dtypes or ranks.
    Exception
        What the op raises on the first example.
    """
    _refuse_several(op, examples)
    subject = Subject(op, list(examples))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what the op warns of, it says where it runs
        expected = subject.call(examples[0])
    opset = opset or newest_opset()
    lowered = trace_op(subject, examples[0], expected, opset=opset, finite=finite, sizes=sizes)
    verify(lowered, subject, examples, finite=finite, sizes=sizes)
    for dtype in FLOATS:
        other = in_dtype(examples[0], dtype)
        if other.types != examples[0].types:
            _try_dtype(subject, other, opset, finite=finite, sizes=sizes)
    return lowered


def _refuse_several(op: Op, examples: Sequence[Example]) -> None:
    kinds = [[kind and kind.without_sizes() for kind in example.types] for example in examples]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise FeedError(
                f"lower of {op.name}, example {number}",
                expected=f"the dtypes and ranks of the first, {examples[0]}",
                got=str(examples[number]),
                next="one call of lower for each",
            )


def _try_dtype(subject: Subject, example: Example, opset: int, *, finite: bool, sizes: bool) -> None:
    """Trace and compare the op in another dtype, as far as it takes that and ONNX Runtime has kernels.

    Raises
    ------
    NotLowered
        A result differs.
    """
    try:
        subject.schema.check_inputs(example.types, subject.op.name)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = subject.call(example)
    except ModelError:
        return
    except Exception:  # an op need not take every dtype that its ports leave open
        return
    try:
        lowered = trace_op(subject, example, expected, opset=opset, finite=finite, sizes=sizes)
    except NotLowered:  # for want of a kernel in this dtype, which is not the example's
        return
    try:
        verify(lowered, subject, [example], finite=finite, sizes=sizes)
    except NoKernel:
        return

"""``Loop`` as ONNX defines it: each scan output is stacked along a new first axis.

The onnx class (tried: 1.23.2, the newest) joins them by ``numpy.vstack``, which gives scalars
two axes and matrices only two, and fails where the loop does not run at all. Models that torch
exports collect scalars in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import ValueInfoProto, helper

__all__ = ["body_class", "checked", "loop_class", "stacked"]


@cache
def body_class(name: str, run: Callable[..., tuple[Any, ...]]) -> type:
    """Return a class for ``new_ops`` of ``onnx.reference.ReferenceEvaluator`` that runs a body.

    It is made on first use, because its base class is slow to import.
    """
    from onnx.reference.op_run import OpRun

    class Body(OpRun):
        """An operator with a body, which may read the values around it."""

        op_domain = ""
        # Without this the evaluator takes the schema of any operator of this name.
        op_schema = None

        def need_context(self) -> bool:
            """Ask for the values around the body."""
            return True

    return type(name, (Body,), {"_run": run})


def loop_class() -> type:
    """Return the class of Loop."""
    return body_class("Loop", _run)


def _run(
    op: Any,
    limit: Any,
    condition: Any,
    *carried: Any,
    context: Any = None,
    body: Any = None,
    **options: Any,
) -> tuple[Any, ...]:
    # OpRun sets it from the node's attributes.
    evaluator = op.body
    counter, condition_name, *state_names = evaluator.input_names
    state_count = len(state_names)
    states: Sequence[Any] = carried
    rows: list[Sequence[Any]] = []
    last = None if limit is None else int(np.asarray(limit).item())
    goes_on = condition is None or bool(np.asarray(condition).item())
    # A body may declare that the counter has one axis.
    shape = (1,) * len(evaluator.proto_.input[0].type.tensor_type.shape.dim)
    number = 0
    while goes_on and (last is None or number < last):
        values = dict(context or {})
        values[counter] = np.full(shape, number, np.int64)
        values[condition_name] = np.array(goes_on)
        values.update(zip(state_names, states, strict=True))
        results = op._run_body(values, **options)
        goes_on = bool(np.asarray(results[0]).item())
        states = results[1 : state_count + 1]
        rows.append(results[state_count + 1 :])
        number += 1
    return checked(op, [*states, *stacked(rows, evaluator.proto_.output[state_count + 1 :])])


def checked(op: Any, results: Sequence[Any]) -> tuple[Any, ...]:
    """Return results as the evaluator wants them."""
    outputs: tuple[Any, ...] = op._check_and_fix_outputs(tuple(results))
    return outputs


def stacked(rows: Sequence[Sequence[Any]], outputs: Sequence[ValueInfoProto]) -> list[np.ndarray]:
    """Stack the scan outputs of all iterations."""
    if not rows:
        return [_empty(info.type.tensor_type) for info in outputs]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _empty(tensor: Any) -> np.ndarray:
    """Make the scan output of a loop that did not run, with 0 for every unknown length.

    ONNX leaves these lengths open; ONNX Runtime takes 0.
    """
    lengths = [dim.dim_value for dim in tensor.shape.dim]
    return np.empty((0, *lengths), helper.tensor_dtype_to_np_dtype(tensor.elem_type or 1))

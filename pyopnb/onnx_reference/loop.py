"""``Loop`` as ONNX defines it: each scan output is stacked along a new first axis.

The onnx class (tried: 1.23.2, the newest) joins them by ``numpy.vstack``, which gives scalars
two axes and matrices only two, and fails where the loop does not run at all. Models that torch
exports collect scalars in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import TypeProto, helper

__all__ = ["empty_scan_output", "loop_class"]


@cache
def loop_class() -> type:
    """Return the class for ``new_ops`` of ``onnx.reference.ReferenceEvaluator``.

    It is made on first use, because its base class is slow to import.
    """
    from onnx.reference.op_run import OpRun

    class Loop(OpRun):
        """The loop of a graph."""

        op_domain = ""
        # Without this the evaluator takes the schema of any operator of this name.
        op_schema = None

        def need_context(self) -> bool:
            """Ask for the values around the body, which it may read."""
            return True

        def _run(
            self,
            limit: Any,
            condition: Any,
            *carried: Any,
            context: Any = None,
            body: Any = None,
            **options: Any,
        ) -> tuple[Any, ...]:
            # OpRun sets it from the node's attributes.
            evaluator: Any = self.body  # type: ignore[attr-defined]
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
                results = self._run_body(values, **options)  # type: ignore[attr-defined]
                goes_on = bool(np.asarray(results[0]).item())
                states = results[1 : state_count + 1]
                rows.append(results[state_count + 1 :])
                number += 1
            types = [info.type for info in evaluator.proto_.output[state_count + 1 :]]
            outputs: tuple[Any, ...] = self._check_and_fix_outputs(
                (*states, *_stacked(rows, types))
            )
            return outputs

    return Loop


def _stacked(rows: list[Sequence[Any]], types: list[TypeProto]) -> list[np.ndarray]:
    """Stack the scan outputs of all iterations."""
    if not rows:
        return [empty_scan_output(type_) for type_ in types]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def empty_scan_output(type_: TypeProto) -> np.ndarray:
    """Make the scan output of a loop that did not run, with 0 for every unknown length.

    ONNX leaves these lengths open; ONNX Runtime takes 0.
    """
    tensor = type_.tensor_type
    lengths = [dim.dim_value for dim in tensor.shape.dim]
    return np.empty((0, *lengths), helper.tensor_dtype_to_np_dtype(tensor.elem_type or 1))

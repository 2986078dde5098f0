"""``Loop`` as ONNX defines it: each scan output is stacked along a new first axis.

onnx's own class joins them by ``numpy.vstack``, which gives scalars two axes and matrices only two, and fails where the loop
does not run at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import TypeProto, helper

__all__ = ["loop_class"]


@cache
def loop_class() -> type:
    """The class for ``new_ops`` of ``onnx.reference.ReferenceEvaluator``, which is slow to import."""
    from onnx.reference.op_run import OpRun

    class Loop(OpRun):
        """The loop of a graph."""

        op_domain = ""
        op_schema = None  # or the evaluator would take that of any operator of this name

        def need_context(self) -> bool:
            """The body reads values around it."""
            return True

        def _run(
            self, most: Any, condition: Any, *carried: Any, context: Any = None, body: Any = None, **more: Any
        ) -> tuple[Any, ...]:
            evaluator: Any = self.body  # type: ignore[attr-defined]  # set from the node's attributes
            counter, going, *states = evaluator.input_names
            values: Sequence[Any] = carried
            rows: list[Sequence[Any]] = []
            number, limit = 0, None if most is None else int(np.asarray(most).item())
            goes_on = condition is None or bool(np.asarray(condition).item())
            while goes_on and (limit is None or number < limit):
                known = {**(context or {}), counter: np.array(number, np.int64), going: np.array(goes_on)}
                found = self._run_body({**known, **dict(zip(states, values, strict=True))}, **more)  # type: ignore[attr-defined]
                goes_on = bool(np.asarray(found[0]).item())
                values, scanned = found[1 : len(states) + 1], found[len(states) + 1 :]
                rows.append(scanned)
                number += 1
            kinds = [info.type for info in evaluator.proto_.output[len(states) + 1 :]]
            columns = zip(*rows, strict=True) if rows else (() for _ in kinds)
            stacked = [np.stack(column) if column else _nothing(kind) for column, kind in zip(columns, kinds, strict=True)]
            made: tuple[Any, ...] = self._check_and_fix_outputs((*values, *stacked))
            return made

    return Loop


def _nothing(kind: TypeProto) -> np.ndarray:
    """The scan output of a loop that did not run: what the body declares, with a length of 0 for every unknown one.

    ONNX leaves the lengths open; these are ONNX Runtime's.
    """
    tensor = kind.tensor_type
    lengths = [dim.dim_value for dim in tensor.shape.dim]
    return np.empty((0, *lengths), helper.tensor_dtype_to_np_dtype(tensor.elem_type or 1))

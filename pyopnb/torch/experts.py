"""Write matrix products by groups of rows in ONNX, which the exporter has no form for.

Mixtures of experts have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onnxscript import opset18

__all__ = ["translations_of_experts"]

_INT64 = 7


def translations_of_experts(nodes: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """Return translations for ``torch.onnx.export`` of such products among calls.

    Returns
    -------
    dict
        By torch op. The transformers op is there only if the program calls it.
    """
    table: dict[Any, Callable[..., Any]] = {}
    for node in nodes:
        # Transformers (5.24) calls this op of its own where torch.export captures.
        if str(node.target) == "transformers.grouped_mm_fallback.default":
            table[node.target] = _grouped_product
    return table


def _grouped_product(inputs: Any, weights: Any, ends: Any) -> Any:
    """Multiply the rows up to each end by the matrix of that group.

    The rows after the last end become 0.
    """
    ends = opset18.Cast(ends, to=_INT64)
    products, start = [], [0]
    for group in range(weights.shape[0]):
        end = opset18.Slice(ends, [group], [group + 1], [0])
        rows = opset18.Slice(inputs, start, end, [0])
        products.append(opset18.MatMul(rows, opset18.Gather(weights, group, axis=0)))
        start = end
    count = opset18.Sub(opset18.Shape(inputs, start=0, end=1), start)
    columns = opset18.Constant(value_ints=[weights.shape[2]])
    zero = opset18.CastLike(0.0, inputs)
    products.append(opset18.Expand(zero, opset18.Concat(count, columns, axis=0)))
    return opset18.Concat(*products, axis=0)

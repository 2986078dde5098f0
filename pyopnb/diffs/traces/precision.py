"""The coarsest dtype on the way to each tensor of a graph.

Rounding in float16 persists in later float32 tensors: between two runs that round in different
places, they only agree to the precision of float16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import ModelProto

from pyopnb.diffs.tolerances import TOLERANCES
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.engine import dtype, protos
from pyopnb.models import Types

__all__ = ["precisions"]


def precisions(model: ModelProto, graph: TraceGraph, arrays: Mapping[str, Any]) -> dict[str, str]:
    """Find the coarsest float dtype upstream of a tensor, if it is coarser than its own.

    Parameters
    ----------
    graph : TraceGraph
        The model's main graph.
    arrays : mapping
        The tensors that a run recorded. The dtypes of the others are declared by
        the model, or inferred.

    Returns
    -------
    dict
        ``"float16"`` … by the names of the tensors.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.parse(
    ...     "(float[N] x) => (float[N] y) { a = Cast<to = 10>(x)  b = Abs(a)  y = Cast<to = 1>(b) }"
    ... )
    >>> precisions(model, TraceGraph(model), {})
    {'y': 'float16'}
    """
    # Inferring types takes time in large models, and is not needed where all arrays are there.
    types = None
    if not all(name in arrays for name in graph.order):
        types = Types(model)
    # The coarsest dtype up to each tensor, its own included.
    coarsest: dict[str, str] = {}
    coarser: dict[str, str] = {}
    for position, node in enumerate(graph.nodes):
        if position in graph.constants:
            continue
        reads = [coarsest[name] for name in graph.reads[position] if name in coarsest]
        for name in filter(None, node.output):
            if types is None or name in arrays:
                dtype_name = _dtype(arrays[name])
            else:
                dtype_name = _declared(types, model, name)
            # Other dtypes, such as integers and strings, carry no precision.
            if dtype_name in TOLERANCES:
                coarsest[name] = _coarsest([dtype_name, *reads])
                if coarsest[name] != dtype_name:
                    coarser[name] = coarsest[name]
    return coarser


def _coarsest(names: Iterable[str]) -> str:
    return max(names, key=lambda name: TOLERANCES[name].rtol)


def _dtype(value: Any) -> str:
    try:
        return dtype(value.dtype).name
    except (AttributeError, ValueError):  # a sequence, or a dtype that ONNX does not have
        return ""


def _declared(types: Types, model: ModelProto, name: str) -> str:
    declared = types.find(model.graph, name)
    if declared is None:
        return ""
    declared_dtype = protos.type_of_proto(declared).dtype
    if declared_dtype is None:
        return ""
    return declared_dtype.name

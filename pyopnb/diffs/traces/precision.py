"""The coarsest dtype on the way to each tensor of a graph.

What a node of float16 rounds, a later float32 carries on: between two runs that round in other places, such a float32 agrees to
float16's precision only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import ModelProto

from pyopnb.diffs.tolerances import TOLERANCES
from pyopnb.diffs.traces.segments import TraceGraph
from pyopnb.models.nodes import type_of_proto
from pyopnb.models.types import Types
from pyopnb.ops.dtypes import dtype

__all__ = ["precisions"]


def precisions(model: ModelProto, graph: TraceGraph, arrays: Mapping[str, Any]) -> dict[str, str]:
    """Find the coarsest float dtype that nodes made on the way to a tensor, where that is coarser than its own.

    Parameters
    ----------
    model : ModelProto
    graph : TraceGraph
        Of its main graph.
    arrays : mapping
        What a run recorded of its tensors. The others' dtypes are those that the model declares, or that follow.

    Returns
    -------
    dict
        ``"float16"`` … by the names of the tensors.

    Examples
    --------
    >>> import pyopnb
    >>> model = pyopnb.parse("(float[N] x) => (float[N] y) { a = Cast<to = 10>(x)  b = Abs(a)  y = Cast<to = 1>(b) }")
    >>> precisions(model, TraceGraph(model), {})
    {'y': 'float16'}
    """
    types = None if all(name in arrays for name in graph.order) else Types(model)
    made: dict[str, str] = {}  # the coarsest dtype up to each tensor, its own included
    coarser: dict[str, str] = {}
    for place, node in enumerate(graph.nodes):
        if place in graph.constants:
            continue
        read = [made[name] for name in graph.reads[place] if name in made]
        for name in filter(None, node.output):
            own = (
                _dtype(arrays[name])
                if types is None or name in arrays
                else _declared(types, model, name)
            )
            if own in TOLERANCES:
                made[name] = _coarsest([own, *read])
                if made[name] != own:
                    coarser[name] = made[name]
    return coarser


def _coarsest(names: Iterable[str]) -> str:
    return max(names, key=lambda name: TOLERANCES[name].rtol)


def _dtype(value: Any) -> str:
    try:
        return dtype(value.dtype).name
    except (AttributeError, ValueError):  # a sequence, or a dtype that ONNX does not have
        return ""


def _declared(types: Types, model: ModelProto, name: str) -> str:
    found = types.find(model.graph, name)
    kind = None if found is None else type_of_proto(found).dtype
    return "" if kind is None else kind.name

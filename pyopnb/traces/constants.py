"""Tensors that depend on no feed, computed beside a run."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from onnx import ModelProto

from pyopnb.engine import ModelSource, external_files, onnx_schemas, to_model
from pyopnb.onnx_reference import Evaluator
from pyopnb.traces.runs.reference_run import like_onnxruntime

__all__ = ["constants_behind"]

_RANDOM = frozenset({"Bernoulli", "Multinomial"})


def constants_behind(source: ModelSource, names: Collection[str]) -> dict[str, Any]:
    """Compute some tensors of the main graph and all that is computed of them, if it is constant.

    Parameters
    ----------
    names : collection of str
        The others that are computed from these tensors alone are also computed.

    Returns
    -------
    dict
        The values by name; empty where the named tensors depend on a feed.
    """
    graph = source.proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants -= {info.name for info in graph.input}
    behind: set[str] = set()
    nodes = []
    for node in graph.node:
        is_random = node.op_type in _RANDOM or node.op_type.startswith("Random")
        has_body = any(attribute.HasField("g") for attribute in node.attribute)
        read = set(filter(None, node.input))
        if (
            is_random
            or has_body
            or not onnx_schemas.is_onnx_domain(node.domain)
            or not read <= constants
        ):
            continue
        nodes.append(node)
        constants.update(node.output)
        made = set(filter(None, node.output))
        if behind & read or made & set(names):
            behind |= made
    if not behind:
        return {}
    complete, folder = to_model(source), source.folder
    part = ModelProto()
    part.CopyFrom(complete)
    del part.graph.node[:]
    del part.graph.input[:]
    del part.graph.output[:]
    part.graph.node.extend(nodes)
    external_files.take_in_all(part, folder)
    computed = Evaluator(part, ()).run({})
    return {name: like_onnxruntime(computed[name]) for name in behind}

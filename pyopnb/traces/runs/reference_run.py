"""Traces by the ONNX reference implementation, with the ops of the registry."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from pyopnb.engine import (
    ModelSource,
    Op,
    TensorType,
    Version,
    external_files,
    feed_checks,
    model_files,
    ort_types,
    protos,
    registry,
    to_model,
)
from pyopnb.onnx_reference import Evaluator
from pyopnb.traces.initializers import Initializers
from pyopnb.traces.recorded_run import Trace, attach_trace, how_failed
from pyopnb.traces.select import match_names, named_tensors

__all__ = ["check_feeds", "like_onnxruntime", "trace_on_reference"]


def trace_on_reference(
    source: ModelSource,
    named_feeds: Mapping[str, Any],
    only: str | Iterable[str] | None,
    *,
    keep: bool,
    ops: Iterable[Op] = registry,
) -> Trace:
    """Run a model node by node in the ONNX reference implementation.

    Nothing is fused, so there is no exposure to check.

    Parameters
    ----------
    source : ModelSource
        Local functions inlined.
    named_feeds : dict
        Feeds by name.
    only, keep
        The tensors to look at, and whether they are kept or only summarized. The evaluator itself
        holds all of them at once.
    ops : iterable of Op
        The ops that nodes may call.
    """
    model = model_files.without_weights(source.proto).proto
    feeds = check_feeds(model, named_feeds)
    names = [tensor.name for tensor in named_tensors(model)]
    selected = set(names)
    if only is not None:
        selected = match_names(names, only)
    complete, folder = to_model(source), source.folder
    # The evaluator wants all weights in the model itself.
    external_files.take_in_all(complete, folder)
    evaluator = Evaluator(complete, ops)
    outputs = [info.name for info in model.graph.output]
    selected.update(outputs)

    def record(computed: Mapping[str, Any], failed: str = "") -> Trace:
        values: dict[str, Any] = {}
        for name in dict.fromkeys([*names, *outputs]):
            # A node of an untaken branch has computed nothing.
            if name in selected and name in computed:
                values[name] = like_onnxruntime(computed[name])
        trace = Trace(
            model,
            feeds=feeds,
            values=values,
            initializers=Initializers(lambda: (complete.graph.initializer, folder)),
            versions=_versions_in(model),
            runtime=f"onnx.reference {onnx.__version__}",
            failed=failed,
        )
        if not keep:
            trace.values = {name: values[name] for name in outputs if name in values}
        return trace

    try:
        # An op may write into its inputs, and the trace keeps the feeds.
        computed = evaluator.run({name: copy.copy(value) for name, value in feeds.items()})
    except Exception as error:
        if evaluator.computed:
            attach_trace(error, record(evaluator.computed, how_failed(error)))
        raise
    return record(computed)


def _versions_in(model: ModelProto) -> dict[str, Version]:
    """Return the current versions of the ops that a model's nodes call, by name."""
    versions = {}
    for node in model.graph.node:
        op = registry.find(node.domain, node.op_type)
        if op is not None:
            versions[op.name] = op.current
    return versions


def like_onnxruntime(value: Any) -> Any:
    """Give a value of the evaluator the form that ONNX Runtime would give it.

    That is an array of objects for strings, and an array for a scalar.
    """
    # The evaluator gives NumPy scalars where ONNX Runtime gives arrays of no axes.
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "UT":
        return value.astype(object)
    return value


def check_feeds(model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the feeds to arrays of the declared types, as the evaluator may write into them.

    Raises
    ------
    InputError
        A name is missing or unknown, or an array has another dtype or shape than the model's input.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    types: dict[str, TensorType | str] = {}
    for info in model.graph.input:
        types[info.name] = protos.type_of_proto(info.type)
        if not info.type.HasField("tensor_type"):
            types[info.name] = ort_types.to_notation(ort_types.kind_of(info.type) or "")
    # An input that is also an initializer has a default.
    required = dict(types)
    for name in initializers & set(types):
        del required[name]
    feed_checks.check_names(feeds, required, types)
    tensors = {name: kind for name, kind in types.items() if isinstance(kind, TensorType)}
    feed_checks.check_sizes(feeds, tensors, feed_checks.shared_dims(tensors))
    arrays = {}
    for name, value in feeds.items():
        array = feed_checks.check_feed(name, value, types[name])
        arrays[name] = like_onnxruntime(copy.copy(array))
    return arrays

"""A model in which ops are local functions, so that it runs without pyopnb."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, helper, numpy_helper

from pyopnb.common import messages, sanitize
from pyopnb.engine import (
    Op,
    model_building,
    model_functions,
    op_names,
    protos,
    registry,
    to_model,
)
from pyopnb.errors import NotLowered, StayedInPython
from pyopnb.lowering.newer_opset import raise_opset
from pyopnb.lowering.one_op import called_on, lower_op, remember
from pyopnb.lowering.trace_op import LoweredOp, given_attrs, ranks_of, same_attrs
from pyopnb.lowering.written_form import opset_of_forms
from pyopnb.models import Types, node_edits
from pyopnb.testing import Draws, OpExample, Subject
from pyopnb.traces import trace

__all__ = ["lower_model"]

_INITIALIZERS_ARE_DEFAULTS = 4
_WITH_FUNCTIONS = 8
"""The first IR version in which models have functions."""


_Known = list[tuple[Any, LoweredOp]]
"""One op's functions so far, each with the input types that it was made for."""


def lower_model(
    model: Any,
    feeds: Mapping[str, Any] | None,
    *,
    finite: bool,
    strict: bool,
    compares: bool = True,
) -> ModelProto:
    """Copy a model, and make the ops in it local functions.

    Parameters
    ----------
    model : ModelProto, bytes or path
    feeds : mapping or None
        The values on which the ops are tried; None for random ones.
    finite : bool
        Assume that no array has NaN or infinities.
    strict : bool
        Whether an op that cannot become a function is an error.
    compares : bool
        Whether to compare the results.

    Warns
    -----
    StayedInPython

    Raises
    ------
    NotLowered
        With ``strict``.
    """
    source = node_edits.open_for_edit(model, None)
    needed = opset_of_forms(source.proto)
    if needed > protos.imported_versions(source.proto).get("", needed):
        # The converter reads constants, and so needs the weights.
        model = raise_opset(to_model(node_edits.open_for_edit(model, None)), needed)
        source = node_edits.open_for_edit(model, None)
    proto = source.proto
    if feeds is None:
        values = _random_values(model, proto)
    else:
        values = _values(model, proto, feeds)
    types = Types(proto)
    reasons = {}
    functions: dict[str, _Known] = defaultdict(list)
    function_keys = {model_functions.function_key(function) for function in proto.functions}
    # A list, as nodes are changed on the way.
    for site in list(protos.walk(proto)):
        op = registry.find(site.node.domain, site.node.op_type)
        # A function in the model comes before an op of the same name.
        if op is None or model_functions.function_key(site.node) in function_keys:
            continue
        try:
            example = _example(site, types, values, proto)
            _check_that_it_runs(op, example, site)
            _lower_site(proto, site, op, functions[op.name], example, finite, compares)
        except NotLowered as error:
            if strict:
                raise
            reasons[site.where] = str(error)
    _add_functions(
        proto, [lowered.function for known in functions.values() for _, lowered in known]
    )
    if reasons:
        warnings.warn(StayedInPython(reasons), stacklevel=messages.level_of_user())
    return to_model(source)


def _random_values(model: Any, proto: ModelProto) -> dict[str, np.ndarray]:
    """Run the model on random arrays and return its tensors, or none if that fails."""
    initialized = {tensor.name for tensor in proto.graph.initializer}
    draws = Draws(count(3))
    feeds = {}
    for info in proto.graph.input:
        if info.name in initialized:
            continue
        input_type = protos.type_of_proto(info.type)
        if input_type.dtype is None or input_type.shape is None:
            return {}
        feeds[info.name] = draws.array(input_type)
    try:
        return _values(model, proto, feeds)
    except Exception:  # an exception of an op or the runtime on them says nothing of the model
        # Each op is then traced on random arrays of its own.
        return {}


def _values(model: Any, proto: ModelProto, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the tensors of the main graph in a run."""
    run = trace(model, dict(feeds), check=False, times=False)
    initializers = {tensor.name: tensor for tensor in proto.graph.initializer}
    values: dict[str, np.ndarray] = {}
    for node in proto.graph.node:
        for name in node.input:
            if name in values:
                continue
            # An input that is left out has no name, and is in none of them.
            if name in run:
                values[name] = np.asarray(run[name])
            elif name in feeds:
                values[name] = np.asarray(feeds[name])
            elif name in initializers:
                values[name] = numpy_helper.to_array(initializers[name])
    return values


def _example(
    site: protos.Site, types: Types, values: Mapping[str, np.ndarray], proto: ModelProto
) -> OpExample:
    """Return the inputs and attrs of a node, as in the run or at random."""
    if protos.linked_attributes(site.node):
        raise NotLowered(
            site.where,
            expected="attrs with values",
            got="attrs that the caller of the function sets",
        )
    attrs = protos.attribute_values(site.node, proto, site.where)
    draws = Draws(count(3))
    arrays: list[np.ndarray | None] = []
    for name in site.node.input:
        if not name:
            arrays.append(None)
        elif site.scope is proto.graph and name in values:
            arrays.append(values[name])
        else:
            # In a subgraph or function, whose tensors a run does not record.
            constant = _constant(proto, site, name)
            if constant is not None:
                arrays.append(constant)
                continue
            input_type = types.of(site, name)
            if input_type.dtype is None or input_type.shape is None:
                raise NotLowered(
                    f"{site.where}, input {name}",
                    expected="a dtype and a rank",
                    got=str(input_type),
                    next="lower(model, {…}), with feeds by name, or declare the type in the model",
                )
            arrays.append(draws.array(input_type))
    return OpExample(tuple(arrays), attrs)


def _check_that_it_runs(op: Op, example: OpExample, site: protos.Site) -> None:
    """Call an op on an example, to tell the op's own exceptions from tracing errors."""
    try:
        called_on(Subject(op, [example]), example)
    except Exception as error:
        raise NotLowered(
            f"{site.where}, on {example}",
            expected="a result of compute",
            got=f"{type(error).__name__}, {sanitize(error)}",
            next="lower(model, {…}), with feeds by name on which it runs",
        ) from error


def _lower_site(
    proto: ModelProto,
    site: protos.Site,
    op: Op,
    known: _Known,
    example: OpExample,
    finite: bool,
    compares: bool,
) -> None:
    """Give a node its function, reusing another node's if it fits."""
    opset = protos.imported_versions(proto).get("", 0)
    if not isinstance(site.scope, GraphProto):
        # ONNX Runtime runs a function that calls another in one version of the operators alone.
        opset_of_function = protos.imported_versions(site.scope).get("", opset)
        if opset_of_function != opset:
            opset = 0
    if not opset:
        raise NotLowered(
            site.where,
            expected="ONNX operators imported in one version",
            got="none or another one",
        )
    key = (ranks_of(example), len(site.node.output))
    attrs = given_attrs(Subject(op, [example]), example)
    for known_key, match in known:
        if known_key == key and same_attrs(match.attrs, attrs) and match.holds_for(example):
            site.node.op_type = match.function.name
            return
    lowered = lower_op(op, [example], opset=opset, finite=finite, compares=compares)
    _check_constants(proto, site, lowered)
    # A node need not want all outputs, and ONNX Runtime takes no function that has more of them.
    del lowered.function.output[len(site.node.output) :]
    known.append((key, lowered))
    if len(known) > 1:
        # Not an overload: onnxruntime 1.25 takes the first function of a name for all.
        lowered.function.name = _unused_name(proto, op, len(known))
    site.node.op_type = lowered.function.name
    remember(op, lowered)


def _check_constants(proto: ModelProto, site: protos.Site, lowered: LoweredOp) -> None:
    """Refuse a function that has baked in the value of a non-constant input.

    Raises
    ------
    NotLowered
    """
    for position, value in lowered.constants.items():
        name = site.node.input[position]
        constant = _constant(proto, site, name)
        if constant is None or not np.array_equal(constant, value):
            raise NotLowered(
                f"{site.where}, input {name}",
                expected="a constant, because its value determines the nodes",
                got="a tensor that changes from run to run",
            )


def _constant(proto: ModelProto, site: protos.Site, name: str) -> np.ndarray | None:
    """Return the value of a constant or small initializer; None if it depends on the run."""
    for node in site.scope.node:
        value = protos.constant_value(node)
        if name in node.output and isinstance(value, TensorProto):
            return numpy_helper.to_array(value)
    if not isinstance(site.scope, GraphProto):
        return None
    # A caller may feed another value for an initializer that is an input, from IR version 4 on.
    is_input = any(info.name == name for info in site.scope.input)
    if is_input and proto.ir_version >= _INITIALIZERS_ARE_DEFAULTS:
        return None
    for tensor in site.scope.initializer:
        if tensor.name == name and tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
    return None


def _unused_name(proto: ModelProto, op: Op, number: int) -> str:
    """Choose an unused name for another function of an op."""
    # A function of an op's name would give way to that op in a session.
    names = {known_op.op_type for known_op in registry if known_op.domain == op.domain}
    names |= {function.name for function in proto.functions if function.domain == op.domain}
    return op_names.fresh_name(f"{op.op_type}_{number}", names)


def _add_functions(proto: ModelProto, functions: Sequence[FunctionProto]) -> None:
    if not functions:
        return
    proto.functions.extend(functions)
    proto.ir_version = max(proto.ir_version, _WITH_FUNCTIONS)
    imported = protos.imported_versions(proto)
    for domain in {function.domain for function in functions} - imported.keys():
        proto.opset_import.append(helper.make_opsetid(domain, 1))
    # A registered op is opaque to onnx; the shapes of the outputs are known through its function.
    inlined = model_functions.inlined_functions(proto)
    for info in inlined.graph.output:
        if not info.type.tensor_type.HasField("shape"):
            info.ClearField("type")
            info.ClearField("metadata_props")
    model_building.type_outputs(inlined)
    for info, typed in zip(proto.graph.output, inlined.graph.output, strict=True):
        if typed.HasField("type"):
            info.CopyFrom(typed)

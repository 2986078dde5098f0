"""Find the node whose gradient rule is wrong, once the gradients of a whole model have been."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx_ad._graph import node_reads, reachable

from pyopnb.diffs.tolerances import is_float
from pyopnb.errors import PyopError
from pyopnb.gradients.ranks import types_of
from pyopnb.models.nodes import Site, type_proto, walk
from pyopnb.ops.types import type_of
from pyopnb.runtime.session.session import Session

__all__ = ["wrong_node"]

_MAX_NODES = 200
_LOSS = "loss_of_one_node"


def wrong_node(
    original: ModelProto,
    names: Sequence[str],
    values: Mapping[str, np.ndarray],
    disagrees: Callable[[ModelProto, list[str], str, Mapping[str, np.ndarray]], bool],
) -> Site | None:
    """Return the node nearest to the loss whose rule is wrong on its own.

    Parameters
    ----------
    original : ModelProto
        Without gradients.
    names : sequence of str
        What it was derived in.
    values : mapping of str to ndarray
        The inputs and weights at which the gradients were wrong.
    disagrees : callable
        Derives a model in names, and tells whether that is wrong; takes the loss and feeds as well.

    Returns
    -------
    Site or None
        None where each rule is right alone, or there are too many nodes to try.
    """
    nodes = original.graph.node
    if len(nodes) > _MAX_NODES:
        return None
    values_by_name = _all_values(original, values)
    varying = reachable(nodes, names)
    sites = [site for site in walk(original) if site.scope is original.graph]
    # From the loss backwards: the first wrong rule is the one that spoils what comes after it.
    for site in reversed(sites):
        reads = node_reads(site.node)
        if not reads <= values_by_name.keys():
            # It reads something like a sequence, which has no gradient here.
            continue
        moved = []
        for name in sorted(reads & varying):
            if is_float(values_by_name[name]):
                moved.append(name)
        single = _model_of_one(original, site.node, moved, values_by_name)
        if single is None:
            continue
        try:
            if disagrees(single, moved, _LOSS, {name: values_by_name[name] for name in moved}):
                return site
        except PyopError:
            # A rule that needs the rest of the model says nothing about it.
            continue
    return None


def _all_values(original: ModelProto, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a model with every value of its main graph as an output."""
    traced = ModelProto()
    traced.CopyFrom(original)
    types = types_of(original.graph)
    outputs: list[str] = []
    for node in original.graph.node:
        outputs += filter(types.__contains__, node.output)
    traced.graph.ClearField("output")
    for name in outputs:
        traced.graph.output.add(name=name, type=types[name])
    inputs = {info.name for info in original.graph.input} & values.keys()
    values_by_name = {}
    for tensor in traced.graph.initializer:
        # Weights that are no inputs are changed where they stand.
        if tensor.name in values and tensor.name not in inputs:
            tensor.CopyFrom(numpy_helper.from_array(values[tensor.name], tensor.name))
        values_by_name[tensor.name] = numpy_helper.to_array(tensor)
    with warnings.catch_warnings():
        # Session warns of operators in whose place the reference stands.
        warnings.simplefilter("ignore")
        session = Session(traced, fill=True)
        results = session.run(outputs, {name: values[name] for name in inputs})
    values_by_name.update(values)
    values_by_name.update(zip(outputs, map(np.asarray, results), strict=True))
    return values_by_name


def _model_of_one(
    original: ModelProto,
    node: NodeProto,
    moved: Sequence[str],
    values: Mapping[str, np.ndarray],
) -> ModelProto | None:
    """Make a model of one node, whose loss is a random sum of its floating-point outputs."""
    outputs = [name for name in node.output if name in values and is_float(values[name])]
    if not outputs or not moved:
        return None
    random = np.random.default_rng(0)
    dtype = values[outputs[0]].dtype
    nodes, constants, totals = [node], [], []
    for number, name in enumerate(outputs):
        if values[name].dtype != dtype:
            continue
        product, total = f"{_LOSS}_product_{number}", f"{_LOSS}_total_{number}"
        # Factors that are all 1 would hide what cancels in a sum, as in a Softmax.
        factors = random.normal(size=values[name].shape).astype(dtype)
        constants.append(numpy_helper.from_array(factors, f"{_LOSS}_factors_{number}"))
        nodes.append(helper.make_node("Mul", [name, constants[-1].name], [product]))
        nodes.append(helper.make_node("ReduceSum", [product], [total], keepdims=0))
        totals.append(total)
    nodes.append(helper.make_node("Sum", totals, [_LOSS]))
    inputs = []
    for name in sorted(node_reads(node)):
        # What does not depend on wrt stays a constant: rules read axes and shapes.
        if name in moved:
            inputs.append(helper.make_value_info(name, type_proto(type_of(values[name]))))
        else:
            constants.append(numpy_helper.from_array(values[name], name))
    loss = helper.make_tensor_value_info(_LOSS, helper.np_dtype_to_tensor_dtype(dtype), [])
    graph = helper.make_graph(nodes, "one_node", inputs, [loss], constants)
    return helper.make_model(
        graph, opset_imports=original.opset_import, ir_version=original.ir_version
    )

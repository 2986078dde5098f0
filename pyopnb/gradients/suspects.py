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
    sites = [site for site in walk(original) if site.scope is original.graph]
    if len(sites) > _MAX_NODES:
        return None
    known = _all_values(original, values)
    varying = reachable(original.graph.node, names)
    for site in reversed(sites):
        reads = sorted(node_reads(site.node))
        if not set(reads) <= known.keys():
            continue
        moved = [name for name in reads if name in varying and is_float(known[name])]
        single = _model_of_one(
            original, site.node, {name: known[name] for name in reads}, moved, known
        )
        if single is None:
            continue
        try:
            if disagrees(single, moved, _LOSS, {name: known[name] for name in moved}):
                return site
        except PyopError:  # a rule that needs the rest of the model says nothing about it
            continue
    return None


def _all_values(original: ModelProto, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run a model with every value of its main graph as an output."""
    traced = ModelProto()
    traced.CopyFrom(original)
    types = types_of(original.graph)
    made = [name for node in traced.graph.node for name in node.output if name in types]
    traced.graph.ClearField("output")
    for name in made:
        traced.graph.output.add(name=name, type=types[name])
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in original.graph.initializer}
    inputs = {info.name for info in original.graph.input} & values.keys()
    # Weights that are no inputs are changed where they stand.
    for tensor in traced.graph.initializer:
        if tensor.name in values and tensor.name not in inputs:
            tensor.CopyFrom(numpy_helper.from_array(values[tensor.name], tensor.name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators in whose place the reference stands
        session = Session(traced, fill=True)
        results = session.run(made, {name: values[name] for name in inputs})
    known.update(values)
    known.update(zip(made, map(np.asarray, results), strict=True))
    return known


def _model_of_one(
    original: ModelProto,
    node: NodeProto,
    reads: Mapping[str, np.ndarray],
    moved: Sequence[str],
    known: Mapping[str, np.ndarray],
) -> ModelProto | None:
    """Make a model of one node, whose loss is a random sum of its floating-point outputs."""
    outputs = [name for name in node.output if name in known and is_float(known[name])]
    if not outputs or not moved:
        return None
    random = np.random.default_rng(0)
    dtype = known[outputs[0]].dtype
    nodes, constants = [node], []
    sums = []
    for name in outputs:
        if known[name].dtype != dtype:
            continue
        factors = random.normal(size=known[name].shape).astype(dtype)
        constants.append(numpy_helper.from_array(factors, f"{_LOSS}_factors_of_{name}"))
        product, total = f"{_LOSS}_product_of_{name}", f"{_LOSS}_sum_of_{name}"
        nodes.append(helper.make_node("Mul", [name, constants[-1].name], [product]))
        nodes.append(helper.make_node("ReduceSum", [product], [total], keepdims=0))
        sums.append(total)
    nodes.append(helper.make_node("Sum", sums, [_LOSS]))
    # What does not depend on wrt stays a constant: rules read axes and shapes.
    constants += [numpy_helper.from_array(reads[name], name) for name in reads if name not in moved]
    inputs = [helper.make_value_info(name, type_proto(type_of(known[name]))) for name in moved]
    loss = helper.make_tensor_value_info(_LOSS, helper.np_dtype_to_tensor_dtype(dtype), [])
    graph = helper.make_graph(nodes, "one_node", inputs, [loss], constants)
    return helper.make_model(
        graph, opset_imports=original.opset_import, ir_version=original.ir_version
    )

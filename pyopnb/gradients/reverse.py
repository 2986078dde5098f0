"""Derive a model in reverse, by onnx-ad."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import onnx_ad
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from pyopnb.common import sanitize
from pyopnb.engine import external_files, protos
from pyopnb.errors import ModelError
from pyopnb.gradients.limits import hide_costly_constants, reads_of
from pyopnb.gradients.ranks import make_inputs, types_of
from pyopnb.gradients.rules import FLOATS, Rules
from pyopnb.gradients.scopes import rename_ports
from pyopnb.gradients.sizes import NamedSizes

__all__ = ["reverse"]

_PREFIX = "grad_"

_MAX_CONSTANT = 64
"""The most elements of a floating-point initializer that onnx-ad may take for a constant.

The scales of a Resize are a constant, for example. A larger initializer is a weight: if onnx-ad
folded it, the model would keep old values when its weights are replaced.
"""


def reverse(model: ModelProto, wrt: Sequence[str], loss: str) -> None:
    """Add to a model the gradients of an output.

    Parameters
    ----------
    model : ModelProto
        It is changed. It declares the types of its tensors and has no local functions.
    wrt : sequence of str
        Inputs and initializers.
    loss : str
        A floating-point output with one element.

    Raises
    ------
    ModelError
        A node between them has no gradient, or one of ``wrt`` has no influence.
    """
    graph = model.graph
    types = types_of(graph)
    taken = {*types, *(name for node in protos.nodes_in(graph) for name in node.output)}
    influential = _influences(graph, types, loss)
    _check_names(taken, wrt, influential, loss)
    inputs, outputs, weights = list(graph.input), list(graph.output), list(graph.initializer)
    primal = {name for node in graph.node for name in node.output}
    # From here on, the model is what onnx-ad may see: no op of ours, no weight, no costly constant.
    rules = Rules(model, types)
    hidden = _hide(graph, wrt)
    hide_costly_constants(model, rules.hide, taken)
    # A model that was derived before may have such names.
    prefix = "adj_"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"another_{prefix}"
    with rules.used(_path(graph, wrt, influential)):
        derived = _derived(model, wrt, loss, prefix)
    rules.restore(derived)
    # The inputs and outputs that onnx-ad adds, with the axis of directions, are replaced.
    nodes = list(derived.graph.node)
    nodes += _squeezed(nodes, prefix, wrt, rules.sizes)
    for name in wrt:
        outputs.append(helper.make_value_info(_PREFIX + name, types[name]))
    names = {info.name for info in outputs}
    nodes = _read_nodes(_without_copies(nodes, primal, names - primal), primal, names)
    # ONNX Runtime warns of an unused initializer.
    read = set().union(*map(reads_of, nodes)) - {tensor.name for tensor in weights} - hidden
    added = [_seed(prefix + loss, types[loss]), *derived.graph.initializer]
    for field in ("node", "input", "output", "initializer", "value_info"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.extend(outputs)
    graph.initializer.extend([*weights, *(tensor for tensor in added if tensor.name in read)])
    del model.opset_import[:]
    model.opset_import.extend(derived.opset_import)


def _derived(model: ModelProto, wrt: Sequence[str], loss: str, prefix: str) -> ModelProto:
    try:
        derived: ModelProto = onnx_ad.reverse(model, list(wrt), [loss], prefix, layout="onnx")
    except onnx_ad.UnsupportedOperator as error:
        expected, got = "operators that onnx-ad can differentiate", sanitize(str(error))
        raise ModelError("model, gradient", expected=expected, got=got) from None
    return derived


# onnx-ad adds a last axis for several directions, and here there is only one.


def _squeezed(
    nodes: Sequence[NodeProto], prefix: str, wrt: Sequence[str], sizes: NamedSizes
) -> Iterator[NodeProto]:
    """Yield the nodes that drop the axis of directions from gradients."""
    producers = {output: node for node in nodes for output in node.output}
    axes: dict[int, str] = {}
    for name in wrt:
        gradient = prefix + name
        # onnx-ad expands gradients that are full already, and names them by a last node.
        for op_type in ("Identity", "Expand"):
            node = producers.get(gradient)
            if node is None or node.op_type != op_type:
                continue
            if op_type == "Identity" or sizes.is_exact(node.input[0], name):
                gradient = node.input[0]
        rank = sizes.ranks[name]
        plain, added = sizes.unsqueezed.get(gradient, ("", []))
        if added == [rank]:
            yield helper.make_node("Identity", [plain], [_PREFIX + name])
            continue
        if rank not in axes:
            axes[rank] = f"{prefix}axis_{rank}"
            yield helper.make_node("Constant", [], [axes[rank]], value_ints=[rank])
        yield helper.make_node("Squeeze", [gradient, axes[rank]], [_PREFIX + name])


def _without_copies(
    nodes: Sequence[NodeProto], primal: set[str], gradients: set[str]
) -> list[NodeProto]:
    """Name gradients where they are computed, and drop the nodes that only copy them."""
    computed: set[str] = set()
    fixed = set(primal)
    for node in nodes:
        computed.update(node.output)
        # Bodies read tensors of the graph around them by the names that these have.
        if protos.bodies(node):
            fixed |= reads_of(node)
    computed -= fixed
    names: dict[str, str] = {}
    kept = []
    for node in nodes:
        is_copy = node.op_type == "Identity" and node.output[0] in gradients
        if is_copy and node.input[0] in computed and node.input[0] not in names:
            names[node.input[0]] = node.output[0]
        else:
            kept.append(node)
    rename_ports(kept, names)
    return kept


def _seed(name: str, proto: TypeProto) -> TensorProto:
    """Return the gradient of the loss in itself."""
    shape = [1] * (len(proto.tensor_type.shape.dim) + 1)
    dtype = helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type)
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def _check_names(
    taken: Container[str], wrt: Sequence[str], influential: Container[str], loss: str
) -> None:
    for name in wrt:
        if _PREFIX + name in taken:
            raise ModelError(
                f"tensor '{_PREFIX + name}'",
                expected="the name to be free for the gradient",
                got="a tensor of the model",
                next="another name for it",
            )
        if name not in influential:
            raise ModelError(
                f"wrt '{name}'",
                expected=f"a tensor that influences the loss '{loss}'",
                got="one that does not, or only through integers or bools",
                next=f"wrt without '{name}'; its gradient would be zeros",
            )


def _influences(graph: GraphProto, types: Mapping[str, TypeProto], loss: str) -> set[str]:
    """Return the values that the loss is computed from through floating-point values."""
    influences = {loss}
    for node in reversed(graph.node):
        if influences.intersection(node.output):
            for name in reads_of(node):
                # A sequence of tensors has no type of an element.
                element = types[name].tensor_type.elem_type if name in types else 0
                if element in (0, *FLOATS):
                    influences.add(name)
    return influences


def _path(graph: GraphProto, wrt: Sequence[str], influential: set[str]) -> list[NodeProto]:
    """Return the nodes between inputs and the loss."""
    varying = set(wrt)
    path = []
    for node in graph.node:
        if reads_of(node) & varying and influential.intersection(node.output):
            varying.update(node.output)
            path.append(node)
    return path


def _hide(graph: GraphProto, wrt: Sequence[str]) -> set[str]:
    """Turn the initializers that are not constants into inputs; return their names."""
    inputs = {info.name for info in graph.input}
    hidden = set()
    for tensor in graph.initializer:
        if tensor.name in wrt or tensor.name in inputs or _is_weight(tensor):
            hidden.add(tensor.name)
    make_inputs(graph, hidden)
    return hidden


def _is_weight(tensor: TensorProto) -> bool:
    if external_files.is_external(tensor):
        return True
    return tensor.data_type in FLOATS and math.prod(tensor.dims) > _MAX_CONSTANT


def _read_nodes(nodes: Sequence[NodeProto], primal: set[str], names: set[str]) -> list[NodeProto]:
    """Drop derived nodes with unused outputs; the nodes of the model itself stay."""
    names = names | primal
    read = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            names |= reads_of(node)
            read.append(node)
    return read[::-1]

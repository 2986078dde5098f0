"""The graphs of a training: the model with its loss, and the step that gives the next weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper

from pyopnb.errors import InputError, ModelError
from pyopnb.gradients.grad import grad
from pyopnb.models.index import GraphIndex
from pyopnb.models.nodes import imported_versions, type_of_proto
from pyopnb.models.types import Types
from pyopnb.ops.messages import sanitize, suggest
from pyopnb.ops.types import ANY, TensorType
from pyopnb.training.nodes import Nodes
from pyopnb.training.optimizers import Optimizer
from pyopnb.training.simplify import squeeze_transposes

__all__ = ["LOSSES", "Loss", "Step", "find_weights", "step_of", "with_inputs", "with_loss"]

LOSSES = {"cross_entropy": 16, "mse": 13}
"""Losses by name, and the oldest opset that has the operators of their gradients."""

_TRAINED = (TensorProto.FLOAT, TensorProto.DOUBLE)
_FLOATS = (*_TRAINED, TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclass(frozen=True)
class Loss:
    """The loss of a model.

    Attributes
    ----------
    name : str
        The output that it is.
    output, labels : str
        What it was put on, and the input that it is compared with; empty where it was there.
    classes : int or None
        How many there are; 0 where the labels are no classes, None where the model does not say.
    """

    name: str
    output: str = ""
    labels: str = ""
    classes: int | None = 0

    def check(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuse numbers that are no classes: -1 would be taken for the last one."""
        if self.classes == 0:
            return
        labels = feeds[self.labels]
        wrong = labels < 0 if self.classes is None else (labels < 0) | (labels >= self.classes)
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            expected = (
                f"a class from 0 {'on' if self.classes is None else f'to {self.classes - 1}'}"
            )
            got = f"{labels[first]} in sample {first[0]}"
            raise InputError(f"labels {sanitize(self.labels)}", expected=expected, got=got)


def with_loss(
    model: ModelProto, loss: str, output: str | None, labels: Mapping[str, np.ndarray]
) -> Loss:
    """Put a loss on top of an output of a model, which is changed.

    Parameters
    ----------
    model : ModelProto
    loss : str
        An output, which is the loss itself, or the name of a loss.
    output : str or None
        What the loss is put on; the first output if not given.
    labels : mapping
        Arrays of a batch that are no inputs of the model.

    Returns
    -------
    Loss
    """
    outputs = [info.name for info in model.graph.output]
    if loss in outputs:
        return Loss(loss)
    if loss not in LOSSES:
        known = ", ".join(map(sanitize, [*outputs, *LOSSES]))
        raise InputError(
            "train, loss",
            expected=f"one of {known}",
            got=sanitize(repr(loss)),
            next=suggest(str(loss), [*outputs, *LOSSES]),
        )
    if (opset := imported_versions(model).get("", 1)) < LOSSES[loss]:
        raise ModelError(
            f"train, loss {loss}",
            expected=f"a model of opset {LOSSES[loss]} or newer",
            got=f"opset {opset}",
            next=f"onnx.version_converter.convert_version(model, {LOSSES[loss]})",
        )
    output = outputs[0] if output is None else output
    if output not in outputs:
        known = ", ".join(map(sanitize, outputs))
        raise InputError(
            "train, output",
            expected=f"one of {known}",
            got=sanitize(repr(output)),
            next=suggest(output, outputs),
        )
    if len(labels) != 1:
        got = ", ".join(map(sanitize, labels)) or "the model's inputs alone"
        expected = "one array of data that is no input of the model: the labels"
        raise InputError(
            f"train, loss {loss}",
            expected=expected,
            got=got,
            next='data={"x": x, "labels": labels}',
        )
    ((name, array),) = labels.items()
    found = Types(model).find(model.graph, output)
    kind = type_of_proto(found) if found else ANY
    if loss == "mse":
        return Loss(_mean_square(model.graph, output, kind, name, array), output, name)
    made = _cross_entropy(model.graph, output, kind, name, array)
    classes = kind.shape[1] if kind.shape is not None else None
    return Loss(made, output, name, classes if isinstance(classes, int) else None)


def _cross_entropy(
    graph: GraphProto, output: str, kind: TensorType, name: str, labels: np.ndarray
) -> str:
    rank = None if kind.shape is None else len(kind.shape)
    if labels.dtype.kind not in "iu" or (rank is not None and labels.ndim != rank - 1):
        axes = ["N", *("?" for _ in (kind.shape or ())[2:])]
        got = f"{labels.dtype}{list(labels.shape)}".replace(" ", "")
        raise InputError(
            f"labels {sanitize(name)}",
            expected=f"int64[{','.join(axes)}], the number of each sample's class",
            got=got,
        )
    nodes = Nodes(graph, "train")
    samples = kind.shape[0] if kind.shape else "N"
    nodes.input(name, labels.dtype.name, (samples, *[None] * (labels.ndim - 1)))
    chosen = nodes.add("Unsqueeze", nodes.cast(name, "int64"), nodes.constant([1], "int64"))
    picked = nodes.add("GatherElements", nodes.add("LogSoftmax", output, axis=1), chosen, axis=1)
    return _declared(nodes, nodes.add("Neg", nodes.add("ReduceMean", picked, keepdims=0)), kind)


def _mean_square(
    graph: GraphProto, output: str, kind: TensorType, name: str, labels: np.ndarray
) -> str:
    if kind.dtype is None or kind.shape is None:
        raise ModelError(
            f"output {sanitize(output)}",
            expected="a type that is known, to compare the labels with",
            got=str(kind),
        )
    # Of other ranks, [N,1] and [N], the difference would have N × N elements.
    if labels.dtype != kind.dtype.numpy or not kind.accepts_shape(labels.shape):
        got = f"{labels.dtype}{list(labels.shape)}".replace(" ", "")
        raise InputError(f"labels {sanitize(name)}", expected=str(kind), got=got)
    nodes = Nodes(graph, "train")
    nodes.input(name, labels.dtype.name, kind.shape)
    difference = nodes.add("Sub", output, name)
    return _declared(
        nodes, nodes.add("ReduceMean", nodes.add("Mul", difference, difference), keepdims=0), kind
    )


def _declared(nodes: Nodes, loss: str, kind: TensorType) -> str:
    nodes.output(loss, kind.dtype.name if kind.dtype else "float32", ())
    return loss


def find_weights(
    model: ModelProto, loss: str, wanted: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """The initializers that are trained, by name.

    By default those of float32 and float64 that have an axis and lead to the loss, but no statistics of BatchNormalization.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    if wanted is not None:
        for name in wanted:
            if name not in tensors or tensors[name].data_type not in _TRAINED:
                floats = [key for key, tensor in tensors.items() if tensor.data_type in _TRAINED]
                got = (
                    f"{sanitize(name)}, of another dtype"
                    if name in tensors
                    else sanitize(repr(name))
                )
                expected = "names of initializers of float32 or float64"
                raise ModelError(
                    "train, train",
                    expected=expected,
                    got=got,
                    next=suggest(str(name), map(sanitize, floats)),
                )
        chosen = list(dict.fromkeys(wanted))
    else:
        read = _read_for(GraphIndex(model.graph), loss)
        statistics = {
            name
            for node in model.graph.node
            if node.op_type == "BatchNormalization"
            for name in node.input[3:5]
        }
        chosen = [
            name
            for name, t in tensors.items()
            if t.data_type in _FLOATS and t.dims and name in read - statistics
        ]
        if other := next(
            (name for name in chosen if tensors[name].data_type not in _TRAINED), None
        ):
            kind = TensorProto.DataType.Name(tensors[other].data_type).lower()
            raise ModelError(
                f"weight {sanitize(other)}",
                expected="float32 or float64",
                got=kind,
                next="train=[names] of others",
            )
    if not chosen:
        raise ModelError(
            "train", expected="a model with initializers of float32 or float64", got="none to train"
        )
    return {name: numpy_helper.to_array(tensors[name]) for name in chosen}


def _read_for(graph: GraphIndex, output: str) -> set[str]:
    """All values from which an output is computed."""
    names, pending = {output}, [output]
    while pending:
        producer = graph.producers.get(pending.pop())
        new = {name for _, name in graph.reads(producer[0])} - names if producer else set()
        names |= new
        pending += new
    return names


def with_inputs(model: ModelProto, names: Mapping[str, np.ndarray]) -> None:
    """Make inputs of initializers of a model, which is changed."""
    graph = model.graph
    for tensor in [tensor for tensor in graph.initializer if tensor.name in names]:
        graph.initializer.remove(tensor)
    declared = {info.name for info in graph.input}
    nodes = Nodes(graph, "train")
    for name, array in names.items():
        if name not in declared:
            nodes.input(name, array.dtype.name, array.shape)


@dataclass(frozen=True)
class Step:
    """The graph of a step, and which of its outputs are the next values of which inputs.

    Attributes
    ----------
    model : ModelProto
    state : dict of str to ndarray
        The first values: weights, what the optimizer keeps, and the number of the step.
    following : dict of str to str
    results : dict of str to str
        The names of the loss, and of the sum of the squares of all gradients, with their dtypes.
    """

    model: ModelProto
    state: dict[str, np.ndarray]
    following: dict[str, str]
    results: dict[str, str]


def step_of(
    model: ModelProto,
    loss: str,
    weights: Mapping[str, np.ndarray],
    optimizer: Optimizer,
    example: Mapping[str, np.ndarray],
    verify: bool,
) -> Step:
    """Make the graph that gives the loss of a batch and the next weights."""
    kind = type_of_proto(next(info.type for info in model.graph.output if info.name == loss))
    if kind.shape is not None and kind.shape not in ((), (1,)):
        scalar = f"{kind.dtype or 'float32'}[]"
        raise ModelError(
            f"loss {sanitize(loss)}", expected=scalar, got=str(kind), next="ReduceMean of it"
        )
    proto = grad(model, list(weights), loss, feeds=example if verify else None, verify=verify)
    squeeze_transposes(proto)
    graph = proto.graph
    with_inputs(proto, weights)
    nodes = Nodes(graph, "step")
    gradients = {name: f"grad_{name}" for name in weights}
    count = nodes.fixed("optimizer/count")
    nodes.input(count, "int64", ())
    following = {count: nodes.add("Add", count, nodes.constant(1, "int64"))}
    state = dict(weights)
    rates: dict[str, str] = {}
    squares = []
    for name, array in weights.items():
        dtype = array.dtype.name
        if dtype not in rates:
            rates[dtype] = optimizer.rate(nodes, following[count], dtype)
        slots = [nodes.fixed(f"{slot}/{name}") for slot in optimizer.slots]
        for slot in slots:
            nodes.input(slot, dtype, array.shape)
            state[slot] = np.zeros_like(array)
        made = optimizer.update(nodes, name, gradients[name], slots, rates[dtype], dtype)
        following.update(zip([name, *slots], made, strict=True))
        square = nodes.add("ReduceSumSquare", gradients[name], keepdims=0)
        squares.append(square if dtype == "float64" else nodes.cast(square, "float64"))
    state[count] = np.zeros((), np.int64)
    results = [
        nodes.add("Reshape", nodes.cast(loss, "float64"), nodes.constant([], "int64")),
        nodes.add("Sum", *squares),
    ]
    del graph.output[:]  # what nobody looks at need not be kept
    for name, output in following.items():
        nodes.output(output, state[name].dtype.name, state[name].shape)
    for name in results:
        nodes.output(name, "float64", ())
    GraphIndex(graph).refuse_duplicates()
    return Step(proto, state, following, dict.fromkeys(results, "float64"))

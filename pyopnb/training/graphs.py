"""Make the graphs of a training: the model with its loss, and the step to the next weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from pyopnb.common import messages, sanitize
from pyopnb.engine import ANY, GraphIndex, TensorType, node, protos, registry, type_of
from pyopnb.errors import InputError, ModelError
from pyopnb.gradients import grad, make_inputs
from pyopnb.models import Types
from pyopnb.training.nodes import Nodes
from pyopnb.training.optimizers import Optimizer

__all__ = ["LOSSES", "Loss", "TrainingStep", "find_weights", "step_of", "with_loss"]

LOSSES = {"cross_entropy": 16, "mse": 13}
"""Losses by name, and the oldest opset that has the operators of their gradients."""

_TRAINED = (TensorProto.FLOAT, TensorProto.DOUBLE)
_FLOATS = (*_TRAINED, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_SETTINGS = {"Resize": (1, 2, 3), "Upsample": (1,), "OneHot": (2,)}
"""Inputs that say how an operator works. Their initializers are no weights."""


@dataclass(frozen=True)
class Loss:
    """The loss of a model.

    Attributes
    ----------
    name : str
        The output that is the loss.
    output, labels : str
        The output that the loss was put on, and the input with the labels; empty where the model
        had the loss already.
    classes : int or None
        The number of classes; 0 where the labels are no classes, None where the model does not say.
    """

    name: str
    output: str = ""
    labels: str = ""
    classes: int | None = 0

    def check(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Refuse labels that are no classes, as -1 would count as the last one."""
        if self.classes == 0:
            return
        labels = feeds[self.labels]
        # GatherElements takes negative indices for ones from the end, so that -1 would
        # train the last class.
        wrong = labels < 0
        expected = "a class from 0 on"
        if self.classes is not None:
            wrong = wrong | (labels >= self.classes)
            expected = f"a class from 0 to {self.classes - 1}"
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            got = f"{labels[first]} in sample {first[0]}"
            raise InputError(f"labels {self.labels}", expected=expected, got=got)


def with_loss(
    model: ModelProto, loss: str | NodeProto, output: str | None, labels: Mapping[str, np.ndarray]
) -> Loss:
    """Put a loss on top of an output of a model, which is changed.

    Parameters
    ----------
    loss : str or NodeProto
        An output that is the loss itself; the name of a loss, or of an op of the registry, which
        gets an output and the labels; or a node that reads outputs and labels.
    output : str or None
        The output that the loss is put on; the first one if not given.
    labels : mapping
        Arrays of a batch that are no inputs of the model.
    """
    outputs = [info.name for info in model.graph.output]
    if isinstance(loss, NodeProto):
        return _of_node(model, loss, labels)
    if loss in outputs:
        return Loss(loss)
    # From here on, the loss must be one that can be put on an output.
    is_op = loss in registry
    if loss not in LOSSES and not is_op:
        raise _unknown("loss", loss, [*outputs, *LOSSES])
    # The nodes of the loss and of its gradient belong to the model's own opset.
    opset = protos.imported_versions(model).get("", 1)
    if not is_op and opset < LOSSES[loss]:
        raise ModelError(
            f"train, loss {loss}",
            expected=f"a model of opset {LOSSES[loss]} or newer",
            got=f"opset {opset}",
            next=f"onnx.version_converter.convert_version(model, {LOSSES[loss]})",
        )
    if output is None:
        output = outputs[0]
    if output not in outputs:
        raise _unknown("output", output, outputs)
    # The one array that is no input of the model must be the labels.
    if len(labels) != 1:
        advice = 'data={"x": x, "labels": labels}'
        if not labels:
            advice += f", or loss={sanitize(repr(output))} if that output is the loss itself"
        raise InputError(
            f"train, loss {loss}",
            expected="one array of data that is no input of the model: the labels",
            got=", ".join(map(sanitize, labels)) or "the model's inputs alone",
            next=advice,
        )
    ((name, array),) = labels.items()
    if is_op:
        return _of_node(model, node(loss, [output, name], "loss"), labels, output)
    declared = Types(model).find(model.graph, output)
    tensor_type = ANY
    if declared:
        tensor_type = protos.type_of_proto(declared)
    # The labels become a further input, and the loss a further output.
    if loss == "mse":
        loss_name = _mean_square(model.graph, output, tensor_type, name, array)
        return Loss(loss_name, output, name)
    loss_name = _cross_entropy(model.graph, output, tensor_type, name, array)
    # Where the model declares the number of classes, labels beyond it are refused
    # before they are gathered.
    classes = None
    if tensor_type.shape is not None and isinstance(tensor_type.shape[1], int):
        classes = tensor_type.shape[1]
    return Loss(loss_name, output, name, classes)


def _of_node(
    model: ModelProto, loss: NodeProto, labels: Mapping[str, np.ndarray], output: str = ""
) -> Loss:
    """Append the caller's node as the loss, and make the labels that it reads inputs."""
    nodes = Nodes(model.graph, "train")
    for name, array in labels.items():
        if name in loss.input:
            nodes.input(name, array.dtype.name, (None,) * array.ndim)
    result = nodes.name("loss")
    appended = model.graph.node.add()
    appended.CopyFrom(loss)
    appended.output[0] = result
    versions = protos.imported_versions(model)
    if loss.domain not in versions:
        model.opset_import.add(domain=loss.domain, version=1)
    # The node's output decides the dtype; where its op declares none, it is float32.
    declared = Types(model).find(model.graph, result)
    tensor_type = protos.type_of_proto(declared) if declared else ANY
    nodes.output(result, _dtype_name(tensor_type), ())
    return Loss(result, output)


def _unknown(parameter: str, got: str, names: Sequence[str]) -> InputError:
    listed = ", ".join(map(sanitize, names))
    return InputError(
        f"train, {parameter}",
        expected=f"one of {listed}",
        got=sanitize(repr(got)),
        next=messages.suggest(str(got), names),
    )


def _cross_entropy(
    graph: GraphProto, output: str, tensor_type: TensorType, name: str, labels: np.ndarray
) -> str:
    shape = tensor_type.shape
    # One class for each sample: the labels lack the axis of the classes.
    fits = shape is None or labels.ndim == len(shape) - 1
    if labels.dtype.kind not in "iu" or not fits:
        raise InputError(
            f"labels {name}",
            expected="int64[N], the number of each sample's class",
            got=str(type_of(labels)),
            next='loss="mse"',
        )
    nodes = Nodes(graph, "train")
    samples = shape[0] if shape else "N"
    nodes.input(name, labels.dtype.name, (samples, *[None] * (labels.ndim - 1)))
    # GatherElements wants the classes with an axis of their own, of one element.
    classes = nodes.add("Unsqueeze", nodes.cast(name, "int64"), nodes.constant([1], "int64"))
    logarithms = nodes.add("LogSoftmax", output, axis=1)
    picked = nodes.add("GatherElements", logarithms, classes, axis=1)
    loss = nodes.add("Neg", nodes.add("ReduceMean", picked, keepdims=0))
    nodes.output(loss, _dtype_name(tensor_type), ())
    return loss


def _mean_square(
    graph: GraphProto, output: str, tensor_type: TensorType, name: str, labels: np.ndarray
) -> str:
    # Without the type, a label of another rank would broadcast instead of being refused.
    if tensor_type.dtype is None or tensor_type.shape is None:
        expected = "a type that is known, to compare the labels with"
        raise ModelError(f"output {output}", expected=expected, got=str(tensor_type))
    # With other ranks, [N,1] and [N], the difference would have N × N elements.
    if labels.dtype != tensor_type.dtype.numpy or not tensor_type.accepts_shape(labels.shape):
        shown = sanitize(name)
        raise InputError(
            f"labels {shown}",
            expected=str(tensor_type),
            got=str(type_of(labels)),
            next=_other_labels(shown, labels, tensor_type),
        )
    nodes = Nodes(graph, "train")
    nodes.input(name, labels.dtype.name, tensor_type.shape)
    difference = nodes.add("Sub", output, name)
    square = nodes.add("Mul", difference, difference)
    loss = nodes.add("ReduceMean", square, keepdims=0)
    nodes.output(loss, _dtype_name(tensor_type), ())
    return loss


def _other_labels(name: str, labels: np.ndarray, expected: TensorType) -> str | None:
    """Write how to make labels fit an output; None if another dtype or axis is not enough."""
    if expected.dtype is not None and labels.dtype != expected.dtype.numpy:
        # The user's may be a list.
        is_number = labels.dtype.kind in "biuf"
        return f'"{name}": np.asarray({name}, np.{expected.dtype.name})' if is_number else None
    if expected.accepts_shape((*labels.shape, 1)):
        return f'"{name}": {name}[:, None]'
    return None


def _dtype_name(tensor_type: TensorType) -> str:
    if tensor_type.dtype is None:
        return "float32"
    return tensor_type.dtype.name


def find_weights(
    model: ModelProto, loss: str, names: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """Return the initializers that are trained, by name.

    By default all of float32 and float64 that have an axis and lead to the loss, but no
    statistics of BatchNormalization.
    """
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    if names is None:
        names = _default_weights(model, loss, tensors)
    weights = {}
    for name in names:
        if name not in tensors or tensors[name].data_type not in _TRAINED:
            raise ModelError(
                "train, train",
                expected="names of initializers of float32 or float64",
                got=sanitize(repr(name)),
                next=messages.suggest(str(name), map(sanitize, tensors)),
            )
        weights[name] = numpy_helper.to_array(tensors[name])
    # A model whose weights are all inputs, or integers of a quantization, has nothing to train.
    if not weights:
        expected = "a model with initializers of float32 or float64"
        advice = 'pyopnb.model(…, initializers={"w": w}) with w in float32'
        raise ModelError("train", expected=expected, got="none to train", next=advice)
    return weights


def _default_weights(model: ModelProto, loss: str, tensors: Mapping[str, TensorProto]) -> list[str]:
    graph = GraphIndex(model.graph)
    # Everything that the loss is computed from.
    read, pending = {loss}, [loss]
    while pending:
        name = pending.pop()
        if name not in graph.producers:
            continue
        index = graph.producers[name][0]
        for slot, source in graph.reads(index):
            if slot in _SETTINGS.get(graph.nodes[index].op_type, ()):
                continue
            if source not in read:
                read.add(source)
                pending.append(source)
    for batch_norm in model.graph.node:
        if batch_norm.op_type == "BatchNormalization":
            read.difference_update(batch_norm.input[3:5])  # statistics, which are no weights
    names = []
    for name, tensor in tensors.items():
        if name in read and tensor.dims and tensor.data_type in _FLOATS:
            names.append(name)
    return names


@dataclass(frozen=True)
class TrainingStep:
    """The graph of a step, with the outputs that become inputs of the next step.

    Attributes
    ----------
    state : dict of str to ndarray
        The first values: weights, the optimizer's arrays, and the number of the step.
    following : dict of str to str
        The output that is an input's next value, by the name of the input.
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
) -> TrainingStep:
    """Make the graph that gives the loss of a batch and the next weights."""
    proto = grad(model, list(weights), loss, feeds=example if verify else None, verify=verify)
    make_inputs(proto.graph, weights)
    update = _Update(Nodes(proto.graph, "step"), optimizer, weights)
    squares = [update.append(name, array) for name, array in weights.items()]
    # The gradients are no outputs, so that ONNX Runtime need not copy them out of the run.
    del proto.graph.output[:]
    results = update.declare_outputs(loss, squares)
    GraphIndex(proto.graph).refuse_duplicates()
    return TrainingStep(proto, update.state, update.following, dict.fromkeys(results, "float64"))


class _Update:
    """The optimizer's nodes after a gradient: the next weights, and the next arrays beside them."""

    def __init__(
        self, nodes: Nodes, optimizer: Optimizer, weights: Mapping[str, np.ndarray]
    ) -> None:
        self.nodes, self.optimizer = nodes, optimizer
        # A checkpoint has this name, so it must be the same in every training of the model.
        count = nodes.fixed("optimizer/count")
        nodes.input(count, "int64", ())
        next_count = nodes.add("Add", count, nodes.constant(1, "int64"))
        self.following = {count: next_count}
        self.state = {**weights, count: np.zeros((), np.int64)}
        # All weights of a dtype share the rate of a step.
        self.rates: dict[str, str] = {}
        for dtype in sorted({array.dtype.name for array in weights.values()}):
            self.rates[dtype] = optimizer.rate(nodes, next_count, dtype)

    def append(self, name: str, array: np.ndarray) -> str:
        """Append the update of one weight; return the name of its gradient's sum of squares."""
        dtype, gradient = array.dtype.name, f"grad_{name}"
        slots = [self.nodes.fixed(f"{slot}/{name}") for slot in self.optimizer.slots]
        for slot in slots:
            self.nodes.input(slot, dtype, array.shape)
            self.state[slot] = np.zeros_like(array)
        rate = self.rates[dtype]
        updated = self.optimizer.update(self.nodes, name, gradient, slots, rate, dtype)
        self.following.update(zip([name, *slots], updated, strict=True))
        square = self.nodes.add("ReduceSumSquare", gradient, keepdims=0)
        # The squares of all weights are added up in float64, for every dtype.
        return self.nodes.cast(square, "float64")

    def declare_outputs(self, loss: str, squares: Sequence[str]) -> list[str]:
        """Declare the next state and two results as outputs; return the names of the results."""
        # A loss may be float32[1]; the results are scalars of float64.
        no_axes = self.nodes.constant([], "int64")
        scalar = self.nodes.add("Reshape", self.nodes.cast(loss, "float64"), no_axes)
        results = [scalar, self.nodes.add("Sum", *squares)]
        for name, output in self.following.items():
            array = self.state[name]
            self.nodes.output(output, array.dtype.name, array.shape)
        for name in results:
            self.nodes.output(name, "float64", ())
        return results

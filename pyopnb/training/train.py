"""Train a model: check what is asked for, make it into graphs, and run them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.errors import InputError
from pyopnb.models.external_data import take_in_all
from pyopnb.models.io import read_model, to_model
from pyopnb.ops.arguments import check_arguments, describe, is_path
from pyopnb.ops.messages import hide_internal_frames, sanitize
from pyopnb.runtime.recurrent import run_with_values
from pyopnb.runtime.session.session import Session
from pyopnb.training.batches import Batches
from pyopnb.training.checkpoint import Checkpoint, checkpoint_path, newest
from pyopnb.training.graphs import Loss, find_weights, step_of, with_inputs, with_loss
from pyopnb.training.optimizers import Optimizer, find_optimizer
from pyopnb.training.training import Training
from pyopnb.training.view import view_training  # noqa: F401  it registers itself

__all__ = ["train"]


_Metric = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], float]


@hide_internal_frames
@check_arguments
def train(
    model: Any,
    data: Any,
    *,
    loss: str = "cross_entropy",
    output: str | None = None,
    optimizer: str | Optimizer = "adam",
    epochs: int = 1,
    batch_size: int | None = 32,
    train: str | Sequence[str] | None = None,
    validation: Any = None,
    metric: str | _Metric | None = None,
    seed: int | None = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 100,
    resume: Training | str | os.PathLike[str] | bool | None = None,
    progress: bool = True,
    verify: bool = True,
) -> Training:
    """Train a model: gradient and update run in ONNX Runtime, and the weights stay in its session between steps.

    Ctrl-C ends it after the step in hand, with a `Training` that can go on; a second one interrupts the step. An op that is
    redefined meanwhile serves from the next step on, and the curve shows where.

    Parameters
    ----------
    model : ModelProto, bytes or path
        It is not changed. Nodes that behave otherwise in training, such as Dropout, do what they do in any other run.
    data : mapping, or iterable of mappings
        Arrays by name, whose first axis is the samples'; or feeds, one for each batch. Of the names, one that is no input of
        the model is that of the labels.
    loss : str
        The name of an output that is the loss; or a loss on top of an output: ``"cross_entropy"`` of float[N,C,...] and the
        classes' numbers int[N,...], or ``"mse"``, the mean of squared differences.
    output : str, optional
        What ``"cross_entropy"`` or ``"mse"`` is put on; the first output if not given.
    optimizer : str or Optimizer
        ``"adam"``, ``"sgd"``, ``"momentum"``, ``"adagrad"``; or `pyopnb.training.Adam` and its kind with a learning rate.
    epochs : int
        How often all data are gone through, with what was done before a ``resume``.
    batch_size : int, optional
        Samples of a step; None takes all. The last batch of an epoch is smaller where the samples do not divide, and left out
        where the model's inputs have a fixed number of samples. Feeds are used as they are.
    train : sequence of str, or str, optional
        Names of initializers. By default those of float32 and float64 that have an axis and lead to the loss; the
        statistics of BatchNormalization stay.
    validation : as ``data``, optional
        After each epoch the metric is computed on it.
    metric : str or callable, optional
        ``"accuracy"``, the default with ``"cross_entropy"``; ``"loss"``, otherwise; or ``metric(outputs, feeds)`` of a batch,
        two dicts of arrays, whose mean over samples is taken.
    seed : int, optional
        Of the shuffles; None leaves the samples in their order.
    checkpoint : path, optional
        A file ``.npz``, or a folder for a file of each: written after so many steps (``every``) and at the end. A file is
        replaced whole or not at all, whenever the process ends.
    every : int
    resume : Training, path or bool, optional
        What to continue from, with the same model, data and optimizer; the steps are those of an uninterrupted training, to
        the bit on the same machine. True takes ``checkpoint``, and begins where there is none.
    progress : bool
        Show the curves in the output of the cell (after ``%load_ext pyopnb``), or a line of text on a terminal.
    verify : bool
        Compare the gradients with differences of the loss first, as `grad` does, at the first batch among others.

    Returns
    -------
    Training
        Its ``model`` has the new weights.

    Raises
    ------
    ModelError
        A name of ``train`` is that of no weight; the loss is no scalar; a node has no gradient.
    InputError
        The data do not fit the model, or are empty; a number or a name makes no sense.
    InputError
        An argument of another kind.
    NotFinite
        The loss or a gradient is NaN or infinite: it says in which step, and at which node that began.
    OSError
        A checkpoint cannot be written, as on a full disk: ``error.training`` has the steps so far.
    Exception
        Whatever an op raised.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model([pyopnb.node("Mul", "x w", "y")], {"x": "float32[N]"}, "y", initializers={"w": np.float32([0])})
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)
    >>> result = train(model, {"x": x, "target": 3 * x}, loss="mse", optimizer=pyopnb.training.SGD(0.5), epochs=20)
    >>> result.steps, result.weights["w"].round(3).tolist()
    (40, [3.0])
    """
    __tracebackhide__ = True
    source = read_model(model)
    if source.folder is not None:
        take_in_all(source.proto, source.folder)
    proto = to_model(source)
    optimizer = find_optimizer(optimizer)
    for name, number, least in (("epochs", epochs, 1), ("every", every, 1), ("seed", seed, 0)):
        if number is not None and number < least:
            expected = f"a number from {least} on"
            raise InputError(f"train, {name}", expected=expected, got=f"{number}")
    seed = None if seed is None else int(seed)  # a checkpoint has it as JSON
    batches = Batches(data, batch_size, seed)
    if batches.is_single and epochs > 1:
        expected = "feeds that can be gone through again"
        raise InputError("train, data", expected=expected, got="a generator", next="epochs=1")
    with_labels = ModelProto()
    with_labels.CopyFrom(proto)
    inputs = {info.name for info in with_labels.graph.input}
    labels = {name: value for name, value in batches.first.items() if name not in inputs}
    loss_of_batch = with_loss(with_labels, loss, output, labels)
    names = [train] if isinstance(train, str) else train
    weights = find_weights(with_labels, loss_of_batch.name, names)
    forward = ModelProto()
    forward.CopyFrom(with_labels)
    with_inputs(forward, weights)
    evaluation = Session(forward)
    types = dict(evaluation._feeds.types)
    for name in weights:
        types.pop(name, None)
    batches.check(types, loss_of_batch)
    step = step_of(with_labels, loss_of_batch.name, weights, optimizer, batches.first, verify)
    path = None if checkpoint is None else checkpoint_path(checkpoint)
    start = _start(resume, path, step.state, optimizer, seed)
    _check_position(start, batches)
    if metric is None:
        metric = "accuracy" if loss == "cross_entropy" else "loss"
    measure = _metric(metric, loss_of_batch)
    score = None
    if validation is not None:
        size = batch_size and min(batch_size, _samples(validation))
        validation_batches = Batches(validation, size, None, "validation")
        validation_batches.check(types, loss_of_batch)

        def score(values: Mapping[str, Any]) -> float:
            state = {name: values[name] for name in weights}
            return _mean(evaluation, measure, validation_batches, state)

    metric_name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    training = Training(
        proto, step, start, batches, optimizer=optimizer, epochs=epochs, score=score, metric=metric_name,
        checkpoint=path, every=every, progress=progress,
    )  # fmt: skip
    return training.resume()


def _start(
    resume: Any, path: Any, state: Mapping[str, np.ndarray], optimizer: Optimizer, seed: int | None
) -> Checkpoint:
    """Begin at the model's weights, or where another training was."""
    where = "train, resume"
    if resume is True:
        if path is None:
            expected, advice = "a checkpoint to continue from", 'checkpoint="run.npz"'
            raise InputError(where, expected=expected, got="True", next=advice)
        # The first run of a cell has nothing to continue from.
        resume = path if newest(path) is not None else None
    if resume is None or resume is False:
        return Checkpoint(dict(state), repr(optimizer), seed)
    if isinstance(resume, Training):
        checkpoint = resume.checkpoint()
        checkpoint.check(state, repr(optimizer), seed)
        return checkpoint
    if not is_path(resume):
        expected, got = "a Training, a path, True or None", describe(resume)
        raise InputError(where, expected=expected, got=got, next='resume="run.npz"')
    return Checkpoint.read(resume, state, repr(optimizer), seed)


def _check_position(start: Checkpoint, batches: Batches) -> None:
    """Refuse to skip more batches than there are; of feeds, only the end of an epoch tells."""
    if len(batches) and start.position > len(batches):
        raise InputError(
            "train, resume",
            expected=f"data of {start.position:,} batches or more",
            got=f"{len(batches):,}",
            next="the data and the batch_size of the checkpoint",
        )


def _samples(data: Any) -> int:
    if not isinstance(data, Mapping):
        return 1
    return max([1, *(len(value) for value in data.values() if np.ndim(value))])


def _metric(metric: str | _Metric, loss: Loss) -> _Metric:
    if callable(metric):
        return metric

    def loss_of_batch(outputs: Mapping[str, Any], feeds: Mapping[str, Any]) -> float:
        return float(outputs[loss.name])

    def accuracy(outputs: Mapping[str, Any], feeds: Mapping[str, Any]) -> float:
        return float((outputs[loss.output].argmax(1) == feeds[loss.labels]).mean())

    if metric == "loss":
        return loss_of_batch
    if metric == "accuracy" and loss.classes != 0:
        return accuracy
    expected = "'loss', 'accuracy' of a cross_entropy, or a function of outputs and feeds"
    raise InputError("train, metric", expected=expected, got=sanitize(repr(metric)))


def _mean(session: Session, measure: _Metric, batches: Batches, values: Mapping[str, Any]) -> float:
    """Average a metric over samples."""
    total = count = 0.0
    for feeds in batches.epoch(0, 0):
        size = len(next(iter(feeds.values())))
        # A metric may give float32, which JSON, and so a checkpoint, does not take.
        total += size * float(measure(run_with_values(session, values, feeds), feeds))
        count += size
    return total / count

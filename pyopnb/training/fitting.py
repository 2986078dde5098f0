"""Train a model: check the arguments, make the graphs, and run them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, NodeProto

from pyopnb.common import sanitize
from pyopnb.engine import (
    Session,
    TensorType,
    argument_checks,
    check_arguments,
    external_files,
    find_op,
    model_files,
    to_model,
)
from pyopnb.errors import InputError
from pyopnb.gradients import make_inputs
from pyopnb.training.batches import TrainingBatches
from pyopnb.training.checkpoint import Checkpoint, checkpoint_path
from pyopnb.training.graphs import Loss, find_weights, step_of, with_loss
from pyopnb.training.optimizers import Optimizer, find_optimizer
from pyopnb.training.training import Training

__all__ = ["train"]


_Metric = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], float]


_ADAM = "pyopnb.training.Adam"
_ADVICE = {
    "lr": f"optimizer={_ADAM}(learning_rate=1e-3)",
    "learning_rate": f"optimizer={_ADAM}(learning_rate=1e-3)",
    "betas": f"optimizer={_ADAM}(beta1=0.9, beta2=0.999)",
    "weight_decay": f"optimizer={_ADAM}(weight_decay=1e-2)",
    "loss": 'loss="mse"',
    "data": 'data={"x": x, "labels": labels}',
}


@functools.partial(check_arguments, advice=_ADVICE)
def train(
    model: Any,
    data: Any,
    *,
    loss: Literal["cross_entropy", "mse"] | Any = "cross_entropy",
    output: str | None = None,
    optimizer: Literal["sgd", "momentum", "adagrad", "adam"] | str | Optimizer = "adam",
    epochs: int = 1,
    batch_size: int | None = 32,
    train: str | Sequence[str] | None = None,
    validation: Any = None,
    metric: str | _Metric | None = None,
    seed: int | None = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 100,
    resume: str | os.PathLike[str] | bool | None = None,
    progress: bool = True,
    verify: bool = True,
) -> Training:
    """Train a model in ONNX Runtime.

    The gradient and the update run there, and the weights stay in its session between steps.
    Ctrl-C ends the training after the current step, with a `Training` that can be resumed; a second
    one interrupts the step. An op that is redefined meanwhile is used from the next step on, and
    the curve shows where.

    Parameters
    ----------
    model : ModelProto, bytes or path
        It is not changed. Nodes with a training mode, such as Dropout, run as in any other run.
    data : mapping, or iterable of mappings
        Arrays by name, whose first axis is the samples'; or feeds, one for each batch. A name that
        is no input of the model belongs to the labels.
    loss : str, NodeProto or type
        The name of an output that is the loss, or a loss to add to an output: ``"cross_entropy"``
        of float[N,C,...] and the class numbers int[N,...], or ``"mse"``, the mean of squared
        differences. An op of yours, by name or class, gets the output and the labels. A NodeProto
        reads the tensors that it names.
    output : str, optional
        The output that the loss is put on; the first one if not given.
    optimizer : str or Optimizer
        ``"adam"``, ``"sgd"``, ``"momentum"``, ``"adagrad"``; or an object such as
        `pyopnb.training.Adam`, with a learning rate.
    epochs : int
        How often to go through all data, with the epochs before a ``resume`` included.
    batch_size : int, optional
        Samples per step; None, or more than there are, takes all. If the samples do not divide
        evenly, the last batch of an epoch is smaller, or left out with a warning if the model's
        inputs have a fixed batch size. If ``data`` has feeds for each batch, they are used as they
        are.
    train : sequence of str, or str, optional
        Names of the initializers to train. By default, all in float32 and float64 that have at
        least one axis and influence the loss, except the statistics of BatchNormalization.
    validation : as ``data``, optional
        Data on which the metric is computed after each epoch.
    metric : str or callable, optional
        ``"accuracy"``, the default with ``"cross_entropy"``; ``"loss"``, otherwise; or a function
        ``metric(outputs, feeds)`` of a batch's dicts of arrays, averaged over samples.
    seed : int, optional
        The seed of the shuffles; None leaves the samples in their order.
    checkpoint : path, optional
        A file ``.npz``, written after every so many steps (``every``) and at the end. It is
        replaced whole or not at all, whenever the process ends.
    every : int
        Steps from one checkpoint to the next.
    resume : path or bool, optional
        The checkpoint to continue from, with the same model, data and optimizer; the steps equal
        an uninterrupted training, to the bit on the same machine. True takes
        ``checkpoint``, and starts from the beginning if it is not there.
    progress : bool
        Show the curves in the output of the cell (after ``%load_ext pyopnb``), or a line
        of text on a terminal.
    verify : bool
        First compare the gradients with differences of the loss, as `grad` does, at the first batch
        and at other inputs.

    Returns
    -------
    Training
        Its ``model`` has the new weights.

    Raises
    ------
    ModelError
        A name of ``train`` is no weight; the loss is no scalar; a node has no gradient.
    InputError
        The data do not fit the model or are empty, or an argument has a wrong value or type.
    NotFinite
        The loss or a gradient is NaN or infinite: it says in which step, and at which node this
        began.
    OSError
        A checkpoint cannot be written, for example because the disk is full; ``error.training`` has
        the steps so far.
    Exception
        The exception that an op raised.

    Examples
    --------
    >>> import numpy as np, pyopnb
    >>> model = pyopnb.model(
    ...     [pyopnb.node("Mul", "x w", "y")],
    ...     {"x": "float32[N]"},
    ...     "y",
    ...     initializers={"w": np.float32([0])},
    ... )
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)
    >>> result = train(
    ...     model,
    ...     {"x": x, "target": 3 * x},
    ...     loss="mse",
    ...     optimizer=pyopnb.training.SGD(0.5),
    ...     epochs=20,
    ... )
    >>> result.steps, result.weights["w"].round(3).tolist()
    (40, [3.0])
    """
    __tracebackhide__ = True
    _check_numbers(epochs=(epochs, 1), every=(every, 1), seed=(seed, 0))
    optimizer = find_optimizer(optimizer)
    # A checkpoint keeps the seed as JSON, which has no NumPy integers.
    if seed is not None:
        seed = int(seed)
    proto = _read_whole(model)
    loss = _loss_of(loss)
    batches = _batches(data, batch_size, seed, epochs)
    trained = _add_loss(proto, loss, output, train, batches)
    # The gradient is verified at the first batch, whose labels and sizes are real ones.
    step = step_of(
        trained.model, trained.loss.name, trained.weights, optimizer, batches.first, verify
    )
    path = None
    if checkpoint is not None:
        path = checkpoint_path(checkpoint)
    start = _start(resume, path, step.state, optimizer, seed)
    _check_position(start, batches)
    if metric is None:
        metric = "accuracy" if loss == "cross_entropy" else "loss"
    # The metric is checked even where no validation needs it, so that a typo does not
    # wait for the next call.
    measure = _metric(metric, trained.loss)
    score = None
    if validation is not None:
        held_out = TrainingBatches(validation, batch_size, None, "validation")
        score = trained.scorer(measure, held_out)
    name_of_metric = getattr(metric, "__name__", str(metric))
    training = Training(
        proto, step, start, batches, optimizer=optimizer, epochs=epochs, score=score,
        metric=name_of_metric, checkpoint=path, every=every, progress=progress,
    )  # fmt: skip
    return training.resume()


def _check_numbers(**numbers: tuple[int | None, int]) -> None:
    """Refuse numbers below their minimum."""
    for name, (number, least) in numbers.items():
        if number is not None and number < least:
            expected = f"a number from {least} on"
            raise InputError(
                f"train, {name}", expected=expected, got=f"{number}", next=f"{name}={least}"
            )


def _batches(data: Any, size: int | None, seed: int | None, epochs: int) -> TrainingBatches:
    batches = TrainingBatches(data, size, seed)
    # A generator would be empty in the second epoch, and the training would end as
    # if it were complete.
    if batches.is_single and epochs > 1:
        expected = "feeds that can be read once per epoch"
        raise InputError("train, data", expected=expected, got="a generator", next="epochs=1")
    return batches


def _loss_of(loss: Any) -> str | NodeProto:
    """Return the loss as a name or a node."""
    if isinstance(loss, type):
        return find_op(loss).name
    if isinstance(loss, (str, NodeProto)):
        return loss
    raise InputError(
        "train, loss",
        expected="a name, an op, or a node",
        got="a function" if callable(loss) else argument_checks.describe(loss),
        next=_ADVICE["loss"],
    )


def _read_whole(model: Any) -> ModelProto:
    """Read a model with all its weights, as a training changes them."""
    source = model_files.read_model(model)
    external_files.take_in_all(source.proto, source.folder)
    return to_model(source)


@dataclass(frozen=True)
class _ModelWithLoss:
    """A model with its loss and trained weights, and a session that takes any weights."""

    model: ModelProto
    loss: Loss
    weights: Mapping[str, np.ndarray]
    evaluation: Session

    def types(self) -> dict[str, TensorType | None]:
        """Return the types of the inputs that a batch feeds: all but the weights."""
        types = dict(self.evaluation.state.feeds.types)
        for name in self.weights:
            types.pop(name, None)
        return types

    def scorer(
        self, measure: _Metric, batches: TrainingBatches
    ) -> Callable[[Mapping[str, Any]], float]:
        """Make a function that computes the metric on validation data for current weights."""
        batches.check_size(self.model.graph)
        batches.check(self.types(), self.loss)

        def score(values: Mapping[str, Any]) -> float:
            weights = {name: values[name] for name in self.weights}
            return _mean(self.evaluation, measure, batches, weights)

        return score


def _add_loss(
    proto: ModelProto,
    loss: str | NodeProto,
    output: str | None,
    names: str | Sequence[str] | None,
    batches: TrainingBatches,
) -> _ModelWithLoss:
    """Put the loss on a copy of the model, find its weights, and check the batches."""
    model = ModelProto()
    model.CopyFrom(proto)
    batches.check_size(model.graph)
    # Data that are no input of the model are the labels.
    inputs = {info.name for info in model.graph.input}
    labels = {name: value for name, value in batches.first.items() if name not in inputs}
    loss_of_batch = with_loss(model, loss, output, labels)
    names = [names] if isinstance(names, str) else names
    weights = find_weights(model, loss_of_batch.name, names)
    forward = ModelProto()
    forward.CopyFrom(model)
    make_inputs(forward.graph, weights)
    trained = _ModelWithLoss(model, loss_of_batch, weights, Session(forward))
    batches.check(trained.types(), loss_of_batch)
    return trained


def _start(
    resume: Any, path: Any, state: Mapping[str, np.ndarray], optimizer: Optimizer, seed: int | None
) -> Checkpoint:
    """Begin at the model's weights, or at a checkpoint."""
    where = "train, resume"
    # True means "wherever this cell was when the kernel died".
    if resume is True:
        if path is None:
            expected, advice = "a checkpoint to continue from", 'checkpoint="run.npz"'
            raise InputError(where, expected=expected, got="True", next=advice)
        # The first run of a cell has nothing to continue from.
        resume = path if path.is_file() else None
    if resume is None or resume is False:
        return Checkpoint(dict(state), repr(optimizer), seed)
    if not argument_checks.is_path(resume):
        expected, got = "a path, True or None", argument_checks.describe(resume)
        next_ = 'resume="run.npz", or resume() of a Training'
        raise InputError(where, expected=expected, got=got, next=next_)
    return Checkpoint.read(resume, state, repr(optimizer), seed)


def _check_position(start: Checkpoint, batches: TrainingBatches) -> None:
    """Refuse to skip more batches than there are; feeds cannot be counted beforehand."""
    if len(batches) and start.position > len(batches):
        raise InputError(
            "train, resume",
            expected=f"data of {start.position:,} batches or more",
            got=f"{len(batches):,}",
            next="the data and the batch_size of the checkpoint",
        )


def _metric(metric: str | _Metric, loss: Loss) -> _Metric:
    # A user's function is called as it is; its result is checked when the mean is taken.
    if callable(metric):
        return metric

    def loss_of_batch(outputs: Mapping[str, Any], feeds: Mapping[str, Any]) -> float:
        return float(outputs[loss.name])

    def accuracy(outputs: Mapping[str, Any], feeds: Mapping[str, Any]) -> float:
        return float((outputs[loss.output].argmax(1) == feeds[loss.labels]).mean())

    if metric == "loss":
        return loss_of_batch
    # Accuracy needs labels that are classes, which only a cross entropy has.
    if metric == "accuracy" and loss.classes != 0:
        return accuracy
    expected = "'loss', 'accuracy' of a cross_entropy, or a function of outputs and feeds"
    got = sanitize(repr(metric))
    raise InputError("train, metric", expected=expected, got=got, next='metric="loss"')


def _mean(
    session: Session, measure: _Metric, batches: TrainingBatches, values: Mapping[str, Any]
) -> float:
    """Average a metric over samples."""
    total = count = 0.0
    for feeds in batches.epoch(0, 0):
        # The last batch can be smaller, and must not count as much as the others.
        size = len(next(iter(feeds.values())))
        results = session.run(None, {**values, **feeds})
        outputs = dict(zip(session.state.feeds.output_names, results, strict=True))
        # A metric may return a np.float32, which the JSON of a checkpoint cannot hold.
        total += size * float(measure(outputs, feeds))
        count += size
    return total / count

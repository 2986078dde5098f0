"""Run the loop of a training over batches, and keep its results so far."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from pyopnb.common import plural, progress, sanitize
from pyopnb.diffs import Comparable, array_diffs
from pyopnb.engine import GraphIndex, check_arguments, registry
from pyopnb.errors import InputError, NotFinite, RunRefused
from pyopnb.traces import Trace
from pyopnb.training.batches import TrainingBatches
from pyopnb.training.checkpoint import Checkpoint
from pyopnb.training.diff import TrainingDiff
from pyopnb.training.graphs import TrainingStep
from pyopnb.training.optimizers import Optimizer
from pyopnb.training.record import TrainingRecord
from pyopnb.training.recurrent import RecurrentSession

__all__ = ["Training"]


class Training(Comparable):
    """A training and its results so far; created by `train`.

    It prints as text, and displays itself with the curves of loss and metric.

    Attributes
    ----------
    epochs : int
        The number of epochs to go through in all.
    optimizer : Optimizer
        With its learning rate and the like; its state is in the session.
    metric : str
        The name of the metric of ``scores``.
    interrupted : bool
        Whether it was stopped before the end.
    """

    _NOUN = "training"

    def __init__(
        self,
        model: ModelProto,
        step: TrainingStep,
        start: Checkpoint,
        batches: TrainingBatches,
        *,
        optimizer: Optimizer,
        epochs: int,
        score: Callable[[Mapping[str, Any]], float] | None,
        metric: str,
        checkpoint: Path | None,
        every: int,
        progress: bool,
    ) -> None:
        self._model = model
        initializers = GraphIndex(model.graph).initializers
        self._weights = [name for name in step.following if name in initializers]
        self._batches, self._score = batches, score
        self._path, self._every, self._progress = checkpoint, every, progress
        self.optimizer, self.epochs, self.metric = optimizer, epochs, metric
        self.interrupted = False
        self._reached = start
        # The weights stay in the ONNX Runtime memory between steps, and are copied only when
        # they are read.
        self._session = RecurrentSession(step.model, start.state, step.following, step.results)
        self._loss, self._squares = step.results
        self._registry_epoch, self._versions = -1, self._current_versions()
        self._going_on = threading.Lock()
        # Held while the results of a step are stored, and while another thread reads them.
        self._standing = threading.Lock()

    # ---- results ---------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Count the steps so far."""
        return len(self._reached.losses)

    @property
    def losses(self) -> np.ndarray:
        """Return float64[steps]: the loss of each batch, before its step."""
        return np.array(self._reached.losses, np.float64)

    @property
    def gradient_norms(self) -> np.ndarray:
        """Return float64[steps]: the norm of the gradient of all weights together."""
        return np.array(self._reached.norms, np.float64)

    @property
    def scores(self) -> list[tuple[int, float]]:
        """Return step numbers, and the metric on the validation data after these steps."""
        return list(self._reached.scores)

    @property
    def marks(self) -> list[tuple[int, str]]:
        """Return the first step of each redefined op, and its version.

        For example ``(120, "demo::Act version 3")``.
        """
        return list(self._reached.marks)

    @property
    def seconds(self) -> float:
        """Return the time spent on steps."""
        return self._reached.seconds

    @property
    def epoch(self) -> int:
        """Count the epochs that are complete."""
        return self._reached.epoch

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Copy the weights, by the names of their initializers."""
        with self._standing:
            return {name: self._session.state[name].copy() for name in self._weights}

    @property
    def model(self) -> ModelProto:
        """Copy the model with the trained weights."""
        model = ModelProto()
        model.CopyFrom(self._model)
        weights = self.weights
        # Initializers that are not trained stay as they are in the model.
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
        return model

    @property
    def record(self) -> TrainingRecord:
        """Copy the measurements at each step."""
        with self._standing:
            reached = self._reached
            return TrainingRecord(
                optimizer=repr(self.optimizer),
                metric=self.metric,
                losses=tuple(map(float, reached.losses)),
                norms=tuple(map(float, reached.norms)),
                scores=tuple(reached.scores),
                marks=tuple(reached.marks),
            )

    def to_csv(self) -> str:
        """Write a line for each step: its number, loss, gradient norm and validation metric.

        Returns
        -------
        str
            ``save("run.csv")`` writes it to a file.
        """
        return self.record.to_csv()

    def _diff(self, other: Training) -> TrainingDiff:
        weights = array_diffs.compared(self.weights, other.weights)
        return TrainingDiff(self.record, other.record, weights)

    def __repr__(self) -> str:
        facts = [plural(self.steps, "step"), f"{self.epoch} of {plural(self.epochs, 'epoch')}"]
        if self.steps:
            losses = self._reached.losses
            facts.append(f"training loss {losses[0]:.4g} → {losses[-1]:.4g}")
        if self.scores:
            _, score = self.scores[-1]
            facts.append(f"validation {self.metric} {score:.4g}")
        facts.append(f"{self.seconds:.3g} s")
        if self.interrupted:
            facts.append("interrupted")
        return ", ".join(facts)

    # ---- the loop --------------------------------------------------------------------------------

    @check_arguments
    def resume(self, epochs: int | None = None) -> Training:
        """Continue the training.

        Parameters
        ----------
        epochs : int, optional
            How many more, with an epoch that was begun counted as one. By default the training
            continues to its planned end.

        Returns
        -------
        Training
            This training.

        Raises
        ------
        InputError
            ``epochs`` is below 1.
        RunRefused
            It is running already: in another thread, or in an op or metric that it calls.
        NotFinite
            The loss or a gradient is NaN or infinite.
        OSError
            A checkpoint cannot be written; ``error.training`` is this training with its steps.
        Exception
            The exception that an op raised.
        """
        __tracebackhide__ = True
        if epochs is not None and epochs < 1:
            expected = "a number from 1 on, or None"
            raise InputError("resume, epochs", expected=expected, got=f"{epochs}", next="epochs=1")
        # Two threads would take each other's steps.
        if not self._going_on.acquire(blocking=False):
            raise RunRefused(
                "resume",
                expected="a training that is not running",
                got="one that is running, in another thread or around this call",
                next="wait until it ends",
            )
        try:
            if epochs is not None:
                self.epochs = self.epoch + epochs
            self._go_to_end()
        finally:
            self._going_on.release()
        return self

    def _go_to_end(self) -> None:
        __tracebackhide__ = True
        if self._progress:
            show = progress.panel()
        else:
            show = None
        self.interrupted = False
        with _interrupts() as is_interrupted:
            try:
                while self.epoch < self.epochs and not self.interrupted:
                    self._go_through_epoch(is_interrupted, show)
                self._write()
            except BaseException as error:
                self._write_despite(error)
                raise
            finally:
                if show is not None:
                    show(self, True)

    def _go_through_epoch(
        self, is_interrupted: Callable[[], bool], show: progress.Panel | None
    ) -> None:
        __tracebackhide__ = True
        reached = self._reached
        for feeds in self._batches.epoch(reached.epoch, reached.position):
            began = time.perf_counter()
            self._mark_versions()
            self._take(feeds)
            reached.seconds += time.perf_counter() - began
            # Checkpoints are written between steps, so that they have complete ones only.
            if self.steps % self._every == 0:
                self._write()
            if show is not None:
                show(self, False)
            # Ctrl-C was pressed during the step, which is complete now.
            if is_interrupted():
                self.interrupted = True
                return
        score = None
        if self._score is not None:
            score = self._score(self._session.state)
        with self._standing:
            reached.epoch, reached.position = reached.epoch + 1, 0
            if score is not None:
                reached.scores.append((self.steps, score))

    def _take(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Make one step, which changes nothing if it fails."""
        __tracebackhide__ = True
        reached = self._reached
        try:
            results = self._session.run(feeds)
        except Exception as error:
            error.add_note(f"in step {self.steps + 1:,} of a training")
            raise
        # The new weights are accepted only after this check, so that a step that fails leaves the
        # training as it was.
        loss, squares = results[self._loss], results[self._squares]
        if not np.isfinite(loss) or not np.isfinite(squares):
            raise self._not_finite(loss, feeds)
        with self._standing:
            self._session.accept()
            reached.losses.append(loss)
            reached.norms.append(squares**0.5)
            reached.position += 1

    def _write(self) -> None:
        """Write a checkpoint, if there is a path for it, and attach the training to an error."""
        if self._path is None:
            return
        checkpoint = replace(self._reached, state=self._session.state)
        try:
            checkpoint.write(self._path)
        except OSError as error:
            # The user must not lose hours of steps to a full disk.
            error.training = self  # type: ignore[attr-defined]
            error.add_note(
                f"error.training has {plural(self.steps, 'step')}, and resume() continues them"
            )
            raise

    def _write_despite(self, error: BaseException) -> None:
        """Write a checkpoint after an error; a failure to write is only a note on that error."""
        if isinstance(error, OSError) and getattr(error, "training", None) is self:
            return  # a checkpoint failed just now
        try:
            self._write()
        except OSError as failure:
            error.add_note(f"and its checkpoint is not written: {sanitize(failure)}")

    def _current_versions(self) -> dict[str, int]:
        self._registry_epoch = registry.epoch
        numbers = {}
        for name in self._session.session.state.ops:
            if name in registry:
                numbers[name] = registry[name].current.number
        return numbers

    def _mark_versions(self) -> None:
        """Note the ops that were redefined since the last step."""
        if registry.epoch == self._registry_epoch:
            return
        earlier, self._versions = self._versions, self._current_versions()
        changed = {name for name, number in self._versions.items() if earlier.get(name) != number}
        for name in self._versions:
            # A gradient op is redefined with its op, and people know the op.
            is_gradient = name.endswith("Grad") and name.removesuffix("Grad") in changed
            if name in changed and not is_gradient:
                mark = (self.steps + 1, f"{name} version {self._versions[name]}")
                self._reached.marks.append(mark)

    def _not_finite(self, loss: float, feeds: Mapping[str, np.ndarray]) -> NotFinite:
        """Make an error that tells where the NaN or infinity began, from a trace of the batch."""
        # The session still has the weights from before the step: the same batch fails again,
        # in a trace this time.
        inputs = {**feeds, **self._session.state}
        trace = self._session.session.trace(inputs, level="summaries", check=False, times=False)
        got = f"loss {loss}"
        if np.isfinite(loss):
            got = "a gradient that is not finite"
        got += _begin_of_nonfinite(trace, feeds)
        error = NotFinite(
            f"train, step {self.steps + 1:,} in epoch {self.epoch + 1}",
            expected="a finite loss and gradient",
            got=got,
            next=(
                "a smaller learning rate, or np.isfinite(data); "
                "error.training has the state before the step"
            ),
        )
        error.training = self
        return error


def _begin_of_nonfinite(trace: Trace, feeds: Mapping[str, np.ndarray]) -> str:
    """Say where the first NaN of a trace is, or the first infinity."""
    # Inputs first, then nodes in the order in which they ran.
    places = {name: "in the feed" if name in feeds else "in the state" for name in trace.feeds}
    for node in trace.model.graph.node:
        place = f"in node {sanitize(node.name or node.output[0])} ({node.op_type})"
        places.update(dict.fromkeys(node.output, place))
    names = []
    for name in places:
        if name in trace.summaries and trace.summaries[name].has_nonfinite:
            names.append(name)
    # An infinity may be intended, as in the mask of an attention, but a NaN never is.
    names.sort(key=lambda name: not trace.summaries[name].nan)
    if not names:
        return ", which a second run of the batch did not show"
    name = names[0]
    return f": it begins {places[name]}, {sanitize(name)}: {trace.summaries[name]}"


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the loop after the step; a second one interrupts the step itself."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(before):  # the handler is not ours to take
        yield pressed.is_set
        return

    def handle(number: int, frame: Any) -> None:
        if pressed.is_set():
            before(number, frame)
        pressed.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)

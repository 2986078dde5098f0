"""A training: the loop over batches, what came of it so far, and how it goes on."""

from __future__ import annotations

import copy
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

from pyopnb.errors import InputError, NotFinite, RunRefused
from pyopnb.models.index import GraphIndex
from pyopnb.ops.arguments import check_arguments
from pyopnb.ops.displayable import Displayable
from pyopnb.ops.messages import hide_internal_frames, plural, sanitize
from pyopnb.ops.progress import Panel, panel
from pyopnb.ops.registry import registry
from pyopnb.runtime.recurrent import RecurrentSession
from pyopnb.training.batches import Batches
from pyopnb.training.checkpoint import Checkpoint
from pyopnb.training.graphs import Step
from pyopnb.training.optimizers import Optimizer

__all__ = ["Training"]

_SMALLER = "a smaller learning rate"


class Training(Displayable):
    """A training and what came of it; created by `train`.

    It prints as text, and displays itself with the curves of the loss and of the metric.

    Attributes
    ----------
    epochs : int
        To be gone through in all.
    optimizer : Optimizer
    metric : str
        What ``scores`` are.
    interrupted : bool
        Whether it was stopped before its end.
    """

    def __init__(
        self,
        model: ModelProto,
        step: Step,
        start: Checkpoint,
        batches: Batches,
        *,
        optimizer: Optimizer,
        epochs: int,
        score: Callable[[Mapping[str, Any]], float] | None,
        metric: str,
        checkpoint: Path | None,
        every: int,
        progress: bool,
    ) -> None:
        self._model, self._weights = (
            model,
            [name for name in step.following if name in GraphIndex(model.graph).initializers],
        )
        self._batches, self._score = batches, score
        self._path, self._every, self._progress = checkpoint, every, progress
        self.optimizer, self.epochs, self.metric, self.interrupted = (
            optimizer,
            epochs,
            metric,
            False,
        )
        self._reached = start
        self._session = RecurrentSession(step.model, start.state, step.following, step.results)
        self._loss, self._squares = step.results
        self._epoch, self._versions = -1, self._versions_now()
        self._going_on = threading.Lock()
        self._standing = (
            threading.Lock()
        )  # held where a step is taken over, and while another thread may read

    # ---- what came of it -----------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many steps were made."""
        return len(self._reached.losses)

    @property
    def losses(self) -> np.ndarray:
        """float64[steps]: the loss of each batch, before its step."""
        return np.array(self._reached.losses, np.float64)

    @property
    def gradient_norms(self) -> np.ndarray:
        """float64[steps]: the length of the gradient of all weights together."""
        return np.array(self._reached.norms, np.float64)

    @property
    def scores(self) -> list[tuple[int, float]]:
        """Numbers of steps, and the metric on the validation data after them."""
        return list(self._reached.scores)

    @property
    def marks(self) -> list[tuple[int, str]]:
        """Steps from which on a redefined op served, and its version: ``(120, "demo::Act version 3")``."""
        return list(self._reached.marks)

    @property
    def seconds(self) -> float:
        """Spent on steps, validation and checkpoints."""
        return self._reached.seconds

    @property
    def epoch(self) -> int:
        """Epochs that are complete."""
        return self._reached.epoch

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the weights by the names of their initializers."""
        with self._standing:
            return {name: self._session.state[name].copy() for name in self._weights}

    @property
    def model(self) -> ModelProto:
        """A copy of the model with these weights. The model that was given is not changed."""
        model = ModelProto()
        model.CopyFrom(self._model)
        weights = self.weights
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
        return model

    def checkpoint(self) -> Checkpoint:
        """A copy of all that it can be continued from.

        Returns
        -------
        Checkpoint
        """
        with self._standing:
            return copy.deepcopy(replace(self._reached, state=self._session.state))

    def __repr__(self) -> str:
        facts = [f"{plural(self.steps, 'step')}, {self.epoch} of {plural(self.epochs, 'epoch')}"]
        if self.steps:
            facts.append(f"loss {self._reached.losses[0]:.4g} → {self._reached.losses[-1]:.4g}")
        if self.scores:
            facts.append(f"{self.metric} {self.scores[-1][1]:.4g}")
        facts.append(f"{self.seconds:.3g} s")
        return ", ".join([*facts, *["interrupted"] * self.interrupted])

    # ---- going on ------------------------------------------------------------------------------------------------------------

    @hide_internal_frames
    @check_arguments
    def resume(self, epochs: int | None = None) -> Training:
        """Train further, from where it stands.

        Parameters
        ----------
        epochs : int, optional
            How many more, an epoch that was begun counted as one; to the end that was planned if not given.

        Returns
        -------
        Training
            This one.

        Raises
        ------
        InputError
            ``epochs`` is below 1.
        RunRefused
            It is going on already: in another thread, or in what it calls itself.
        NotFinite
            The loss or a gradient is NaN or infinite.
        OSError
            A checkpoint cannot be written; ``error.training`` is this one, with its steps.
        Exception
            Whatever an op raised.
        """
        __tracebackhide__ = True
        if epochs is not None and epochs < 1:
            raise InputError(
                "resume, epochs", expected="a number from 1 on, or None", got=f"{epochs}"
            )
        if not self._going_on.acquire(blocking=False):  # two would take each other's steps
            raise RunRefused(
                "resume",
                expected="a training that stands still",
                got="one that is going on, in another thread or in what it calls",
                next="wait until it has ended",
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
        show = panel() if self._progress else None
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

    def _go_through_epoch(self, is_interrupted: Callable[[], bool], show: Panel | None) -> None:
        __tracebackhide__ = True
        now = self._reached
        for feeds in self._batches.epoch(now.epoch, now.position):
            began = time.perf_counter()
            self._mark_versions()
            self._take(feeds)
            now.seconds += time.perf_counter() - began
            if self.steps % self._every == 0:
                self._write()
            if show is not None:
                show(self, False)
            if is_interrupted():
                self.interrupted = True
                return
        scores = [] if self._score is None else [(self.steps, self._score(self._session.values))]
        with self._standing:
            now.epoch, now.position = now.epoch + 1, 0
            now.scores += scores

    def _take(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Make one step; where it fails, nothing has changed."""
        __tracebackhide__ = True
        now, number = self._reached, self.steps + 1
        try:
            results = self._session.run(feeds)
        except Exception as error:
            error.add_note(f"in step {number:,} of a training")
            raise
        loss, squares = results[self._loss], results[self._squares]
        if not np.isfinite(loss) or not np.isfinite(squares):
            raise self._not_finite(loss, feeds)
        with self._standing:
            self._session.accept()
            now.losses.append(loss)
            now.norms.append(squares**0.5)
            now.position += 1

    def _write(self) -> None:
        """Write a checkpoint, if there is a path for it; an error has the training."""
        if self._path is None:
            return
        checkpoint = replace(self._reached, state=self._session.state)
        try:
            checkpoint.write(self._path)
        except OSError as error:
            # A full disk must not take hours of steps with it.
            error.training = self  # type: ignore[attr-defined]
            error.add_note(
                f"error.training has {plural(self.steps, 'step')}, and resume() continues them"
            )
            raise

    def _write_despite(self, error: BaseException) -> None:
        """Write a checkpoint where an error ended the training, which stays the error that is raised."""
        if isinstance(error, OSError) and getattr(error, "training", None) is self:
            return  # a checkpoint failed just now
        try:
            self._write()
        except OSError as another:
            error.add_note(f"and its checkpoint is not written: {sanitize(another)}")

    def _versions_now(self) -> dict[str, int]:
        self._epoch = registry.epoch
        return {
            name: registry[name].current.number
            for name in self._session.session._ops
            if name in registry
        }

    def _mark_versions(self) -> None:
        """Note the ops that were redefined since the last step."""
        if registry.epoch == self._epoch:
            return
        before, self._versions = self._versions, self._versions_now()
        changed = [name for name, number in self._versions.items() if before.get(name) != number]
        own = [
            name
            for name in changed
            if name.removesuffix("Grad") == name or name.removesuffix("Grad") not in changed
        ]
        self._reached.marks += [
            (self.steps + 1, f"{name} version {self._versions[name]}") for name in own
        ]

    def _not_finite(self, loss: float, feeds: Mapping[str, np.ndarray]) -> NotFinite:
        """The error that says where it began, from a trace of the batch."""
        session = self._session.session
        trace = session.trace(
            {**feeds, **self._session.state}, level="summaries", check=False, times=False
        )
        what = f"loss {loss}" if not np.isfinite(loss) else "a gradient that is not finite"
        where = f"train, step {self.steps + 1:,} in epoch {self.epoch + 1}"
        # An infinity may be meant, as in the mask of an attention, and NaN is never.
        order = [
            *trace.feeds,
            *(
                name
                for node in trace.model.graph.node
                for name in node.output
                if name in trace.summaries
            ),
        ]
        seen = [name for name in order if trace.summaries[name].has_nonfinite]
        names = [name for name in seen if trace.summaries[name].nan] or seen
        remedy = _SMALLER
        got = f"{what}, which a second run of the batch did not show"
        if names:
            graph, name = GraphIndex(trace.model.graph), names[0]
            source = _first_before(graph, name, set(seen))
            remedy = "np.isfinite(data) first" if source in feeds else _remedy_at(graph, source)
            got = f"{what}: it begins {self._place(graph, name)}, {sanitize(name)}: {trace.summaries[name]}"
            got += (
                f", after an infinity {self._place(graph, source)}, {sanitize(source)}"
                if source != name
                else ""
            )
        error = NotFinite(
            where,
            expected="a finite loss and gradient",
            got=got,
            next=f"{remedy}; error.training stands before the step",
        )
        error.training = self
        return error

    def _place(self, graph: GraphIndex, name: str) -> str:
        producer = graph.producers.get(name)
        if producer is None:
            return "in the state" if name in self._session.state else "in the feed"
        node = graph.nodes[producer[0]]
        return f"in node {sanitize(node.name or name)} ({node.op_type})"


def _remedy_at(graph: GraphIndex, name: str) -> str:
    """What to do about the first value that is not finite, if it is no feed: what it is computed from is finite."""
    producer = graph.producers.get(name)
    node = None if producer is None else graph.nodes[producer[0]]
    op = None if node is None else registry.find(node.domain, node.op_type)
    if op is None:
        return _SMALLER
    of = op.current.gradient_of
    return f"breakpoint() in {'compute' if of is None else 'backward'} of {of or op.name}, which was given finite numbers"


def _first_before(graph: GraphIndex, name: str, among: set[str]) -> str:
    """What a value is computed from, as far back as it is among these."""
    while (producer := graph.producers.get(name)) is not None:
        before = next((read for _, read in graph.reads(producer[0]) if read in among), None)
        if before is None:
            break
        name = before
    return name


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the loop after the step; a second one interrupts the step itself."""
    pressed = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(
        before
    ):  # not ours to take
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

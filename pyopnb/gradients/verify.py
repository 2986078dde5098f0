"""Compare the gradients of a derived model with central differences of its loss.

Rules of onnx-ad are not taken on trust, nor are ours: the loss is moved along random directions of
what it was derived in, at the user's feeds and at inputs of several sizes and magnitudes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto
from onnx_ad._graph import node_reads

from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import types_of
from pyopnb.models.nodes import type_of_proto
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import TensorType
from pyopnb.runtime.session.session import Session
from pyopnb.testing.central import central_differences
from pyopnb.testing.gradients import LOOSEST, TOLERANCES, unit

__all__ = ["Arrays", "verify_gradients"]

Arrays = dict[str, np.ndarray]

_LEAST_SECONDS = 0.15
"""Of this thread, so that a loaded machine compares as much as an idle one."""
_MAX_MOVED = 4096
"""Elements of an array that one direction moves."""
_REGIMES = ("order one", "large", "negative", "mixed", "tiny", "positive")
_SIZES = (3, 2, 5, 1)
"""Of free dimensions; the first is taken with all magnitudes of values."""


@dataclass(frozen=True)
class _Trial:
    """Inputs at which the gradients are compared."""

    name: str
    feeds: Arrays
    moves_weights: bool


@dataclass(frozen=True)
class _Direction:
    """Elements of an array, counted as if it were flat, and how far each is moved for a step of 1."""

    places: np.ndarray
    steps: np.ndarray

    def moved(self, x: np.ndarray, step: float) -> np.ndarray:
        """Copy an array with the elements moved."""
        flat = x.flatten()
        flat[self.places] = (flat[self.places] + step * self.steps).astype(x.dtype)
        return flat.reshape(x.shape)


@dataclass(frozen=True)
class _Disagreement:
    """A direction along which a model's derivative is not that of its loss."""

    where: str
    trial: str
    numeric: float
    analytic: float


def verify_gradients(
    model: ModelProto,
    gradients: Mapping[str, str],
    loss: str,
    feeds: Mapping[str, np.ndarray] | None,
    seconds: float,
) -> str:
    """Refuse a model whose gradients are not those of its loss.

    Parameters
    ----------
    model : ModelProto
        Inputs and initializers, the loss and its gradients.
    gradients : mapping of str to str
        The outputs that are gradients, by what they are derived in.
    loss : str
    feeds : mapping, optional
        An example of the user's.
    seconds : float
        What the derivation took; half of it may be spent beyond the first comparisons.

    Returns
    -------
    str
        What was compared, or why nothing could be.

    Raises
    ------
    ModelError
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of values that leave an operator's domain
        verification = _Verification(model, gradients, loss)
        return verification.compare(feeds, time.thread_time() + max(_LEAST_SECONDS, seconds / 2))


class _Verification:
    """Sessions of a loss and its gradients, and the comparisons that they allow."""

    def __init__(self, model: ModelProto, gradients: Mapping[str, str], loss: str) -> None:
        self.gradients, self.loss = gradients, loss
        self.names = list(gradients)
        movable = _with_weights_as_inputs(model, self.names)
        types = types_of(movable.graph)
        weights = {tensor.name for tensor in movable.graph.initializer}
        self.inputs = {
            info.name: type_of_proto(info.type)
            for info in movable.graph.input
            if info.name not in weights
        }
        self.weights = _values(movable, [name for name in self.names if name in weights])
        kinds = [type_of_proto(types[name]).dtype for name in [*self.names, loss]]
        dtypes = [np.dtype(kind.numpy) for kind in kinds if kind is not None]
        self.precision = max(unit(each) for each in dtypes)
        coarsest = max(dtypes, key=unit).name
        self.tolerance = TOLERANCES.get(coarsest, LOOSEST)
        self.primal = Session(_without_gradients(movable, loss), fill=True)
        try:
            self.derived = Session(movable, fill=True)
        except Exception as error:  # the loss alone runs, so it is the gradients
            raise _not_runnable(error) from error
        self.random = np.random.default_rng(0)

    def compare(self, feeds: Mapping[str, np.ndarray] | None, end: float) -> str:
        directions = trials = 0
        for number, trial in enumerate(_trials(self.inputs, feeds)):
            if number >= 2 and time.thread_time() > end:
                break
            point = {**self.weights, **trial.feeds}
            if trial.moves_weights:
                for name, value in self.weights.items():
                    change = self.random.normal(size=value.shape) * (0.1 * np.abs(value) + 0.05)
                    point[name] = (value + change).astype(value.dtype)
            losses = [self._loss(point), self._loss(point)]
            if None in losses or not np.isfinite(losses[0]):  # type: ignore[arg-type]
                continue  # the model itself does not take it
            if losses[0] != losses[1]:
                return "not verified: the loss is another one each time"
            compared = self._compare_at(trial, point, end)
            directions += compared
            trials += compared > 0
        if not directions:
            return "not verified: the model takes none of the inputs that were drawn"
        return f"verified along {directions} directions at {trials} inputs"

    def _compare_at(self, trial: _Trial, point: Arrays, end: float) -> int:
        """Compare along a direction of everything, then of each name; count the directions."""
        try:
            outputs = self.derived.run(list(self.gradients.values()), self._fed(point))
        except Exception as error:  # the loss alone runs, so it is the gradients
            raise _not_runnable(error) from error
        found = dict(zip(self.names, map(np.asarray, outputs), strict=True))
        groups = [self.names] if len(self.names) > 1 else []
        groups += [[name] for name in self.names]
        compared = 0
        for number, group in enumerate(groups):
            if number >= 2 and time.thread_time() > end:
                break
            disagreement = self._along(group, found, point, trial.name)
            if disagreement is None:
                continue  # a kink, or nothing to move
            compared += 1
            # Rounding can mislead once: a wrong gradient is wrong along another direction, too.
            if disagreement is not _AGREED and self._along(group, found, point, trial.name) not in (
                None,
                _AGREED,
            ):
                self._refuse(disagreement, found, point)
        return compared

    def _along(
        self, group: Sequence[str], gradients: Arrays, point: Arrays, trial: str
    ) -> _Disagreement | None:
        """Compare along one random direction: `_AGREED`, a disagreement, or None at a kink."""
        directions = {name: self._direction(point[name]) for name in group if point[name].size}
        if not directions:
            return None
        middle = self._loss(point)
        assert middle is not None, "compare asks for it"  # noqa: S101  # for mypy
        # A sum of many terms is rounded by more than its own last bit: by what the smallest moves
        # of its inputs change. This offset makes the estimate of the noise as large as that.
        rounding = max(self._jitter(directions, point, middle) for _ in range(2))
        offset = rounding / self.precision

        def moved_loss(step: np.ndarray) -> np.ndarray:
            moved = dict(point)
            for name, direction in directions.items():
                moved[name] = direction.moved(point[name], float(step[0]))
            moved_to = self._loss(moved)
            return np.array([np.nan if moved_to is None else moved_to + offset])

        differences = central_differences(moved_loss, np.zeros(1), [(0,)], self.precision)
        if differences.kinks[0]:
            return None
        numeric = float(differences.values[0, 0])
        products = []
        for name, direction in directions.items():
            gradient = np.ravel(gradients[name])[direction.places].astype(np.float64)
            products.append(gradient * direction.steps)
        terms = np.concatenate(products)
        analytic = float(terms.sum())
        spread = float(np.sqrt(np.sum(terms * terms)))
        # A gradient that is zero but for rounding has no size of its own.
        scale = max(abs(numeric), spread, 1e-3 * abs(middle), float(np.finfo(np.float64).tiny))
        allowed = self.tolerance * scale + 4 * float(differences.errors[0, 0])
        if abs(analytic - numeric) <= allowed:
            return _AGREED
        where = "all together" if len(group) > 1 else f"'{sanitize(group[0])}'"
        return _Disagreement(where, trial, numeric, analytic)

    def _direction(self, x: np.ndarray) -> _Direction:
        places = np.arange(x.size)
        if x.size > _MAX_MOVED:
            places = self.random.choice(x.size, _MAX_MOVED, replace=False)
        magnitude = np.abs(np.ravel(x)[places].astype(np.float64))
        least = float(np.sqrt(np.mean(magnitude * magnitude))) / 8 or 1.0
        signs = self.random.choice([-1.0, 1.0], places.shape)
        return _Direction(places, signs * np.maximum(magnitude, least))

    def _jitter(self, directions: Mapping[str, _Direction], point: Arrays, middle: float) -> float:
        moved = dict(point)
        for name, direction in directions.items():
            signs = self.random.choice([-1.0, 1.0], direction.places.shape)
            smallest = _Direction(direction.places, signs * np.abs(direction.steps))
            moved[name] = smallest.moved(point[name], 2 * self.precision)
        loss = self._loss(moved)
        return 0.0 if loss is None else abs(loss - middle)

    def _loss(self, point: Arrays) -> float | None:
        try:
            (loss,) = self.primal.run([self.loss], self._fed(point))
        except Exception:  # inputs that the model does not take say nothing about its gradient
            return None
        return float(np.asarray(loss).reshape(()))

    def _fed(self, point: Arrays) -> Arrays:
        wanted = {*self.inputs, *self.weights}
        return {name: value for name, value in point.items() if name in wanted}

    def _refuse(self, disagreement: _Disagreement, gradients: Arrays, point: Arrays) -> None:
        """Raise the error, with the name alone that disagrees if all were moved at once."""
        if disagreement.where == "all together":
            for name in self.names:
                alone = self._along([name], gradients, point, disagreement.trial)
                if alone is not None and alone is not _AGREED:
                    disagreement = alone
                    break
        raise ModelError(
            f"model, gradient in {disagreement.where}",
            expected=f"{disagreement.numeric:.6g} along a random direction, by differences of the loss",
            got=f"{disagreement.analytic:.6g}, at inputs that are {disagreement.trial}",
            next="pyopnb.check_grad of each op in it; verify=False if a backward means to differ",
        )


_AGREED = _Disagreement("", "", 0.0, 0.0)


def _not_runnable(error: Exception) -> ModelError:
    return ModelError(
        "model, gradient",
        expected="nodes of onnx-ad's rules that run where the model does",
        got=sanitize(str(error), 300),
        next="pyopnb.replace(model, …) of what onnx-ad does not derive",
    )


# ---- the models -----------------------------------------------------------------------------


def _with_weights_as_inputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 4)  # from which on an initializer is a default
    types = types_of(copy.graph)
    inputs = {info.name for info in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.name in names and tensor.name not in inputs:
            copy.graph.input.add(name=tensor.name, type=types[tensor.name])
    return copy


def _values(model: ModelProto, names: Sequence[str]) -> Arrays:
    """Read initializers through a session, which knows where external data are."""
    if not names:
        return {}
    reader = ModelProto()
    reader.CopyFrom(model)
    graph = reader.graph
    types = types_of(graph)
    wanted = [tensor for tensor in model.graph.initializer if tensor.name in names]
    for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
        graph.ClearField(field)
    graph.initializer.extend(wanted)
    for number, name in enumerate(names):
        graph.node.append(NodeProto(op_type="Identity", input=[name], output=[f"value_{number}"]))
        graph.output.add(name=f"value_{number}", type=types[name])
    return dict(zip(names, map(np.array, Session(reader).run(None, {})), strict=True))


def _without_gradients(model: ModelProto, loss: str) -> ModelProto:
    """Keep the nodes that the loss is computed from."""
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    wanted = {loss}
    nodes = []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node_reads(node))
    outputs = [info for info in graph.output if info.name == loss]
    for field, values in (("node", nodes[::-1]), ("output", outputs)):
        kept = [type(value).FromString(value.SerializeToString()) for value in values]
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    return copy


# ---- the inputs -----------------------------------------------------------------------------


def _trials(
    inputs: Mapping[str, TensorType], feeds: Mapping[str, np.ndarray] | None
) -> Iterator[_Trial]:
    """Draw inputs: the user's first, then all magnitudes, then other sizes."""
    random = np.random.default_rng(1)
    if feeds is not None:
        yield _Trial("the feeds", dict(feeds), False)
    else:
        # First values for which roots and logarithms are there, too.
        yield _Trial("positive", _drawn(inputs, None, 3, "positive", random), False)
    for regime in _REGIMES:
        yield _Trial(regime, _drawn(inputs, feeds, _SIZES[0], regime, random), True)
    for size in _SIZES[1:]:
        for regime in ("order one", "positive"):
            name = f"{regime}, with free sizes of {size}"
            yield _Trial(name, _drawn(inputs, None, size, regime, random), True)


def _drawn(
    inputs: Mapping[str, TensorType],
    feeds: Mapping[str, np.ndarray] | None,
    size: int,
    regime: str,
    random: np.random.Generator,
) -> Arrays:
    """Draw floating-point values; integers are the user's, or 0 and 1, which most indices may be."""
    drawn: Arrays = {}
    for name, kind in inputs.items():
        example = None if feeds is None else feeds.get(name)
        if example is not None:
            shape = example.shape
        else:
            shape = tuple(dim if isinstance(dim, int) else size for dim in kind.shape or ())
        dtype = np.dtype(np.float32) if kind.dtype is None else np.dtype(kind.dtype.numpy)
        if dtype.kind in "iub":
            integers = random.integers(0, 2, shape).astype(dtype)
            drawn[name] = integers if example is None else example
        elif dtype.kind == "O":
            drawn[name] = np.full(shape, "1", object) if example is None else example
        else:
            drawn[name] = _values_of(regime, shape, random).astype(dtype)
    return drawn


def _values_of(regime: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    normal = random.normal(size=shape)
    if regime == "positive":
        return random.uniform(0.2, 2, shape)
    if regime == "negative":
        return -random.uniform(0.2, 2, shape)
    if regime == "mixed":
        return np.asarray(normal * 10.0 ** random.uniform(-2, 1.5, shape))
    return np.asarray(normal * {"tiny": 1e-3, "large": 30.0}.get(regime, 1.0))

"""Compare the gradients of a derived model with differences of the loss that they were derived from.

Rules of onnx-ad are not taken on trust, nor are ours. The loss is moved along random directions of what
it was derived in, at the inputs that `pyopnb.testing.verify` draws. How many there are depends on the
model alone, so that a loaded machine compares as much as an idle one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, helper

from pyopnb.diffs.tolerances import TOLERANCES
from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import make_inputs, types_of
from pyopnb.gradients.trials import example_inputs, size_trials, value_trials
from pyopnb.models.nodes import nodes_in, type_of_proto
from pyopnb.ops.messages import sanitize
from pyopnb.ops.types import TensorType
from pyopnb.runtime.one_run import lone_session
from pyopnb.runtime.session.session import Session
from pyopnb.testing.central import central_differences
from pyopnb.testing.gradients import unit
from pyopnb.testing.verify import Arrays, KernelError, Trial
from pyopnb.testing.verify.rounding import Judge

__all__ = ["GradientComparison", "GradientDisagreement", "verify_gradients"]

# Elements of an array that one direction moves.
_MAX_MOVED = 4096
# ONNX Runtime's kernels of these round what they are given in float64.
_IN_FLOAT32 = {"Erf", "Gelu"}
# Arrays that are moved at once.
_GROUP = 32

# onnx-ad writes LSTM, GRU, RNN and Attention out, so that the outputs are added up in another order.
# Measured with onnxruntime 1.32.0 on x86-64 over 312 such nodes and every second configuration of the
# survey: GRU is off by up to 8 units in the last place of the largest number, Attention by 28, the others
# by 3. Moved inputs account for nearly all of that: with 4 no right model is refused, with none 2 of 8 GRUs.
_KERNEL_ERROR = KernelError(tiny=1.0, of_largest=4.0)


@dataclass(frozen=True)
class GradientDisagreement:
    """A direction along which a gradient is not the derivative of its loss.

    Attributes
    ----------
    names : list of str
        What was moved.
    trial : str
        What was special about the inputs.
    numeric, analytic : float
        The derivative by differences of the loss, and by the gradients.
    """

    names: list[str]
    trial: str
    numeric: float
    analytic: float


@dataclass(frozen=True)
class GradientComparison:
    """What was compared, in words, and the first disagreement."""

    note: str
    disagreement: GradientDisagreement | None = None


@dataclass(frozen=True)
class _Direction:
    """Elements of an array, counted as if it were flat, and how far each is moved for a step of 1."""

    positions: np.ndarray
    steps: np.ndarray

    def moved(self, x: np.ndarray, step: float) -> np.ndarray:
        """Copy an array with the elements moved."""
        flat = x.flatten()
        # In float64, as the steps are, so that the sum is rounded once, where it is stored.
        values = flat[self.positions] + step * self.steps
        flat[self.positions] = values.astype(x.dtype)
        return flat.reshape(x.shape)

    def terms(self, gradient: np.ndarray) -> np.ndarray:
        """Return what each element adds to the derivative along the direction."""
        elements = np.ravel(gradient)[self.positions]
        return np.asarray(elements.astype(np.float64) * self.steps)


@dataclass(frozen=True)
class _Point:
    """Inputs and weights, with the loss and its gradients there."""

    trial: str
    values: dict[str, np.ndarray]
    loss: float
    gradients: dict[str, np.ndarray]


def verify_gradients(
    original: ModelProto,
    derived: ModelProto,
    gradients: Mapping[str, str],
    loss: str,
    weights: Mapping[str, np.ndarray],
    feeds: Mapping[str, np.ndarray] | None,
) -> GradientComparison:
    """Compare the gradients of a model with differences of its loss until they disagree.

    Parameters
    ----------
    original, derived : ModelProto
        Without and with the gradients.
    gradients : mapping of str to str
        The outputs that are gradients, by what they are derived in.
    loss : str
    weights : mapping of str to ndarray
        The initializers that the loss is derived in.
    feeds : mapping, optional
        An example of the user's.

    Returns
    -------
    GradientComparison

    Raises
    ------
    ModelError
        Only the derived model fails, or it computes other outputs.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Values that are moved can leave an operator's domain.
        warnings.simplefilter("ignore")
        return _Verification(original, derived, gradients, loss, weights).compare(feeds)


class _Verification:
    """Sessions of a loss and of its gradients, and the comparisons that they allow."""

    def __init__(
        self,
        original: ModelProto,
        derived: ModelProto,
        gradients: Mapping[str, str],
        loss: str,
        weights: Mapping[str, np.ndarray],
    ) -> None:
        self.gradients, self.loss, self.weights = gradients, loss, weights
        types = types_of(original.graph)
        initializers = {tensor.name for tensor in original.graph.initializer}
        self.inputs: dict[str, TensorType] = {}
        for info in original.graph.input:
            # An initializer may be an input as well, as its default.
            if info.name not in initializers:
                self.inputs[info.name] = type_of_proto(info.type)
        self.outputs = [info.name for info in original.graph.output]
        dtypes = []
        for name in [*gradients, loss]:
            element = types[name].tensor_type.elem_type
            dtypes.append(np.dtype(helper.tensor_dtype_to_np_dtype(element)))
        # The coarsest dtype decides on what differences can tell.
        dtype = max(dtypes, key=unit)
        op_types = {node.op_type for node in nodes_in(original.graph)}
        if dtype == np.float64 and not op_types.isdisjoint(_IN_FLOAT32):
            dtype = np.dtype(np.float32)
        self.precision = unit(dtype)
        self.tolerance = TOLERANCES[dtype.name].gradient
        # A longer step loses more to the third derivative, a shorter one more to rounding.
        self.step = self.precision ** (1 / 3)
        # What differences of subnormal numbers cannot tell.
        self.smallest = float(np.finfo(dtype).tiny) / self.precision
        self.outputs_are_checked = False
        self.primal = _session(original, weights)
        try:
            self.derived = _session(derived, weights)
        except Exception as error:
            # The loss alone runs, so it is the gradients.
            raise _not_runnable(error) from error
        self.judge = Judge(
            self._original_outputs, self._original_outputs, kernel_error=_KERNEL_ERROR
        )
        self.random = np.random.default_rng(0)

    def compare(self, feeds: Mapping[str, np.ndarray] | None) -> GradientComparison:
        directions = points = 0
        for point in self._points(feeds):
            if points == 0 and self._loss(point.values) != point.loss:
                return GradientComparison("not verified: the loss is another one each time")
            compared, disagreement = self._compare_at(point)
            if disagreement is not None:
                return GradientComparison("wrong", disagreement)
            directions += compared
            points += compared > 0
        if not directions:
            return GradientComparison(
                "not verified: the model takes none of the inputs that were drawn"
            )
        return GradientComparison(f"verified along {directions} directions at {points} inputs")

    def _points(self, feeds: Mapping[str, np.ndarray] | None) -> Iterator[_Point]:
        """Run the models at the example, at other sizes, then at values that are not kind."""
        # Weights often begin at zeros, where a Relu has its kink and products vanish.
        moved = {}
        for name, value in self.weights.items():
            scale = 0.1 * np.abs(value) + 0.05
            change = self.random.normal(size=value.shape) * scale
            moved[name] = (value + change).astype(value.dtype)
        sizes = list(size_trials(example_inputs(self.inputs, feeds), self.inputs))
        point = self._point(sizes[0], self.weights)
        if point is not None:
            yield point
        base = None if point is None else sizes[0].inputs
        for trial in sizes[1:]:
            # A variance of nearly zero is negative when it is moved.
            point = self._point(trial, moved) or self._point(trial, self.weights)
            if point is not None:
                base = trial.inputs if base is None else base
                yield point
        for trial in value_trials(sizes[0].inputs if base is None else base):
            point = self._point(trial, moved) or self._point(trial, self.weights)
            if point is not None:
                yield point

    def _values(self, inputs: Arrays, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = dict(weights)
        for name, array in zip(self.inputs, inputs, strict=True):
            assert array is not None  # noqa: S101  # for mypy: every input is drawn
            values[name] = array
        return values

    def _point(self, trial: Trial, weights: Mapping[str, np.ndarray]) -> _Point | None:
        """Run both models; return None where the loss alone fails or is not finite."""
        values = self._values(trial.inputs, weights)
        loss = self._loss(values)
        if loss is None or not np.isfinite(loss):
            return None
        names = list(self.gradients.values())
        if not self.outputs_are_checked:
            names += self.outputs
        try:
            results = list(map(np.asarray, self.derived.run(names, values)))
        except Exception as error:
            # The loss alone runs, so it is the gradients.
            raise _not_runnable(error) from error
        if not self.outputs_are_checked:
            self._check_outputs(trial, values, results[len(self.gradients) :])
            self.outputs_are_checked = True
        return _Point(trial.name, values, loss, dict(zip(self.gradients, results, strict=False)))

    def _original_outputs(self, *inputs: np.ndarray) -> Sequence[np.ndarray]:
        values = dict(zip([*self.inputs, *self.weights], inputs, strict=True))
        return list(map(np.asarray, self.primal.run(self.outputs, values)))

    def _check_outputs(
        self, trial: Trial, values: Mapping[str, np.ndarray], results: Sequence[np.ndarray]
    ) -> None:
        """Refuse a derived model whose own outputs are not those of the original."""
        inputs = tuple(values[name] for name in [*self.inputs, *self.weights])
        expected = self._original_outputs(*inputs)
        wrong = self.judge.wrong(Trial(trial.name, inputs), expected, results)
        # A loss that is another one each time is told later.
        if wrong is None or self._loss(values) != self._loss(values):
            return
        raise ModelError(
            f"model, output '{sanitize(self.outputs[wrong[0]])}'",
            expected="what the model computes without gradients",
            got="something else, as onnx-ad wrote its nodes out",
            next="pyopnb.replace(model, …) of LSTM, GRU, RNN or Attention nodes",
        )

    def _loss(self, values: Mapping[str, np.ndarray]) -> float | None:
        try:
            (loss,) = self.primal.run([self.loss], values)
        except Exception:
            # Inputs that the model does not take say nothing about its gradient.
            return None
        return float(loss.item())

    # ---- one point ----------------------------------------------------------------------------

    def _compare_at(self, point: _Point) -> tuple[int, GradientDisagreement | None]:
        """Compare along one direction of each group; return how many could be, and what disagrees."""
        compared = 0
        for group in self._groups(point):
            if self._agrees_quickly(group, point):
                compared += 1
                continue
            disagreement = self._carefully_compared(group, point)
            if disagreement is None:
                # A kink, or nothing to move.
                continue
            compared += 1
            # Rounding can mislead once: a wrong gradient is wrong along another direction, too.
            if disagreement is not _AGREED and self._is_wrong(group, point):
                return compared, self._narrowed(disagreement, point)
        return compared, None

    def _groups(self, point: _Point) -> Iterator[list[str]]:
        """Put gradients of like size together: the small would not show beside the large."""
        sizes = {}
        for name, gradient in point.gradients.items():
            if gradient.size:
                norm = float(np.linalg.norm(gradient.astype(np.float64)))
                size = norm * float(np.abs(point.values[name]).max(initial=0))
                # NaN has no place in an order, and is wrong in any group.
                sizes[name] = math.inf if math.isnan(size) else size
        names = sorted(sizes, key=sizes.__getitem__)
        # What no difference can tell from zero makes one group, however many layers it is of.
        invisible = self.tolerance * 1e-3 * abs(point.loss)
        start = sum(size < invisible for size in sizes.values())
        if start:
            yield names[:start]
        for first in range(start, len(names), _GROUP):
            yield names[first : first + _GROUP]

    def _agrees_quickly(self, group: Sequence[str], point: _Point) -> bool:
        """Compare with one difference: most agree, and extrapolation costs ten times as much."""
        directions = self._directions(group, point)
        ahead = self._moved_loss(point, directions, self.step)
        behind = self._moved_loss(point, directions, -self.step)
        if ahead is None or behind is None:
            return False
        numeric = (ahead - behind) / (2 * self.step)
        analytic, scale = self._along(directions, point, numeric)
        return bool(abs(analytic - numeric) <= self.tolerance * scale)

    def _carefully_compared(
        self, group: Sequence[str], point: _Point
    ) -> GradientDisagreement | None:
        """Compare along a random direction: `_AGREED`, a disagreement, or None at a kink."""
        directions = self._directions(group, point)
        # A sum of many terms is rounded by more than its own last bit: by what the smallest moves
        # of its inputs change. This offset makes the estimate of the noise as large as that.
        rounding = max(self._jitter(directions, point) for _ in range(2))
        offset = rounding / self.precision

        def moved_loss(step: np.ndarray) -> np.ndarray:
            loss = self._moved_loss(point, directions, float(step[0]))
            # NaN counts as a kink, as differences can tell nothing there.
            if loss is None:
                return np.array([np.nan])
            return np.array([loss + offset])

        differences = central_differences(moved_loss, np.zeros(1), [(0,)], self.precision)
        if differences.kinks[0]:
            return None
        numeric = float(differences.values[0])
        analytic, scale = self._along(directions, point, numeric)
        allowed = self.tolerance * scale + 4 * float(differences.errors[0])
        if abs(analytic - numeric) <= allowed:
            return _AGREED
        return GradientDisagreement(list(group), point.trial, numeric, analytic)

    def _is_wrong(self, group: Sequence[str], point: _Point) -> bool:
        return self._carefully_compared(group, point) not in (None, _AGREED)

    def _narrowed(self, disagreement: GradientDisagreement, point: _Point) -> GradientDisagreement:
        """Return the first name of a group that disagrees alone."""
        for name in disagreement.names:
            alone = self._carefully_compared([name], point)
            if alone is not None and alone is not _AGREED:
                return alone
        return disagreement

    def _directions(self, group: Sequence[str], point: _Point) -> dict[str, _Direction]:
        return {name: self._direction(point.values[name]) for name in group}

    def _direction(self, x: np.ndarray) -> _Direction:
        positions = np.arange(x.size)
        if x.size > _MAX_MOVED:
            positions = self.random.choice(x.size, _MAX_MOVED, replace=False)
        elements = np.ravel(x)[positions]
        magnitude = np.abs(elements.astype(np.float64))
        # A step in proportion to the element, but not of next to nothing for one that is nearly zero.
        typical = float(np.sqrt(np.mean(magnitude * magnitude)))
        least = typical / 8 or 1.0
        signs = self.random.integers(0, 2, positions.size) * 2.0 - 1
        # Two elements on the lower bound of a Clip and one on the upper, which is twice as large, would
        # make up for each other: there would be no kink to see, whatever the signs are.
        shares = self.random.uniform(0.5, 1.0, positions.size)
        return _Direction(positions, signs * shares * np.maximum(magnitude, least))

    def _along(
        self, directions: Mapping[str, _Direction], point: _Point, numeric: float
    ) -> tuple[float, float]:
        """Return the derivative by the gradients, and the size that tolerances are relative to."""
        total = squares = 0.0
        for name, direction in directions.items():
            terms = direction.terms(point.gradients[name])
            total += float(terms.sum())
            squares += float(np.dot(terms, terms))
        # A gradient that is zero but for rounding has no size of its own.
        scale = max(abs(numeric), np.sqrt(squares), 1e-3 * abs(point.loss), self.smallest)
        return total, float(scale)

    def _moved_loss(
        self, point: _Point, directions: Mapping[str, _Direction], step: float
    ) -> float | None:
        moved = dict(point.values)
        for name, direction in directions.items():
            moved[name] = direction.moved(point.values[name], step)
        return self._loss(moved)

    def _jitter(self, directions: Mapping[str, _Direction], point: _Point) -> float:
        """Return by how much moves of the last bit change the loss."""
        smallest = {}
        for name, direction in directions.items():
            signs = self.random.choice([-1.0, 1.0], direction.positions.shape)
            smallest[name] = _Direction(direction.positions, signs * np.abs(direction.steps))
        loss = self._moved_loss(point, smallest, 2 * self.precision)
        if loss is None:
            return 0.0
        return abs(loss - point.loss)


_AGREED = GradientDisagreement([], "", 0.0, 0.0)


def _not_runnable(error: Exception) -> ModelError:
    return ModelError(
        "model, gradient",
        expected="nodes of onnx-ad's rules that run where the model does",
        got=sanitize(str(error), 300),
        next="pyopnb.replace(model, …) of what onnx-ad does not derive",
    )


# ---- the sessions -----------------------------------------------------------------------------


def _session(model: ModelProto, names: Container[str]) -> Session:
    """Make a session that takes weights as inputs."""
    movable = ModelProto()
    movable.CopyFrom(model)
    # From IR version 4 on, an initializer is the default of an input.
    movable.ir_version = max(movable.ir_version, 4)
    make_inputs(movable.graph, names)
    return lone_session(movable, fill=True)

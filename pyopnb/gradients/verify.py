"""Compare the gradients of a derived model with finite differences of its loss.

Neither onnx-ad's rules nor ours are taken on trust. Inputs and weights move along random
directions, from values that `pyopnb.testing.verification` draws. The number of comparisons depends
on the model alone, so that a loaded machine compares as much as an idle one.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from pyopnb.diffs.tolerances import TOLERANCES
from pyopnb.engine.models.nodes import nodes_in, type_of_proto
from pyopnb.engine.ops.messages import sanitize
from pyopnb.engine.ops.types import TensorType
from pyopnb.engine.runtime.one_run import Runner, lone_runner
from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import make_inputs, types_of
from pyopnb.gradients.trials import example_inputs, trials_of_sizes, trials_of_values
from pyopnb.testing.central import central_differences
from pyopnb.testing.gradients import unit
from pyopnb.testing.verification import KernelError, Trial
from pyopnb.testing.verification.rounding import Judge

__all__ = ["verify_gradients"]

# Elements of an array that one direction moves.
_MAX_MOVED = 4096
# The ONNX Runtime kernels of these operators round float64 inputs to float32.
_IN_FLOAT32 = {"Erf", "Gelu"}
# Arrays that are moved at once.
_GROUP = 32

# onnx-ad writes LSTM, GRU, RNN and Attention out, so that the outputs are added up in another
# order. Measured with onnxruntime 1.32.0 on x86-64 over 312 such nodes and every second
# configuration of the survey: GRU is off by up to 8 units in the last place of the largest number,
# Attention by 28, the others by 3. Moved inputs account for nearly all of that: with 4 no right
# model is refused, with none 2 of 8 GRUs.
_KERNEL_ERROR = KernelError(tiny=1.0, of_largest=4.0)


def verify_gradients(
    original: ModelProto,
    derived: ModelProto,
    gradients: Mapping[str, str],
    loss: str,
    weights: Mapping[str, np.ndarray],
    feeds: Mapping[str, np.ndarray] | None,
) -> str:
    """Compare the gradients of a model with differences of its loss, and say what was compared.

    Parameters
    ----------
    original, derived : ModelProto
        Without and with the gradients.
    gradients : mapping of str to str
        The outputs that are gradients, by the name of the derived input or weight.
    weights : mapping of str to ndarray
        The initializers that the loss is derived in.
    feeds : mapping, optional
        An example of the user's.

    Raises
    ------
    ModelError
        A gradient is wrong, only the derived model fails, or it computes other outputs.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Values that are moved can leave an operator's domain.
        warnings.simplefilter("ignore")
        return _Verification(original, derived, gradients, loss, weights).compare(feeds)


@dataclass(frozen=True)
class _Point:
    """Inputs and weights, with the loss there, and the elements that it was derived in.

    The elements of all arrays are in one vector, as a call for each of many weights takes long.

    Attributes
    ----------
    trial : str
        What is special about the inputs.
    elements : dict of str to index
        By name the elements of an array that are in the vectors: all, or some of many.
    starts, lengths : ndarray
        Of the part of each name in the vectors.
    x, gradient : ndarray
        The elements, and what the gradients say of them.
    """

    trial: str
    values: dict[str, np.ndarray]
    loss: float
    elements: dict[str, Any]
    starts: np.ndarray
    lengths: np.ndarray
    x: np.ndarray
    gradient: np.ndarray

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return how far a step of 1 moves each element: by its own size.

        An element that is small beside the others of its array moves by an eighth of their typical
        size.
        """
        magnitudes = np.abs(self.x)
        magnitudes[~np.isfinite(magnitudes)] = 0.0
        squares = np.add.reduceat(magnitudes**2, self.starts)
        typical = np.sqrt(squares / self.lengths)
        # Where all elements of an array are zero, each is moved as if it were 1.
        least = np.where(typical > 0, typical / 8, 1.0)
        return np.asarray(np.maximum(magnitudes, np.repeat(least, self.lengths)))

    @cached_property
    def norms(self) -> dict[str, float]:
        """Return the norm of each gradient along such steps; infinite where it has NaN."""
        terms = self.gradient * self.sizes
        norms = np.sqrt(np.add.reduceat(terms**2, self.starts))
        norms[np.isnan(norms)] = np.inf
        return dict(zip(self.elements, norms.tolist(), strict=True))

    def moved(self, names: Collection[str], steps: np.ndarray) -> dict[str, np.ndarray]:
        """Return the inputs and weights with some of them moved."""
        # In float64, so that the sum is rounded only once, when it is stored.
        x = self.x + steps
        values = dict(self.values)
        starts = dict(zip(self.elements, self.starts.tolist(), strict=True))
        for name in names:
            array = values[name]
            elements = self.elements[name]
            moved = array.flatten()
            start = starts[name]
            end = start + moved[elements].size
            moved[elements] = x[start:end]
            values[name] = moved.reshape(array.shape)
        return values


class _Verification:
    """A loss and its gradients, and the comparisons that they allow."""

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
        # The coarsest dtype decides how much differences can tell.
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
        self.random = np.random.default_rng(0)
        self.run_original = _runner(original, weights)
        try:
            self.run_derived = _runner(derived, weights)
        except Exception as error:
            # The loss alone runs, so it is the gradients.
            raise _not_runnable(error) from error

    def compare(self, feeds: Mapping[str, np.ndarray] | None) -> str:
        directions = points = 0
        for point in self._points(feeds):
            if points == 0 and not self._is_repeatable(point):
                return "not verified: the loss is another one each time"
            compared = sum(self._could_compare(group, point) for group in self._groups(point))
            directions += compared
            points += compared > 0
        if not directions:
            return "not verified: the model takes none of the inputs that were drawn"
        return f"verified along {directions} directions at {points} inputs"

    def _points(self, feeds: Mapping[str, np.ndarray] | None) -> Iterator[_Point]:
        """Run the models at the example, at other sizes, then at values that are not kind."""
        # Weights often begin at zeros, where a Relu has its kink and products vanish.
        moved = {}
        for name, value in self.weights.items():
            scale = 0.1 * np.abs(value) + 0.05
            change = self.random.normal(size=value.shape) * scale
            moved[name] = (value + change).astype(value.dtype)
        example, *sizes = trials_of_sizes(example_inputs(self.inputs, feeds), self.inputs)
        point = self._point(example, self.weights)
        accepted = None
        if point is not None:
            accepted = example.inputs
            yield point
        for trial in sizes:
            # A variance of nearly zero is negative when it is moved.
            point = self._point(trial, moved) or self._point(trial, self.weights)
            if point is not None:
                accepted = accepted or trial.inputs
                yield point
        for trial in trials_of_values(accepted or example.inputs):
            point = self._point(trial, moved) or self._point(trial, self.weights)
            if point is not None:
                yield point

    def _point(self, trial: Trial, weights: Mapping[str, np.ndarray]) -> _Point | None:
        """Run the derived model; return None where the loss alone fails or is not finite."""
        values = dict(weights)
        for name, array in zip(self.inputs, trial.inputs, strict=True):
            assert array is not None  # noqa: S101  # for mypy: every input is drawn
            values[name] = array
        try:
            names = [self.loss, *self.gradients.values()]
            loss, *gradients = self.run_derived(names, values)
        except Exception as error:
            if not np.isfinite(self._loss(values)):
                return None
            # The loss alone runs, so it is the gradients.
            raise _not_runnable(error) from error
        value = float(np.asarray(loss).item())
        if not np.isfinite(value):
            # The derived model may have lost what the model itself has.
            value = self._loss(values)
        if not np.isfinite(value):
            return None
        return self._packed(trial.name, values, value, gradients)

    def _packed(
        self,
        trial: str,
        values: dict[str, np.ndarray],
        loss: float,
        gradients: Sequence[np.ndarray],
    ) -> _Point:
        elements: dict[str, Any] = {}
        x = [np.empty(0)]
        slopes = [np.empty(0)]
        for name, gradient in zip(self.gradients, gradients, strict=True):
            array = values[name]
            if array.size > _MAX_MOVED:
                elements[name] = self.random.choice(array.size, _MAX_MOVED, replace=False)
            elif array.size:
                elements[name] = slice(None)
            else:
                continue
            flat = array.ravel()
            x.append(flat[elements[name]])
            flat = gradient.ravel()
            slopes.append(flat[elements[name]])
        lengths = np.array([part.size for part in x])
        starts = np.cumsum(lengths)[:-1]
        vector = np.concatenate(x, dtype=np.float64)
        gradient = np.concatenate(slopes, dtype=np.float64)
        return _Point(trial, values, loss, elements, starts, lengths[1:], vector, gradient)

    def _is_repeatable(self, point: _Point) -> bool:
        """Tell whether the loss is the same again; refuse a derived model with other outputs."""
        names = [*self.inputs, *self.weights]

        def outputs(*inputs: np.ndarray) -> list[np.ndarray]:
            values = dict(zip(names, inputs, strict=True))
            results = self.run_original(self.outputs, values)
            return list(map(np.asarray, results))

        inputs = tuple(point.values[name] for name in names)
        expected = outputs(*inputs)
        again = outputs(*inputs)
        position = self.outputs.index(self.loss)
        if not np.array_equal(expected[position], again[position]):
            return False
        results = self.run_derived(self.outputs, point.values)
        arrays = list(map(np.asarray, results))
        judge = Judge(outputs, outputs, kernel_error=_KERNEL_ERROR)
        trial = Trial(point.trial, inputs)
        wrong = judge.wrong(trial, expected, arrays)
        if wrong is None:
            return True
        raise ModelError(
            f"model, output '{sanitize(self.outputs[wrong[0]])}'",
            expected="the result of the model without gradients",
            got="another result after onnx-ad expanded its nodes",
            next="pyopnb.replace(model, …) of LSTM, GRU, RNN or Attention nodes",
        )

    def _loss(self, values: Mapping[str, np.ndarray]) -> float:
        """Run the model itself; return NaN where it raises."""
        try:
            (loss,) = self.run_original([self.loss], values)
        except Exception:
            # Inputs that the model does not take say nothing about its gradient.
            return np.nan
        return float(np.asarray(loss).item())

    # ---- one point ----------------------------------------------------------------------------

    def _could_compare(self, group: Sequence[str], point: _Point) -> bool:
        """Compare a group of gradients along a random direction; tell whether that was possible."""
        if self._agrees_quickly(group, point):
            return True
        is_smooth, wrong = self._compare_carefully(group, point)
        # Rounding can mislead once: a wrong gradient is also wrong along another direction.
        if wrong and self._compare_carefully(group, point)[1]:
            alone = (self._compare_carefully([name], point)[1] for name in group)
            raise next(filter(None, alone), wrong)
        return is_smooth

    def _groups(self, point: _Point) -> Iterator[list[str]]:
        """Group gradients of similar size, as a small one would not show beside a large one."""
        sizes = point.norms
        names = sorted(sizes, key=sizes.__getitem__)
        # Gradients that no difference can tell from zero make one group, across layers.
        invisible = self.tolerance * 1e-3 * abs(point.loss)
        start = sum(size < invisible for size in sizes.values())
        if start:
            yield names[:start]
        for first in range(start, len(names), _GROUP):
            yield names[first : first + _GROUP]

    def _direction(self, group: Sequence[str], point: _Point) -> np.ndarray:
        """Draw how far a step of 1 moves each element; those outside of the group stay."""
        # Two elements on the lower bound of a Clip and one on the upper, which is twice as large,
        # would make up for each other if all moved by their size: there would be no kink to see,
        # with any signs.
        shares = self.random.uniform(-0.5, 0.5, point.x.size)
        shares += np.copysign(0.5, shares)
        is_chosen = [name in group for name in point.elements]
        chosen = np.repeat(is_chosen, point.lengths)
        return np.where(chosen, shares * point.sizes, 0.0)

    def _agrees_quickly(self, group: Sequence[str], point: _Point) -> bool:
        """Compare with one difference: most agree, and extrapolation costs ten times as much."""
        direction = self._direction(group, point)
        steps = self.step * direction
        ahead = self._loss(point.moved(group, steps))
        behind = self._loss(point.moved(group, -steps))
        numeric = (ahead - behind) / (2 * self.step)
        analytic, scale = self._along(direction, point, numeric)
        return bool(abs(analytic - numeric) <= self.tolerance * scale)

    def _compare_carefully(
        self, group: Sequence[str], point: _Point
    ) -> tuple[bool, ModelError | None]:
        """Compare along a random direction: tell if it has no kink, and what is wrong there."""
        direction = self._direction(group, point)
        # A sum of many terms is rounded by more than its own last bit: as much as the smallest
        # moves of its inputs change. This offset makes the estimate of the noise as large.
        rounding = max(self._jitter(group, direction, point) for _ in range(2))
        offset = rounding / self.precision

        def move(step: float) -> tuple[np.ndarray, float]:
            loss = self._loss(point.moved(group, step * direction))
            # NaN counts as a kink, as differences can tell nothing there.
            return np.array([loss + offset]), step

        differences = central_differences([move], self.precision)
        if differences.kinks[0]:
            return False, None
        numeric = float(differences.values[0])
        analytic, scale = self._along(direction, point, numeric)
        allowed = self.tolerance * scale + 4 * float(differences.errors[0])
        if abs(analytic - numeric) <= allowed:
            return True, None
        where = "all together" if len(group) > 1 else f"'{sanitize(group[0])}'"
        error = ModelError(
            f"model, gradient in {where}",
            expected=f"{numeric:.6g} along a random direction, by differences of the loss",
            got=f"{analytic:.6g}, with {point.trial}",
            next=(
                "pyopnb.check_grad of each op in it; verify=False if a backward differs on purpose"
            ),
        )
        return True, error

    def _along(self, direction: np.ndarray, point: _Point, numeric: float) -> tuple[float, float]:
        """Return the derivative by the gradients, and the size that tolerances are relative to."""
        moved = direction != 0
        terms = point.gradient[moved] * direction[moved]
        # Without BLAS, whose threads wake up for so many terms.
        norm = np.sqrt(np.sum(terms**2))
        # A gradient that is zero except for rounding has no meaningful size.
        scale = max(abs(numeric), norm, 1e-3 * abs(point.loss), self.smallest)
        return float(terms.sum()), float(scale)

    def _jitter(self, group: Sequence[str], direction: np.ndarray, point: _Point) -> float:
        """Return by how much moves of the last bit change the loss."""
        signs = self.random.choice([-1.0, 1.0], direction.size)
        smallest = 2 * self.precision * signs * np.abs(direction)
        loss = self._loss(point.moved(group, smallest))
        unmoved = self._loss(point.values)
        return float(np.nan_to_num(abs(loss - unmoved)))


def _not_runnable(error: Exception) -> ModelError:
    return ModelError(
        "model, gradient",
        expected="a gradient whose nodes run in ONNX Runtime",
        got=sanitize(str(error), 300),
        next="pyopnb.replace(model, …) for operators that onnx-ad cannot differentiate",
    )


def _runner(model: ModelProto, names: Mapping[str, np.ndarray]) -> Runner:
    """Make a function that runs a model with weights as inputs."""
    movable = ModelProto()
    movable.CopyFrom(model)
    # From IR version 4 on, an initializer is the default of an input.
    movable.ir_version = max(movable.ir_version, 4)
    make_inputs(movable.graph, names)
    return lone_runner(movable, fill=True)

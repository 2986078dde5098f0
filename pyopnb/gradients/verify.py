"""Compare the gradients of a derived model with differences of its loss.

Neither the rules of onnx-ad nor ours are taken on trust. Inputs and weights move along random
directions, from values that `pyopnb.testing.verification` draws. The number of comparisons depends
on the model alone, so that a loaded machine compares as much as an idle one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import repeat

import numpy as np
from onnx import ModelProto, helper

from pyopnb.common import sanitize
from pyopnb.diffs import array_diffs
from pyopnb.engine import ModelSource, TensorType, one_run, protos, to_model
from pyopnb.errors import ModelError
from pyopnb.gradients.ranks import make_inputs, types_of
from pyopnb.testing import Draws, GradientComparison, KernelError, Trial, verify

__all__ = ["verify_gradients"]

# The ONNX Runtime kernels of these operators round float64 inputs to float32.
_IN_FLOAT32 = {"Erf", "Gelu"}
# The size of a free dimension, where the user gives no example.
_SIZE = 3


def verify_gradients(
    original: ModelSource,
    derived: ModelProto,
    gradients: Mapping[str, str],
    loss: str,
    weights: Mapping[str, np.ndarray],
    feeds: Mapping[str, np.ndarray] | None,
) -> str:
    """Compare the gradients of a model with differences of its loss, and say what was compared.

    Parameters
    ----------
    original : ModelSource
        Without the gradients; its tensors have types.
    derived : ModelProto
        With the gradients.
    gradients : mapping of str to str
        The outputs that are gradients, by the name of the derived input or weight.
    loss : str
        The output that was derived.
    weights : mapping of str to ndarray
        The initializers that the loss is derived in.
    feeds : mapping, optional
        An example from the user.

    Raises
    ------
    ModelError
        A gradient is wrong, only the derived model fails, or it computes other outputs.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Values that are moved can leave an operator's domain.
        warnings.simplefilter("ignore")
        return _Verification(original, derived, gradients, loss, weights).compare(feeds)


class _Verification:
    """A loss and its gradients, as functions of arrays."""

    def __init__(
        self,
        original: ModelSource,
        derived: ModelProto,
        gradients: Mapping[str, str],
        loss: str,
        weights: Mapping[str, np.ndarray],
    ) -> None:
        self._original, self._loss, self._weights = original, loss, weights
        self._gradients = gradients
        self._graph = original.proto.graph
        # onnx-ad writes some nodes out; of the others, the loss is the model's own.
        count = len(self._graph.node)
        self._is_rewritten = list(derived.graph.node[:count]) != list(self._graph.node)
        try:
            self._run = _runner(derived, weights)
        except Exception as error:
            # The original raises its own error, if it does not run either.
            _runner(to_model(original), weights)
            raise _not_runnable(error) from error

    @cached_property
    def _run_original(self) -> one_run.Runner:
        return _runner(to_model(self._original), self._weights)

    def compare(self, feeds: Mapping[str, np.ndarray] | None) -> str:
        types = types_of(self._graph)
        dtypes = []
        for name in [*self._gradients, self._loss]:
            element = types[name].tensor_type.elem_type
            dtypes.append(np.dtype(helper.tensor_dtype_to_np_dtype(element)))
        if any(node.op_type in _IN_FLOAT32 for node in protos.nodes_in(self._graph)):
            dtypes.append(np.dtype(np.float32))
        initializers = {tensor.name for tensor in self._graph.initializer}
        inputs: dict[str, TensorType] = {}
        dims = []
        for info in self._graph.input:
            # An initializer may also be an input, as its default.
            if info.name not in initializers:
                inputs[info.name] = protos.type_of_proto(info.type)
                axes = enumerate(inputs[info.name].shape or ())
                dims.append([f"{info.name}_{axis}" if dim is None else dim for axis, dim in axes])
        comparison = GradientComparison(self._evaluate, list(self._gradients), dtypes)
        note = comparison.run(_example(inputs, feeds), dims, self._weights)
        wrong = comparison.wrong
        if wrong is not None:
            where = f"'{wrong.names[0]}'" if len(wrong.names) == 1 else "all together"
            advice = "pyopnb.check_grad of each op in it"
            raise ModelError(
                f"model, gradient in {where}",
                expected=wrong.expected,
                got=wrong.got,
                next=f"{advice}; verify=False if a backward differs on purpose",
            )
        if self._is_rewritten and comparison.first is not None:
            self._check_outputs(comparison.first)
        return note

    def _evaluate(self, values: Mapping[str, np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Run the derived model; the loss is NaN where the model itself fails."""
        try:
            loss, *gradients = self._run([self._loss, *self._gradients.values()], values)
        except Exception as error:
            if not np.isfinite(self._original_loss(values)):
                return np.nan, []
            # The loss alone runs, so it is the gradients.
            raise _not_runnable(error) from error
        value = float(np.asarray(loss).item())
        if self._is_rewritten and not np.isfinite(value):
            # The derived model may have lost declarations of the model itself.
            value = self._original_loss(values)
        return value, gradients

    def _original_loss(self, values: Mapping[str, np.ndarray]) -> float:
        """Run the model itself; return NaN where it raises."""
        try:
            (loss,) = self._run_original([self._loss], values)
        except Exception:
            # Inputs that the model does not take say nothing about its gradient.
            return np.nan
        return float(np.asarray(loss).item())

    def _check_outputs(self, values: Mapping[str, np.ndarray]) -> None:
        """Refuse a derived model with other outputs."""
        outputs = [info.name for info in self._graph.output]

        def caller(run: one_run.Runner) -> Callable[..., list[np.ndarray]]:
            def call(*arrays: np.ndarray) -> list[np.ndarray]:
                results = run(outputs, dict(zip(values, arrays, strict=True)))
                return list(map(np.asarray, results))

            return call

        found = verify(
            caller(self._run_original),
            caller(self._run),
            [Trial("the example", tuple(values.values()))],
            kernel_error=KernelError.ONNX_RUNTIME,
        )
        if not found.ok:
            raise ModelError(
                "model",
                expected="the results of the model without gradients",
                got=f"others after onnx-ad expanded its nodes, {found.disagreement}",
                next="pyopnb.replace(model, …) of LSTM, GRU, RNN or Attention nodes",
            )


def _example(
    types: Mapping[str, TensorType], feeds: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """Return the user's inputs, or positive ones, for which roots and logarithms exist."""
    draws = Draws(repeat(_SIZE))
    drawn = {}
    for name, tensor_type in types.items():
        array = (feeds or {}).get(name)
        if array is None:
            array = draws.array(tensor_type.like(shape=tensor_type.shape or ()))
            if array_diffs.is_float(array):
                array = (np.abs(array) + 0.2).astype(array.dtype)
        drawn[name] = array
    return drawn


def _not_runnable(error: Exception) -> ModelError:
    return ModelError(
        "model, gradient",
        expected="a gradient whose nodes run in ONNX Runtime",
        got=sanitize(str(error), 300),
        next="pyopnb.replace(model, …) for operators that onnx-ad cannot differentiate",
    )


def _runner(model: ModelProto, names: Mapping[str, np.ndarray]) -> one_run.Runner:
    """Make a function that runs a model with weights as inputs."""
    movable = ModelProto()
    movable.CopyFrom(model)
    # From IR version 4 on, an initializer is the default of an input.
    movable.ir_version = max(movable.ir_version, 4)
    make_inputs(movable.graph, names)
    return one_run.lone_runner(movable, fill=True)

"""Compare an exported model with its module, by the one verification of `pyopnb.testing`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnx import ModelProto
from onnxruntime import SessionOptions
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pyopnb.engine import Session
from pyopnb.errors import ModelError
from pyopnb.testing import KernelError, Trial, mild_trials, verify
from pyopnb.torch.arrays import to_array
from pyopnb.torch.example import Example, check_runs, is_tensor_or_number, kept_attributes
from pyopnb.torch.foreign import CheckedSizes
from pyopnb.torch.sizes import OpenSizes
from pyopnb.torch.stand_in import OtherResults

__all__ = ["CallLimit", "Fault", "Function", "ModuleComparison", "agree", "arrays_of"]

Function = Callable[..., Sequence[np.ndarray]]

# A float64 run of the module takes twice its memory. Without it, the yardstick for rounding is how
# far the module's own results move with its inputs.
_MOST_WEIGHTS = 50_000_000

# Weights are trained for numbers like the example's. Integers are indices and sizes as a rule, and
# some of the torch kernels read beyond their tensors for one that is too large.
_REACH, _INTEGER_REACH = 100.0, 2.0

_EXAMPLE = "the example"
_SIZES = "sizes "
_ONE = "one "
# Each takes three runs.
_ONE_INPUTS = 4


@dataclass(frozen=True)
class Fault:
    """The fault of an exported model.

    Attributes
    ----------
    text : str
        The first element that differs, or the exception of the runtime.
    error : Exception or None
        The latter.
    at_other_sizes : bool
        Whether the model is right at the sizes of the example.
    """

    text: str
    error: Exception | None = None
    at_other_sizes: bool = False


class CallLimit(TorchDispatchMode):  # type: ignore[misc]
    """Ends a run that calls far more ops than the first one did.

    A loop whose end depends on values may never end, and a comparison tries values that the user
    has not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._limit: int | None = None
        self._count = 0

    def __enter__(self) -> Any:
        self._count = 0
        return super().__enter__()

    def __exit__(self, *failure: Any) -> Any:
        if self._limit is None:
            self._limit = 1000 + 100 * self._count
        return super().__exit__(*failure)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._count += 1
        if self._limit is not None and self._count > self._limit:
            raise RuntimeError(f"forward called more than {self._limit} ops")
        return func(*args, **(kwargs or {}))


class ModuleComparison:
    """A module, with which its exported models are compared.

    Parameters
    ----------
    foreign : bool
        Whether the module runs code outside torch. Such code is neither run on values that the user
        has not given, nor in float64.
    limited : bool
        Whether the module may have loops that depend on values, and never end for some.
    """

    def __init__(self, example: Example, *, foreign: bool = False, limited: bool = False) -> None:
        self._limit = CallLimit() if limited else nullcontext()
        self._example = example
        self._foreign = foreign
        self._trial = Trial("", ())
        self._runs_of_torch = 0
        self._repeats = False
        self.contradicted: set[tuple[int, int]] = set()
        """The dimensions of outputs that the model of the last comparison declares wrongly."""

    # ---- comparisons -----------------------------------------------------------------------------

    def feeds(self, model: ModelProto) -> dict[str, np.ndarray]:
        """Name the example's arrays as the inputs of a model."""
        names = [info.name for info in model.graph.input]
        return dict(zip(names, self._example.arrays(len(names)), strict=True))

    def original(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run the module in torch, and return the tensors and numbers among its results."""
        if self._foreign and not _equal(arrays, self._trial.inputs):
            raise ValueError("code outside torch runs on the values of the example alone")
        with kept_attributes(self._example.module):
            results = self._call(self._example.module, arrays)
        is_masked = self._trial.is_mask and _equal(arrays, self._trial.inputs)
        if is_masked and any(
            np.isnan(result).any() for result in results if result.dtype.kind == "f"
        ):
            # The torch fast path of attention has NaN where nothing is left, and its slow path 0.
            raise ValueError("torch itself has no numbers for such a mask")
        self._runs_of_torch += 1
        return results

    def _exact(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Run the module with weights in float64, which leaves the module itself as it is."""
        module = self._example.module
        weights = dict(module.named_parameters()) | dict(module.named_buffers())
        if sum(weight.numel() for weight in weights.values()) > _MOST_WEIGHTS:
            raise MemoryError("too many weights for a second copy of them")
        for name, weight in weights.items():
            if weight.is_floating_point():
                weights[name] = weight.double()

        def call(*args: Any, **kwargs: Any) -> Any:
            return torch.func.functional_call(module, weights, args, kwargs)

        with kept_attributes(module):
            return self._call(call, arrays)

    def _call(self, function: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        args, kwargs = self._example.with_arrays(arrays)
        with torch.no_grad(), self._limit, CheckedSizes(), self._kernels():
            return arrays_of(function(*args, **kwargs))

    @contextmanager
    def _kernels(self) -> Iterator[None]:
        """Leave out the kernels of torch that give inf or NaN by the number of elements.

        They are gelu and attention (torch 2.13).
        """
        if not self._trial.name.startswith(_ONE):
            yield
            return
        onednn = torch.backends.mkldnn.flags(enabled=False, allow_tf32=None)
        with onednn, sdpa_kernel(SDPBackend.MATH):
            yield

    # ---- comparisons -----------------------------------------------------------------------------

    def fault(self, model: ModelProto, *, sizes: bool = True) -> Fault | None:
        """Compare a model with the module on the example, on unkind values, and at other sizes.

        Parameters
        ----------
        sizes : bool
            Try other sizes of the free dimensions.

        Returns
        -------
        Fault or None
            None where all results agree.

        Raises
        ------
        ModelError
            The module itself does not run on the example.
        """
        try:
            session = _session(model)
        except Exception as error:  # exceptions of ONNX Runtime have no common base class
            check_runs(self._example)
            return _of_error(error)
        example = self._example.arrays(len(model.graph.input))
        self._check_repeats(example)
        trials, converted = self._value_trials(example), _runner(session)
        if sizes:
            open_sizes = self.open_sizes(model)
            # Values come first: a difference at the example's own sizes is an op's fault.
            trials = itertools.chain(trials, self._size_trials(open_sizes))
            converted = self._noting_dimensions(converted, model, open_sizes)
        return self._first_fault(converted, trials)

    def _noting_dimensions(self, run: Function, model: ModelProto, sizes: OpenSizes) -> Function:
        """Note the declared output dimensions that the results at other sizes contradict."""
        self.contradicted = set()
        declared = []
        for info in model.graph.output:
            dims = info.type.tensor_type.shape.dim
            declared.append([dim.dim_param or dim.dim_value for dim in dims])

        def converted(*arrays: np.ndarray) -> Sequence[np.ndarray]:
            results = run(*arrays)
            if self._trial.name.startswith(_SIZES):
                self.contradicted |= sizes.contradicted(declared, arrays, results)
            return results

        return converted

    def open_sizes(self, model: ModelProto) -> OpenSizes:
        """Read the free dimensions of a model."""
        example = self._example.arrays(len(model.graph.input))
        return OpenSizes.of_model(model, example, self._example.requests)

    def fault_of_steps(self, converted: Function, count: int) -> Fault | None:
        """Compare the module with another way to run it in torch, on the example."""
        return self._first_fault(converted, iter([Trial(_EXAMPLE, self._example.arrays(count))]))

    def wrong_sizes(self, model: ModelProto) -> dict[str, str]:
        """Find the free dimensions at whose other sizes a model is wrong.

        Returns
        -------
        dict of str to str
            The faults, by name. Sizes that torch itself does not take are none of them.
        """
        converted = _runner(_session(model))
        open_sizes = self.open_sizes(model)
        faults = {}
        for symbol in open_sizes.example:
            fault = self._first_fault(converted, self._resized(open_sizes, [symbol]))
            if fault is not None:
                faults[symbol] = fault.text
        if faults:
            return faults
        # They may be wrong together only.
        fault = self._first_fault(converted, self._size_trials(open_sizes))
        if fault is None:
            return {}
        return dict.fromkeys(open_sizes.example, fault.text)

    def _first_fault(self, converted: Function, trials: Iterator[Trial]) -> Fault | None:
        verification = verify(
            self.original,
            converted,
            self._noted(trials),
            exact=None if self._foreign else self._exact,
            kernel_error=KernelError.FOREIGN if self._foreign else KernelError.TORCH,
        )
        # A trial that torch does not take is left out; the example must not be one of these.
        if _EXAMPLE in verification.left_out:
            check_runs(self._example)
        if verification.disagreement is not None:
            name = verification.disagreement.trial.name
            return Fault(str(verification.disagreement), None, name.startswith(_SIZES))
        for trial, error in verification.errors:
            name = trial.name
            if name == _EXAMPLE:
                return _of_error(error)
            # A model that raises on unkind values gives no wrong number, nor does one at a
            # size where torch returns another rank, as torch.cov does of one row, or fewer results.
            if not name.startswith(_SIZES) or isinstance(error, OtherResults):
                continue
            if not self._returns_others(trial):
                text = f"with {name}: {type(error).__name__}: {error}"
                return Fault(text, error, at_other_sizes=True)
        return None

    def _check_repeats(self, example: tuple[np.ndarray, ...]) -> None:
        """Refuse a module that gives other numbers in a second run.

        Its rounding would seem to be huge.
        """
        if self._repeats:
            return
        try:
            runs = [
                self._call(self._example.module, [array.copy() for array in example]) for _ in "12"
            ]
        except Exception:  # of the example itself, which the comparison reports
            return
        if not agree(*runs):
            raise ModelError(
                self._example.where,
                expected="the same numbers each time",
                got="a forward that remembers earlier calls",
                next="take its memory as an argument, and return the new one",
            )
        self._repeats = True

    def _returns_others(self, trial: Trial) -> bool:
        """Tell whether the module returns other ranks for a trial than for the example."""
        ranks = []
        for inputs in (trial.inputs, self._example.arrays(len(trial.inputs))):
            arrays = [array.copy() for array in inputs if array is not None]
            with kept_attributes(self._example.module):
                results = self._call(self._example.module, arrays)
            ranks.append([result.ndim for result in results])
        return ranks[0] != ranks[1]

    # ---- trials ----------------------------------------------------------------------------------

    def _noted(self, trials: Iterator[Trial]) -> Iterator[Trial]:
        """Keep the inputs of the trial that runs."""
        for trial in trials:
            self._trial = trial
            yield trial

    def _value_trials(self, example: tuple[np.ndarray, ...]) -> Iterator[Trial]:
        """Yield the example, and values that are not kind."""
        yield Trial(_EXAMPLE, example)
        if self._foreign:
            return
        yield from mild_trials(example, reach=_REACH, integer_reach=_INTEGER_REACH, masks=True)
        yield from _one_trials(example)

    def _size_trials(self, sizes: OpenSizes) -> Iterator[Trial]:
        """Yield other sizes of all free dimensions together, then of each alone."""
        symbols = list(sizes.example)
        yield from self._resized(sizes, symbols)
        # Two sizes that are mixed up are equal where all grow by one.
        if len(symbols) > 1:
            for symbol in symbols:
                yield from self._resized(sizes, [symbol])

    def _resized(self, sizes: OpenSizes, symbols: Sequence[str]) -> Iterator[Trial]:
        """Yield other sizes of some dimensions until torch accepts two of them, and 2 and 1."""
        accepted = 0
        for changed, inputs in sizes.examples(symbols):
            runs_before = self._runs_of_torch
            yield Trial(_described(changed, symbols), inputs)
            # The trial was run meanwhile; sizes at which torch itself raises do not count.
            accepted += self._runs_of_torch > runs_before
            if accepted == _FURTHER_SIZES:
                break
        # Small ones are where a slice or a window no longer fits.
        for size in (2, 1):
            small = sizes.example_of_all(symbols, size)
            if small is not None:
                yield Trial(_described(dict.fromkeys(symbols, size), symbols), small)


_FURTHER_SIZES = 2


def agree(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    """Tell whether two runs gave the same numbers.

    LAPACK rounds some differently from call to call.
    """
    for array, repeated in zip(first, second, strict=False):
        if array.shape != repeated.shape:
            return False
        if not np.allclose(array, repeated, 1e-3, 1e-3, equal_nan=True):
            return False
    return True


def _equal(arrays: Sequence[np.ndarray], inputs: Sequence[np.ndarray | None]) -> bool:
    """Tell whether arrays are a trial's inputs, to the bit."""
    bits = []
    for values in (arrays, inputs):
        present = [array for array in values if array is not None]
        bits.append([(array.dtype, array.shape, array.tobytes()) for array in present])
    return bits[0] == bits[1]


def _session(model: ModelProto) -> Session:
    options = SessionOptions()
    # Threads of ONNX Runtime that wait in a loop for more work take the processor from torch
    # threads: in a small net, the torch runs in between took fifty times as long.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return Session(model, options)


def _runner(session: Any) -> Function:
    names = [entry.name for entry in session.get_inputs()]

    def converted(*arrays: np.ndarray) -> list[np.ndarray]:
        results: list[np.ndarray] = session.run(None, dict(zip(names, arrays, strict=True)))
        return results

    return converted


def _described(sizes: Mapping[str, int], symbols: Sequence[str]) -> str:
    return _SIZES + ", ".join(f"{symbol} = {sizes[symbol]}" for symbol in symbols)


def _of_error(error: Exception) -> Fault:
    if isinstance(error, ModelError):
        return Fault(str(error), error)
    return Fault(f"{type(error).__name__}: {error}", error)


def arrays_of(results: Any) -> list[np.ndarray]:
    """Convert the tensors and numbers among results to arrays."""
    arrays = []
    for leaf in filter(is_tensor_or_number, tree_leaves(results)):
        # In a model, a Python number has the dtype that torch gives it: 0.5 is a float32.
        arrays.append(to_array(torch.as_tensor(leaf)))
    return arrays


def _one_trials(example: tuple[np.ndarray, ...]) -> Iterator[Trial]:
    """Put NaN, and then an infinity, in the middle of each of the first inputs."""
    floats = [n for n, array in enumerate(example) if array.dtype.kind in "fV" and array.size]
    for number, value in itertools.product(floats[:_ONE_INPUTS], (np.nan, np.inf, -np.inf)):
        inputs = [array.copy() for array in example]
        inputs[number].flat[inputs[number].size // 2] = value
        yield Trial(f"{_ONE}{value} in input {number}", tuple(inputs))

"""A session whose state outputs feed its next run without leaving memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from pyopnb.engine import Session, ortvalues, runtime_options

__all__ = ["RecurrentSession"]

_Values = dict[str, Any]


class RecurrentSession:
    """Run a model that takes a state and returns the next one, without copying it.

    The state has two sets of arrays, bound in turn as inputs and as outputs: a run writes into the
    set that it does not read. A run that fails, or that is not accepted, leaves the state as it
    was.

    Parameters
    ----------
    state : mapping of str to ndarray
        The first state by the names of the inputs; it is copied.
    following : mapping of str to str
        By input the output that is its next value, of the same type.
    results : mapping of str to str
        Other outputs to return, all scalars, with their dtypes.

    Attributes
    ----------
    session : Session
    """

    def __init__(
        self,
        model: ModelProto,
        state: Mapping[str, np.ndarray],
        following: Mapping[str, str],
        results: Mapping[str, str],
    ) -> None:
        # The highest level puts convolutions into blocks of channels, and each gradient that reads
        # their results undoes it.
        self.session = Session(model, runtime_options.new_options("extended"))
        self._following = dict(following)
        first = {name: np.array(value, order="C") for name, value in state.items()}
        second = {name: np.empty_like(value) for name, value in first.items()}
        self._arrays = [first, second]
        # OrtValues over the memory of these arrays: a run writes an output directly
        # to the array.
        self._values: list[_Values] = [
            ortvalues.as_ortvalues(first),
            ortvalues.as_ortvalues(second),
        ]
        self._results = {name: np.empty((), dtype) for name, dtype in results.items()}
        self._result_values = ortvalues.as_ortvalues(self._results)
        self._now = 0
        self._runtime: Any = None
        self._bindings: list[Any] = []
        self._feeds: _Values = {}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of the current state, which the run after the next one overwrites."""
        return self._arrays[self._now]

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Run once; `accept` makes the state that was written the current one.

        Parameters
        ----------
        feeds : mapping of str to ndarray
            Feeds of the inputs that are not state.

        Returns
        -------
        dict
            The results by name.

        Raises
        ------
        Exception
            The exception that an op raised.
        """
        __tracebackhide__ = True
        runtime = self.session.update().runtime
        # At first, and where a redefined op has other outputs.
        if runtime is not self._runtime:
            self._bind(runtime)
        binding = self._bindings[self._now]
        # The binding itself does not keep the arrays.
        convert = self.session.state.feeds.convert
        self._feeds = ortvalues.as_ortvalues(
            {name: convert(name, value) for name, value in feeds.items()}
        )
        for name, value in self._feeds.items():
            binding.bind_ortvalue_input(name, value)
        self.session.run_with_iobinding(binding)
        return {name: float(array) for name, array in self._results.items()}

    def accept(self) -> None:
        """Make the state that the last run wrote the current one."""
        self._now = 1 - self._now

    def _bind(self, runtime: Any) -> None:
        self._bindings = []
        # One binding for each direction, so that a run only binds its feeds.
        for now, following in ((0, 1), (1, 0)):
            binding = runtime.io_binding()
            for name, value in self._values[now].items():
                binding.bind_ortvalue_input(name, value)
                binding.bind_ortvalue_output(self._following[name], self._values[following][name])
            for name, value in self._result_values.items():
                binding.bind_ortvalue_output(name, value)
            self._bindings.append(binding)
        self._runtime = runtime

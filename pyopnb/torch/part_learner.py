"""Learn the results of a submodule by running it at several sizes and on several values."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pyopnb.common import sanitize
from pyopnb.errors import ModelError
from pyopnb.testing import mild_trials
from pyopnb.torch.example import Example, kept_attributes
from pyopnb.torch.foreign import CheckedSizes, ForeignCalls
from pyopnb.torch.part_ops import (
    NotLearned,
    PartOp,
    Results,
    TorchPart,
    described,
    form_of,
    refuse_changes,
    sizes_of,
    state_of,
    tables_of,
)
from pyopnb.torch.sizes import OpenSizes
from pyopnb.torch.verify import CallLimit, agree, arrays_of

__all__ = ["Learner", "Submodule", "replaced"]

# The sizes of the arguments of a submodule, and its results.
_Call = tuple[list[int], Results]

# This many other sizes of dimensions are learned from, beside 1.
_FURTHER_SIZES = 4


class Learner:
    """Runs of a module on the example, on other values and at other sizes.

    Attributes
    ----------
    example : Example
        Of a private copy of the module.
    module : torch.nn.Module
        That copy.
    runs : bool
        Whether the module runs on the example.
    problem : str
        The beginning of the reason of a part.
    """

    def __init__(self, example: Example) -> None:
        self.example, self.module = example, example.module
        self._arrays = example.arrays(len(example.tensors))
        self._foreign = False
        self.problem = "torch.export cannot capture"
        self._limit = CallLimit()
        self.runs = self._check()

    def _check(self) -> bool:
        """Run the example twice, and refuse a module that is not the same after it."""
        spy = ForeignCalls()
        tables, generators = tables_of(self.module), _generators()
        before = state_of(tables)
        try:
            with spy:
                first = self._run(self._arrays)
            drew = generators != _generators()
            second = self._run(self._arrays)
        except Exception:  # the exception of forward, for which capture has the message
            return False
        self._foreign = spy.seen
        refuse_changes(self.example.where, before, tables)
        if drew or not agree(first, second):
            raise ModelError(
                self.example.where,
                expected="the same numbers each time",
                got="random numbers, or a forward that remembers earlier calls",
                next="draw the numbers outside, and give them as an input",
            )
        return True

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        # Forward may write to its arguments.
        args, kwargs = self.example.with_arrays([array.copy() for array in arrays])
        with torch.no_grad(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with self._limit, CheckedSizes():
                return arrays_of(self.module(*args, **kwargs))

    def _try(self, arrays: Sequence[np.ndarray]) -> bool:
        """Run the module on arrays that forward may not take, and tell whether it took them."""
        try:
            with kept_attributes(self.module):
                self._run(arrays)
        except NotLearned:
            raise
        except Exception:  # of sizes and values that forward does not take
            return False
        return True

    def learn(self, path: str, line: str, refusal: ModelError) -> Submodule:
        """Learn the results of a submodule from its arguments.

        Raises
        ------
        NotLearned
            No op can replace it.
        """
        part = self.module.get_submodule(path)
        runs: dict[str, list[_Call]] = {}
        with replaced(part, functools.partial(_recorded, runs, not path)):
            self._run_all()
        for form, calls in self._calls_at_one(part, not path).items():
            # At 1, results can be of another rank, which is then an error of the run.
            if form in runs:
                runs[form] += [call for call in calls if call[1].is_like(runs[form][0][1])]
        if not runs:
            raise NotLearned("forward", expected="a submodule that is called", got="none")
        name = sanitize(type(part).__name__)
        subject, label = f"module {name}", name
        if path:
            label = f"{sanitize(path)} ({name})"
            subject = f"submodule {label}"
        reason = f"{self.problem} {subject}: {sanitize(refusal.got or '', 400)}"
        remedy = sanitize(refusal.next or "", 400)
        about = TorchPart(line, label, reason, remedy, self._foreign)
        ops = {}
        for form, calls in runs.items():
            # The results of the whole module become outputs, also where they are numbers.
            ops[form] = PartOp(part, form, calls, about, numbers=not path)
        return Submodule(path, ops)

    def places_of_other_sizes(
        self, wanted: Sequence[tuple[int, int]] | None
    ) -> set[tuple[int, int]]:
        """Find the open dimensions, by tensor and axis, at whose other sizes the module runs."""
        sizes = self._open_sizes()
        axes = set()
        for symbol, places in sizes.places.items():
            axes_of_symbol = {(number, axis) for number, axis, _ in places}
            if wanted is not None:
                axes_of_symbol.intersection_update(wanted)
            groups = [group for group in _groups(sizes.example) if symbol in group]
            if axes_of_symbol and any(self._takes_other_sizes_of(group, sizes) for group in groups):
                axes |= axes_of_symbol
        return axes

    def resized_example(self) -> Example | None:
        """Change all open dimensions of the example; return None if the module takes no others."""
        sizes = self._open_sizes()
        for _, arrays in sizes.examples(list(sizes.example)):
            if self._try(arrays):
                args, kwargs = self.example.with_arrays(arrays)
                return replace(self.example, args=args, kwargs=kwargs)
        return None

    def _takes_other_sizes_of(self, symbols: Sequence[str], sizes: OpenSizes) -> bool:
        # A single row may be accepted because it is broadcast, which says nothing about other
        # sizes.
        return any(self._try(resized) for _, resized in sizes.examples(symbols))

    def _open_sizes(self) -> OpenSizes:
        return OpenSizes.of_requests(self._arrays, self.example.requests)

    def _calls_at_one(self, part: Any, numbers: bool) -> dict[str, list[_Call]]:
        """Note the inputs and results of a submodule where the module's open dimensions are 1."""
        calls: dict[str, list[_Call]] = {}
        sizes = self._open_sizes()
        with replaced(part, functools.partial(_recorded, calls, numbers)):
            for group in _groups(sizes.example):
                resized = sizes.example_of_all(group, 1)
                if resized is not None:
                    self._try(resized)
        return calls

    def _run_all(self) -> None:
        """Run the example, then other sizes, then other values."""
        self._try(self._arrays)
        sizes = self._open_sizes()
        for group in _groups(sizes.example):
            accepted = 0
            for _, resized in sizes.examples(group):
                if accepted < _FURTHER_SIZES:
                    accepted += self._try(resized)
        # Code outside torch may read without checks, so it only gets the example's values.
        if not self._foreign:
            for trial in mild_trials(self._arrays, reach=10.0, integer_reach=2.0):
                self._try([array for array in trial.inputs if array is not None])


def _groups(sizes: Mapping[str, int]) -> list[list[str]]:
    """List the dimensions that change together: all, each alone, and all of one size."""
    groups = [list(sizes)]
    for symbol, size in sizes.items():
        groups += [[symbol], [name for name in sizes if sizes[name] == size]]
    distinct: list[list[str]] = []
    for group in groups:
        if group and group not in distinct:
            distinct.append(group)
    return distinct


def _recorded(
    runs: dict[str, list[_Call]], numbers: bool, forward: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a forward so that it notes the sizes of its arguments and results."""
    running = False

    @functools.wraps(forward)
    def recording(*args: Any, **kwargs: Any) -> Any:
        nonlocal running
        # A module that calls itself is one part, from the outermost call on.
        if running:
            return forward(*args, **kwargs)
        form, tensors = form_of(args, kwargs)
        sizes = sizes_of(tensors)
        running = True
        try:
            results = forward(*args, **kwargs)
        finally:
            running = False
        runs.setdefault(form, []).append((sizes, described(results, numbers)[1]))
        return results

    return recording


def _generators() -> str:
    """Describe the states of the shared generators of random numbers."""
    numpy_state: Any = np.random.get_state()
    return repr((torch.get_rng_state().numpy().tobytes(), numpy_state[1:3], random.getstate()[1]))


@dataclass(frozen=True)
class Submodule:
    """A submodule whose calls are ops of torch, by the form in which it is called."""

    path: str
    ops: Mapping[str, PartOp]

    def forward(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap its forward so that torch.export sees ops."""

        @functools.wraps(forward)
        def opaque(*args: Any, **kwargs: Any) -> Any:
            form, tensors = form_of(args, kwargs)
            if form not in self.ops or not tensors:
                raise NotLearned("forward", expected="a call as in a run", got="another")
            return self.ops[form](args, kwargs, tensors)

        return opaque


@contextmanager
def replaced(module: Any, wrapped: Callable[..., Any]) -> Iterator[None]:
    """Give one of our modules another forward for a while."""
    earlier = module.__dict__.get("forward")
    module.forward = wrapped(module.forward)
    try:
        yield
    finally:
        del module.forward
        if earlier is not None:
            module.forward = earlier

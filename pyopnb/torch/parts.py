"""Let torch itself run the parts of a module that torch.export cannot capture.

A part is a submodule, at worst the whole module. It becomes a torch op without a look inside, whose results'
sizes are learned from runs of the module, and the capture is tried again.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pyopnb.errors import ModelError, PyopError
from pyopnb.ops.messages import sanitize
from pyopnb.testing.verify import mild_trials
from pyopnb.torch.example import bound_arguments, enlarged, in_order, line_of_error
from pyopnb.torch.holes import NoStandIn
from pyopnb.torch.program import calls_in, capture, is_foreign
from pyopnb.torch.sizes import (
    FixedSize,
    OpenSizes,
    fixed_by_torch,
    has_derived_sizes,
    requested_dimensions,
    rewritten_shapes,
)
from pyopnb.torch.stand_in import PARTS, OtherResults, own_memory
from pyopnb.torch.verify import CallLimit, ModuleComparison, arrays_of

__all__ = [
    "TorchPart",
    "capture_around",
    "capture_narrowed",
    "capture_with_parts",
    "part_of",
    "parts_in",
]

# Each failed capture names one part, and the last of them is the whole module.
_ATTEMPTS = 12

# So many other sizes are tried of each dimension.
_STEPS = 5

# What forward may be given beside tensors: values whose text tells them apart.
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)

_numbers = itertools.count(1)
_parts: dict[Any, TorchPart] = {}


class _NotLearned(PyopError):
    """A submodule that no op can stand in for; its caller may be one."""


@dataclass(frozen=True)
class TorchPart:
    """A part of a module that torch runs, as torch.export cannot capture it.

    Attributes
    ----------
    line : str
        The user's line at which the capture failed; empty where it is not known.
    path : str
        Of the submodule, with the name of its class.
    reason : str
        In one sentence, with the submodule.
    remedy : str
        What would have it captured; empty where torch does not tell.
    foreign : bool
        Whether it calls ops that are not torch's.
    function : callable
        Runs it on tensors, which autograd can follow.
    """

    line: str
    path: str
    reason: str
    remedy: str
    foreign: bool
    function: Any = None


def part_of(node: Any) -> TorchPart | None:
    """Return the part that a call in a program stands for, if it is one."""
    return _parts.get(node.target)


def parts_in(program: Any) -> list[TorchPart]:
    """List the parts that a program calls."""
    parts = []
    for node, _ in calls_in(program):
        part = part_of(node)
        if part is not None:
            parts.append(part)
    return parts


# ---- attempts --------------------------------------------------------------------------------


def capture_with_parts(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> Any:
    """Capture a module as a program, with ops for the submodules that torch cannot capture.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes
        As for `pyopnb.torch.program.capture`.

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    InputError, ModelError
        As from `pyopnb.torch.program.capture`; or a part changes its module, or draws random numbers.
    """
    try:
        program = capture(module, args, kwargs, dynamic_shapes)
    except ModelError as refusal:
        # Torch's own error stays there. There is none, or one of ours, where it was not torch that refused.
        failure = refusal.__context__
        if failure is None or isinstance(failure, PyopError):
            raise
        if "dynamic_shapes" in refusal.where:
            program = _with_open_sizes(module, args, kwargs, dynamic_shapes, refusal)
        else:
            program = _with_parts(module, args, kwargs, dynamic_shapes, refusal)
        if program is None:
            raise
    return _with_fewer_fixed_sizes(program, module, args, kwargs, dynamic_shapes)


def _with_parts(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, refusal: Any
) -> Any:
    """Capture a module with ever larger parts in torch; return None where nothing helps."""
    learner = _learner(module, args, kwargs, dynamic_shapes)
    if learner is None:
        return None
    frozen = learner.module
    failure, modules = refusal.__context__, module
    parts: dict[str, _Submodule] = {}
    for path, _, _ in _script_objects(frozen):
        # Torch looks for these before it calls forward, so that its traceback names no submodule.
        if any(_is_inside(path, outer) for outer in parts):
            continue
        part = _next_part(learner, _ancestors(path), parts, failure, refusal)
        if part is not None:
            parts[part.path] = part
    has_script_objects = bool(parts)
    for attempt in range(_ATTEMPTS):
        if attempt or not has_script_objects:
            part = _next_part(learner, _paths_in(failure, modules), parts, failure, refusal)
            if part is None:
                return None
            paths = [path for path in parts if _is_inside(path, part.path)]
            for path in paths:
                del parts[path]
            parts[part.path] = part
        # From here on the copy is captured, and its modules are those in the traceback.
        modules = frozen
        try:
            with _in_torch(frozen, list(parts.values())):
                return capture(frozen, args, kwargs, dynamic_shapes)
        except ModelError as error:
            if error.__context__ is None:
                raise
            failure = error.__context__
            # Where it was a part that gave up, torch's reason for the part is what the user is told.
            if not isinstance(failure, _NotLearned):
                refusal = error
    return None


def capture_around(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    refusal: NoStandIn,
) -> Any:
    """Capture a module with the part in torch whose call cannot become a node, or as a whole.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes
        As for `pyopnb.torch.program.capture`.
    refusal : NoStandIn

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    NoStandIn
        No op can stand in for the part either.
    """
    learner = _learner(module, args, kwargs, dynamic_shapes)
    if learner is None:
        raise refusal
    for path in dict.fromkeys((refusal.path, "")):
        try:
            part = learner.learn(path, refusal.line, refusal)
            with _in_torch(learner.module, [part]):
                return capture(learner.module, args, kwargs, dynamic_shapes)
        except (ModelError, AttributeError, _NotLearned):
            continue
    raise refusal


def _with_fewer_fixed_sizes(
    program: Any, module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> Any:
    """Capture a module again with a part in torch, where torch has fixed sizes that forward lets change."""
    fixed = _fixed_places(program, module, args, kwargs, dynamic_shapes)
    if not fixed:
        return program
    example = args, in_order(module, kwargs)
    larger, changed = enlarged(module, *example, list(fixed))
    if larger is not None:
        # Forward may do something else at the very size of the example, as a pool of one window does.
        try:
            general = capture(module, *larger, dynamic_shapes)
        except ModelError:
            general = None
        if general is not None:
            still_fixed = _fixed_places(general, module, args, kwargs, dynamic_shapes)
            if changed.isdisjoint(still_fixed):
                return general
    size = next(iter(fixed.values()))
    refusal = ModelError(
        f"module {sanitize(type(module).__name__)}, dynamic_shapes",
        expected="sizes that can change",
        got=f"it fixes size {size.size} of axis {size.axis}, {size.reason}",
        next="the size fixed in the model: leave the axis out of dynamic_shapes",
    )
    try:
        general = _with_open_sizes(module, args, kwargs, dynamic_shapes, refusal, list(fixed))
    except ModelError:
        # No op can stand in for what draws random numbers, or changes its module.
        return program
    if general is None:
        return program
    return general


def _fixed_places(
    program: Any, module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> dict[tuple[int, int], FixedSize]:
    """List by tensor and axis the sizes that torch has fixed though they were to be open."""
    arguments = bound_arguments(module, args, in_order(module, kwargs))
    requests = requested_dimensions(dynamic_shapes, arguments)
    names = [str(number) for number in range(len(program.graph_signature.user_inputs))]
    sizes = {}
    for size in fixed_by_torch(program, names, requests):
        # Torch takes a size of 1 for a constant whatever forward does, which another example mends.
        if size.size != 1:
            sizes[int(size.input), size.axis] = size
    return sizes


def _with_open_sizes(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    refusal: ModelError,
    fixed: Sequence[tuple[int, int]] | None = None,
) -> Any:
    """Capture a module with the part in torch that fixes sizes; return None where nothing helps.

    Where torch itself decides which sizes it fixes, those are `fixed`, by tensor and axis.
    """
    if fixed is None:
        try:
            # Torch refuses a size of a `torch.export.Dim` that is the sum of others, and takes it without one.
            program = capture(module, args, kwargs, _names_of(dynamic_shapes))
        except ModelError:
            pass
        else:
            if has_derived_sizes(program):
                return program
    learner = _learner(module, args, kwargs, dynamic_shapes)
    if learner is None:
        return None
    changeable = learner.places_of_other_sizes(fixed)
    if not changeable or (fixed is None and len(changeable) < learner.count_of_open_sizes):
        return None

    def accept(program: Any) -> Any:
        still_fixed = _fixed_places(program, module, args, kwargs, dynamic_shapes)
        if changeable.isdisjoint(still_fixed):
            return program
        return None

    return _narrowed(learner, args, kwargs, dynamic_shapes, refusal, accept)


def capture_narrowed(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    refusal: ModelError,
    accept: Callable[[Any], Any],
) -> Any:
    """Capture a module with the smallest part in torch with which its model is right.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes
        As for `pyopnb.torch.program.capture`.
    refusal : ModelError
        What is wrong without a part.
    accept : callable
        Takes a program, and returns what is made of it; None where that is wrong as well.

    Returns
    -------
    object
        What `accept` has returned last; None where nothing helps.
    """
    learner = _learner(module, args, kwargs, dynamic_shapes)
    if learner is None:
        return None
    learner.problem = "the exporter's model is not right for"
    return _narrowed(learner, args, kwargs, dynamic_shapes, refusal, accept)


def _narrowed(
    learner: _Learner,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    refusal: ModelError,
    accept: Callable[[Any], Any],
) -> Any:
    """Put the whole module in torch, then ever smaller submodules for as long as the program is accepted."""
    accepted, paths = None, [""]
    for _ in range(_ATTEMPTS):
        if not paths:
            break
        path = paths.pop(0)
        try:
            part = learner.learn(path, "", refusal)
            with _in_torch(learner.module, [part]):
                program = capture(learner.module, args, kwargs, dynamic_shapes)
            result = accept(program)
        except (ModelError, _NotLearned):
            continue
        if result is None:
            continue
        accepted = result
        # What is at fault is in this submodule, and perhaps in one of its own.
        prefix = f"{path}." if path else ""
        children = learner.module.get_submodule(path).named_children()
        paths = [prefix + name for name, _ in children]
    return accepted


def _names_of(dynamic_shapes: Any) -> Any:
    """Write names for the dimensions that are a `torch.export.Dim` without bounds of the user's."""
    return rewritten_shapes(
        dynamic_shapes, lambda dim: dim.__name__ if type(dim) is torch.export.Dim else dim
    )


def _learner(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> _Learner | None:
    """Make a learner of a copy of a module, if it can be copied and runs on the example."""
    try:
        # A part keeps the weights of now, and what forward sets does not reach the user's module.
        frozen = copy.deepcopy(module)
    except Exception:  # modules may hold what cannot be copied: files, locks, results of autograd
        return None
    learner = _Learner(frozen, args, kwargs, dynamic_shapes)
    return learner if learner.runs else None


def _next_part(
    learner: _Learner,
    paths: Sequence[str],
    parts: Mapping[str, _Submodule],
    failure: BaseException,
    refusal: ModelError,
) -> _Submodule | None:
    """Learn the innermost submodule in which a capture failed and that an op can stand in for."""
    for path in paths:
        if path in parts:
            continue
        try:
            return learner.learn(path, line_of_error(failure), refusal)
        except _NotLearned:
            continue
    return None


def _paths_in(failure: BaseException, module: Any) -> list[str]:
    """List the submodules whose forward was running when a capture failed, the innermost first."""
    path_of = {id(part): path for path, part in module.named_modules()}
    paths: list[str] = []
    step = failure.__traceback__
    while step is not None:
        running = step.tb_frame.f_locals.get("self")
        path = path_of.get(id(running))
        if path and path not in paths:
            paths.insert(0, path)
        step = step.tb_next
    return [*paths, ""]


def _ancestors(path: str) -> list[str]:
    """List a submodule and those around it, without the whole module."""
    names = path.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1) if path]


def _script_objects(module: Any) -> list[tuple[str, Any, str]]:
    """List the weights that torch packs for its own kernels, as quantized ones, by submodule and name."""
    packed_weights = []
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.ScriptObject):
                packed_weights.append((path, part, name))
    return packed_weights


def _is_inside(path: str, outer: str) -> bool:
    return not outer or path.startswith(f"{outer}.")


# ---- what a submodule does -------------------------------------------------------------------


@dataclass(frozen=True)
class _Results:
    """What a call returned, without the numbers.

    Attributes
    ----------
    sizes : list of int
        Of all tensors, one after the other.
    dtypes : list of torch.dtype
    ranks : list of int
    python_values : list
        What is returned beside tensors, with None for each tensor.
    structure : torch.utils._pytree.TreeSpec
    """

    sizes: list[int]
    dtypes: list[Any]
    ranks: list[int]
    python_values: list[Any]
    structure: Any

    def is_like(self, results: _Results) -> bool:
        """Tell whether results differ from these in sizes only."""
        return (
            self.dtypes == results.dtypes
            and self.ranks == results.ranks
            and repr(self.python_values) == repr(results.python_values)
            and self.structure == results.structure
        )


def _described(results: Any, numbers: bool) -> tuple[list[Any], _Results]:
    """Return the tensors among results, numbers of Python's as well on wish, and all but their values."""
    leaves, structure = torch.utils._pytree.tree_flatten(results)
    if numbers:
        leaves = [_as_tensor(leaf) for leaf in leaves]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    python_values = []
    for leaf in leaves:
        python_values.append(None if isinstance(leaf, torch.Tensor) else leaf)
    dtypes = [tensor.dtype for tensor in tensors]
    ranks = [tensor.dim() for tensor in tensors]
    return tensors, _Results(_sizes(tensors), dtypes, ranks, python_values, structure)


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    if isinstance(leaf, (bool, int)):
        return torch.tensor(leaf)
    return leaf


def _sizes(tensors: Sequence[Any]) -> list[int]:
    sizes: list[int] = []
    for tensor in tensors:
        sizes.extend(tensor.shape)
    return sizes


def _form_of(args: Any, kwargs: Any) -> tuple[str, list[Any]]:
    """Return a text that tells how a submodule was called, and the tensors that it was given."""
    leaves, structure = torch.utils._pytree.tree_flatten((args, kwargs))
    texts, tensors = [str(structure)], []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
            texts.append(f"{leaf.dtype} {leaf.dim()}")
        elif leaf is None or isinstance(leaf, _PLAIN):
            texts.append(repr(leaf))
        else:
            # Symbolic sizes are among these, which torch has in the place of Python's numbers.
            got = type(leaf).__name__
            raise _NotLearned("forward", expected="tensors and plain values", got=got)
    return "\n".join(texts), tensors


class _Learner:
    """Runs of a module on the example, on other values and at other sizes.

    Attributes
    ----------
    module : torch.nn.Module
        A copy, which nobody else changes.
    runs : bool
        Whether the module runs on the example.
    problem : str
        What the reason of a part begins with.
    """

    def __init__(
        self, module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
    ) -> None:
        self.module = module
        kwargs = in_order(module, kwargs)
        self._comparison = ModuleComparison(module, args, kwargs)
        arguments = bound_arguments(module, args, kwargs)
        self._requests = requested_dimensions(dynamic_shapes, arguments)
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        count = sum(isinstance(leaf, torch.Tensor) for leaf in leaves)
        self._example = self._comparison.example(count)
        self._foreign = False
        self.problem = "torch.export cannot capture"
        self._limit = CallLimit()
        self.runs = self._check()

    def _check(self) -> bool:
        """Run the example twice, and refuse a module that is not the same after it."""
        spy = _ForeignCalls()
        module = f"module {sanitize(type(self.module).__name__)}"
        tables, generators = _tables_of(self.module), _generators()
        before = _state_of(tables)
        try:
            with spy:
                first = self._run(self._example)
            drew = generators != _generators()
            second = self._run(self._example)
        except Exception:  # what forward raises, for which capture has the message
            return False
        self._foreign = spy.seen
        _refuse_changes(module, before, tables)
        # LAPACK rounds differently from call to call.
        same = zip(first, second, strict=True)
        if drew or not all(np.allclose(*pair, 1e-3, 1e-3, equal_nan=True) for pair in same):
            raise ModelError(
                module,
                expected="what gives the same numbers each time",
                got="random numbers, or a forward that remembers earlier calls",
                next="draw the numbers outside, and give them as an input",
            )
        return True

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        # Forward may write to what it is given.
        args, kwargs = self._comparison.arguments([array.copy() for array in arrays])
        with torch.no_grad(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with self._limit:
                return arrays_of(self.module(*args, **kwargs))

    def _try(self, arrays: Sequence[np.ndarray]) -> bool:
        """Run the module on arrays that forward may not take, and tell whether it took them."""
        try:
            self._run(arrays)
        except _NotLearned:
            raise
        except Exception:  # of sizes and values that forward does not take
            return False
        return True

    def learn(self, path: str, line: str, refusal: ModelError) -> _Submodule:
        """Learn what a submodule returns for what it is given.

        Raises
        ------
        _NotLearned
            No op can stand in for it.
        """
        part = self.module.get_submodule(path)
        runs: dict[str, list[tuple[list[int], _Results]]] = {}
        with _replaced(part, functools.partial(_recorded, runs, not path)):
            for arrays in self._inputs():
                self._try(arrays)
        if not runs:
            raise _NotLearned("forward", expected="a submodule that is called", got="none")
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
            # What the whole module returns becomes outputs, of which a number is one as well.
            ops[form] = _PartOp(part, form, calls, about, numbers=not path)
        return _Submodule(path, ops)

    @property
    def count_of_open_sizes(self) -> int:
        """Count the dimensions that are to stay open, wherever they stand."""
        return sum(len(request) for request in self._requests)

    def places_of_other_sizes(
        self, wanted: Sequence[tuple[int, int]] | None
    ) -> set[tuple[int, int]]:
        """Find the open dimensions, by tensor and axis, at whose other sizes the module runs."""
        sizes = self._open_sizes()
        axes = set()
        for number, request in enumerate(self._requests):
            for axis, wish in request.items():
                if wanted is not None and (number, axis) not in wanted:
                    continue
                symbol = _symbol(wish, number, axis)
                groups = [group for group in _groups(sizes.example) if symbol in group]
                if any(self._takes_other_sizes_of(group, sizes) for group in groups):
                    axes.add((number, axis))
        return axes

    def _takes_other_sizes_of(self, symbols: Sequence[str], sizes: OpenSizes) -> bool:
        return any(self._try(arrays) for arrays in self._resized(sizes, symbols))

    def _open_sizes(self) -> OpenSizes:
        dims: list[list[int | str]] = []
        for number, (array, request) in enumerate(zip(self._example, self._requests, strict=True)):
            row: list[int | str] = list(array.shape)
            for axis, wish in request.items():
                row[axis] = _symbol(wish, number, axis)
            dims.append(row)
        return OpenSizes(dims, self._example, {})

    def _resized(self, sizes: OpenSizes, symbols: Sequence[str]) -> Iterator[Sequence[np.ndarray]]:
        """Yield the example at other sizes of some dimensions."""
        steps = list(sizes.steps(symbols))
        # The last is 1, at which results are as often of another size as they are of another rank.
        for changed in (*steps[: _STEPS - 1], *steps[_STEPS - 1 :][-1:]):
            resized = sizes.resize(changed)
            if resized is not None:
                yield resized

    def _inputs(self) -> Iterator[Sequence[np.ndarray]]:
        """Yield the example, then other sizes, then other values."""
        yield self._example
        sizes = self._open_sizes()
        for group in _groups(sizes.example):
            yield from self._resized(sizes, group)
        # Code that is not torch's may read without looking, so it gets the example's values alone.
        if not self._foreign:
            for trial in mild_trials(self._example, reach=10.0, integer_reach=2.0):
                yield [array for array in trial.inputs if array is not None]


def _groups(sizes: Mapping[str, int]) -> list[list[str]]:
    """List the dimensions that change together: all, each alone, and those of one size."""
    groups = [list(sizes)]
    for symbol, size in sizes.items():
        groups += [[symbol], [name for name in sizes if sizes[name] == size]]
    distinct: list[list[str]] = []
    for group in groups:
        if group and group not in distinct:
            distinct.append(group)
    return distinct


def _symbol(wish: Any, number: int, axis: int) -> str:
    """Name a dimension; two that the user gave one name are one."""
    name = wish if isinstance(wish, str) else getattr(wish, "__name__", "")
    return name if name.isidentifier() else f"size_{number}_{axis}"


def _recorded(
    runs: dict[str, list[tuple[list[int], _Results]]], numbers: bool, forward: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a forward that notes the sizes of what it is given and returns."""
    running = False

    @functools.wraps(forward)
    def recording(*args: Any, **kwargs: Any) -> Any:
        nonlocal running
        # A module that calls itself is one part, from the outermost call on.
        if running:
            return forward(*args, **kwargs)
        form, tensors = _form_of(args, kwargs)
        sizes = _sizes(tensors)
        running = True
        try:
            results = forward(*args, **kwargs)
        finally:
            running = False
        runs.setdefault(form, []).append((sizes, _described(results, numbers)[1]))
        return results

    return recording


# ---- guards ----------------------------------------------------------------------------------


class _ForeignCalls(TorchDispatchMode):  # type: ignore[misc]
    """Notes whether an op is called that is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or is_foreign(func)
        return func(*args, **(kwargs or {}))


def _generators() -> str:
    """Describe the states of the generators of random numbers that everybody shares."""
    numpy_state: Any = np.random.get_state()
    return repr((torch.get_rng_state().numpy().tobytes(), numpy_state[1:3], random.getstate()[1]))


_Tables = list[tuple[str, dict[str, Any]]]
"""The parameters and buffers of each submodule, with its path; listed once, as a walk takes long."""


def _tables_of(module: Any) -> _Tables:
    tables: _Tables = []
    for path, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            tables.append((f"{path}." if path else "", table))
    return tables


def _state_of(tables: _Tables) -> dict[tuple[str, str], tuple[int, int]]:
    """Describe which tensors a module has, and how often each was written to."""
    state = {}
    for path, table in tables:
        for name, tensor in table.items():
            if tensor is not None:
                state[path, name] = id(tensor), tensor._version
    return state


def _refuse_changes(
    where: str, before: Mapping[tuple[str, str], tuple[int, int]], tables: _Tables
) -> None:
    after = _state_of(tables)
    if after == before:
        return
    for (path, name), entry in after.items():
        if before.get((path, name)) != entry:
            raise ModelError(
                f"{where}, buffer {sanitize(path + name)}",
                expected="a forward that does not change its module",
                got=f"one that writes to {sanitize(path + name)}",
                next="take it as an argument, and return what it becomes",
            )


# ---- the op ----------------------------------------------------------------------------------


class _PartOp:
    """A submodule, called in one form, as an op of torch.

    Parameters
    ----------
    module : torch.nn.Module
        Nobody else may change it.
    form : str
        From `_form_of`.
    runs : list
        The sizes that went in and the results, of each call that was seen.
    about : TorchPart
    numbers : bool
        Return Python's numbers as tensors.
    """

    def __init__(
        self,
        module: Any,
        form: str,
        runs: list[tuple[list[int], _Results]],
        about: TorchPart,
        *,
        numbers: bool,
    ) -> None:
        self._numbers = numbers
        self._weights = _slots_of_weights(module)
        # Later, while others are captured, an op is in the place of this module's forward.
        self._module = _sharing_copy(module)
        self._local = threading.local()
        self._count = 0
        self._name = sanitize(type(module).__name__)
        self._like = runs[0][1]
        for _, results in runs:
            if not results.is_like(self._like):
                got = "results of another type, or a Python number that values decide"
                raise _NotLearned("forward", expected="tensors of one type", got=got)
        if not self._like.dtypes:
            raise _NotLearned("forward", expected="a tensor", got="none")
        self._dims = _learned(runs)
        self._structure: Any = None
        self._leaves: list[Any] = []
        self._overload: Any = None
        self._about = about

    def __call__(self, args: Any, kwargs: Any, tensors: Sequence[Any]) -> Any:
        """Call the op, which torch.export is to see."""
        if self._overload is None:
            leaves, self._structure = torch.utils._pytree.tree_flatten((args, kwargs))
            for leaf in leaves:
                self._leaves.append(_HOLE if isinstance(leaf, torch.Tensor) else leaf)
            self._count = len(tensors)
            self._register()
        # As inputs, weights are initializers of the model, which can be trained.
        weights = [getattr(*slots[0]) for slots in self._weights]
        results = self._overload([*tensors, *weights])
        return self._returned([results] if isinstance(results, torch.Tensor) else results)

    def _register(self) -> None:
        # Torch takes letters, digits and underscores, and every name once in a process.
        name = f"{re.sub(r'[^A-Za-z0-9]', '', type(self._module).__name__)}_{next(_numbers)}"
        returns = ", ".join(["Tensor"] * len(self._like.dtypes))
        if len(self._like.dtypes) > 1:
            returns = f"({returns})"
        # A torch op has at most 64 parameters, and a part may have more weights.
        schema = f"(Tensor[] tensors) -> {returns}"
        op = torch.library.custom_op(f"{PARTS}::{name}", self._run, mutates_args=(), schema=schema)
        op.register_fake(self._fake)
        self._overload = getattr(getattr(torch.ops, PARTS), name).default
        _parts[self._overload] = replace(self._about, function=self._run)

    def _returned(self, tensors: Sequence[Any]) -> Any:
        """Put results into the structure in which forward returns them."""
        ahead = iter(tensors)
        leaves = []
        for leaf in self._like.python_values:
            leaves.append(next(ahead) if leaf is None else leaf)
        return torch.utils._pytree.tree_unflatten(leaves, self._like.structure)

    def _run(self, tensors: Sequence[Any]) -> Any:
        inputs, weights = tensors[: self._count], tensors[self._count :]
        # Inputs are ONNX Runtime's memory, and forward may write to them.
        copies = [tensor.clone() for tensor in inputs]
        ahead = iter(copies)
        leaves = [next(ahead) if leaf is _HOLE else leaf for leaf in self._leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self._structure)
        where = f"module {self._name}"
        with self._with_weights(weights) as module:
            tables: _Tables = self._local.tables
            before = _state_of(tables)
            # Hooks of the module run outside of the op.
            results, described = _described(module.forward(*args, **kwargs), self._numbers)
            _refuse_changes(where, before, tables)
            weight_tensors = [tensor for _, table in tables for tensor in table.values()]
        self._check(where, _sizes(inputs), described)
        contiguous = [result.contiguous() for result in results]
        fresh = own_memory(contiguous, (*weight_tensors, *copies))
        if len(fresh) == 1:
            return fresh[0]
        return tuple(fresh)

    @contextmanager
    def _with_weights(self, weights: Sequence[Any]) -> Iterator[Any]:
        """Lend weights to a copy of the module, which each thread has for itself."""
        if not hasattr(self._local, "module"):
            self._local.module = _sharing_copy(self._module)
            self._local.weights = _slots_of_weights(self._local.module)
            self._local.tables = _tables_of(self._local.module)
        earlier = []
        for slots, weight in zip(self._local.weights, weights, strict=True):
            for part, name in slots:
                earlier.append((part, name, getattr(part, name)))
                _lend(part, name, weight)
        try:
            yield self._local.module
        finally:
            # Nothing of ONNX Runtime's memory may stay there.
            for part, name, weight in earlier:
                _lend(part, name, weight)

    def _check(self, where: str, sizes: Sequence[int], results: _Results) -> None:
        """Refuse results of other sizes than the model was made for: its numbers would be wrong."""
        if not results.is_like(self._like):
            expected = "results as at the export"
            raise OtherResults(where, expected=expected, got="results of other types")
        free: dict[str, int] = {}
        for position, (dim, size) in enumerate(zip(self._dims, results.sizes, strict=True)):
            expected_size = dim
            if isinstance(dim, str):
                expected_size = free.setdefault(dim, size)
            elif isinstance(dim, _InputSize):
                expected_size = sizes[dim.position]
            if size != expected_size:
                raise ModelError(
                    f"{where}, size {position} of its results",
                    expected=f"{expected_size}, as in every run at the export",
                    got=str(size),
                    next="export it with an example whose values give other sizes",
                )

    def _fake(self, tensors: Sequence[Any]) -> Any:
        """Make empty results of the learned sizes, where torch traces."""
        sizes = _sizes(tensors[: self._count])
        free: dict[str, Any] = {}
        shape: list[Any] = []
        for dim in self._dims:
            if isinstance(dim, str):
                if dim not in free:
                    free[dim] = torch.library.get_ctx().new_dynamic_size()
                shape.append(free[dim])
            else:
                shape.append(sizes[dim.position] if isinstance(dim, _InputSize) else dim)
        results = []
        for dtype, rank in zip(self._like.dtypes, self._like.ranks, strict=True):
            results.append(tensors[0].new_empty(shape[:rank], dtype=dtype))
            shape = shape[rank:]
        return results[0] if len(results) == 1 else tuple(results)


_HOLE = object()
"""Stands for a tensor among the arguments of a part."""


@dataclass(frozen=True)
class _InputSize:
    """A size that is that of an input, by its position among all sizes of the inputs."""

    position: int


def _sharing_copy(module: Any) -> Any:
    """Copy a module, but not its parameters and buffers."""
    memo = {}
    for tensor in (*module.parameters(), *module.buffers()):
        memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _lend(part: Any, name: str, weight: Any) -> None:
    """Give a submodule a weight."""
    if type(part).__setattr__ is torch.nn.Module.__setattr__:
        part._parameters[name] = weight
        return
    # RNNs have a list of their weights as well, which they keep themselves.
    if not isinstance(weight, torch.nn.Parameter):
        weight = torch.nn.Parameter(weight, requires_grad=False)
    setattr(part, name, weight)


def _slots_of_weights(module: Any) -> list[list[tuple[Any, str]]]:
    """List for each weight of a module the submodules that have it, and its name there."""
    slots: dict[int, list[tuple[Any, str]]] = {}
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False, remove_duplicate=False):
            if weight.is_floating_point():
                slots.setdefault(id(weight), []).append((part, name))
    return list(slots.values())


def _learned(runs: Sequence[tuple[list[int], _Results]]) -> list[int | str | _InputSize]:
    """Learn each size of the results: a number, that of an input, or a name for a free one."""
    inputs = list(zip(*(sizes for sizes, _ in runs), strict=True))
    dims: list[int | str | _InputSize] = []
    for sizes in zip(*(results.sizes for _, results in runs), strict=True):
        if len(set(sizes)) == 1 and (len(runs) > 1 or sizes not in inputs):
            dims.append(sizes[0])
        elif sizes in inputs:
            dims.append(_InputSize(inputs.index(sizes)))
        else:
            # Sizes that were equal in all runs are one: the rows of torch.unique and of its counts.
            dims.append(f"free {sizes}")
    return dims


@dataclass(frozen=True)
class _Submodule:
    """A submodule whose calls are ops of torch, by the form in which it is called."""

    path: str
    ops: Mapping[str, _PartOp]

    def forward(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap its forward so that torch.export sees ops."""

        @functools.wraps(forward)
        def opaque(*args: Any, **kwargs: Any) -> Any:
            form, tensors = _form_of(args, kwargs)
            if form not in self.ops or not tensors:
                raise _NotLearned("forward", expected="a call as in a run", got="another")
            return self.ops[form](args, kwargs, tensors)

        return opaque


@contextmanager
def _in_torch(module: Any, parts: Sequence[_Submodule]) -> Iterator[None]:
    """Let ops take the place of submodules, whose packed weights torch is not to see."""
    hidden = []
    for _, owner, name in _script_objects(module):
        hidden.append((owner, name, getattr(owner, name)))
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(_replaced(module.get_submodule(part.path), part.forward))
        for owner, name, value in hidden:
            stack.callback(setattr, owner, name, value)
            setattr(owner, name, None)
        yield


@contextmanager
def _replaced(module: Any, wrapped: Callable[..., Any]) -> Iterator[None]:
    """Give a module of ours another forward for a while."""
    earlier = module.__dict__.get("forward")
    module.forward = wrapped(module.forward)
    try:
        yield
    finally:
        del module.forward
        if earlier is not None:
            module.forward = earlier

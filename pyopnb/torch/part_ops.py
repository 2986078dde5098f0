"""Torch ops that call a submodule without a look inside, with the learned types of results."""

from __future__ import annotations

import copy
import functools
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_structure, tree_unflatten

from pyopnb.common import sanitize
from pyopnb.errors import ModelError, PyopError
from pyopnb.torch.calls import as_list, as_returned, register_op
from pyopnb.torch.foreign import CheckedSizes
from pyopnb.torch.program import calls_in
from pyopnb.torch.stand_in import PARTS, OtherResults, own_memory

__all__ = [
    "NotLearned",
    "PartOp",
    "Results",
    "TorchPart",
    "described",
    "form_of",
    "part_of",
    "parts_in",
    "refuse_changes",
    "sizes_of",
    "state_of",
    "tables_of",
]

# Arguments of forward beside tensors: values whose text tells them apart.
_PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format)

_parts: dict[Any, TorchPart] = {}


class NotLearned(PyopError):
    """A submodule that no op can replace, although one may replace its caller."""


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
        The advice that would have it captured; empty where torch does not tell.
    foreign : bool
        Whether it calls ops outside torch.
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
    """Return the part that a call in a program runs, if it is one."""
    return _parts.get(node.target)


def parts_in(program: Any) -> list[TorchPart]:
    """List the parts that a program calls."""
    parts = []
    for node in calls_in(program):
        part = part_of(node)
        if part is not None:
            parts.append(part)
    return parts


# ---- calls of a submodule ------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """The results of a call, without the numbers.

    Attributes
    ----------
    sizes : list of int
        Of all tensors, one after the other.
    python_values : list
        The results beside tensors, with None for each tensor.
    structure : torch.utils._pytree.TreeSpec
    """

    sizes: list[int]
    dtypes: list[Any]
    ranks: list[int]
    python_values: list[Any]
    structure: Any

    def is_like(self, results: Results) -> bool:
        """Tell whether results differ from these in sizes only."""
        return (
            self.dtypes == results.dtypes
            and self.ranks == results.ranks
            and repr(self.python_values) == repr(results.python_values)
            and self.structure == results.structure
        )


_LEAF = tree_structure(0)


def described(results: Any, numbers: bool) -> tuple[list[Any], Results]:
    """Return the tensors among results, and a description of everything but their values.

    With ``numbers``, Python numbers count as tensors.
    """
    if isinstance(results, torch.Tensor):
        leaves, structure = [results], _LEAF
    else:
        leaves, structure = tree_flatten(results)
    if numbers:
        leaves = [_as_tensor(leaf) for leaf in leaves]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    python_values = []
    for leaf in leaves:
        python_values.append(None if isinstance(leaf, torch.Tensor) else leaf)
    dtypes = [tensor.dtype for tensor in tensors]
    ranks = [tensor.dim() for tensor in tensors]
    return tensors, Results(sizes_of(tensors), dtypes, ranks, python_values, structure)


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    if isinstance(leaf, (bool, int)):
        return torch.tensor(leaf)
    return leaf


def sizes_of(tensors: Sequence[Any]) -> list[int]:
    """List the sizes of all tensors, one after the other."""
    sizes: list[int] = []
    for tensor in tensors:
        sizes.extend(tensor.shape)
    return sizes


def form_of(args: Any, kwargs: Any) -> tuple[str, list[Any]]:
    """Return a text on the form of a call of a submodule, and the tensors among its arguments."""
    leaves, structure = tree_flatten((args, kwargs))
    texts, tensors = [str(structure)], []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
            texts.append(f"{leaf.dtype} {leaf.dim()}")
        elif leaf is None or isinstance(leaf, _PLAIN):
            texts.append(repr(leaf))
        else:
            # Symbolic sizes are among these, which torch has in place of Python numbers.
            got = type(leaf).__name__
            raise NotLearned("forward", expected="tensors and plain values", got=got)
    return "\n".join(texts), tensors


# ---- guards --------------------------------------------------------------------------------------


_Tables = list[tuple[str, dict[str, Any]]]
"""The parameters and buffers of each submodule, with its path.

They are listed once, because a walk over the modules takes long.
"""


def tables_of(module: Any) -> _Tables:
    """List the parameters and buffers of each submodule."""
    tables: _Tables = []
    for path, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            tables.append((f"{path}." if path else "", table))
    return tables


def state_of(tables: _Tables) -> dict[tuple[str, str], tuple[int, int]]:
    """Describe which tensors a module has, and how often each was written to."""
    state = {}
    for path, table in tables:
        for name, tensor in table.items():
            if tensor is not None:
                state[path, name] = id(tensor), tensor._version
    return state


def refuse_changes(
    where: str, before: Mapping[tuple[str, str], tuple[int, int]], tables: _Tables
) -> None:
    """Raise `ModelError` if a module is not as `state_of` described it."""
    after = state_of(tables)
    if after == before:
        return
    for (path, name), entry in after.items():
        if before.get((path, name)) != entry:
            raise ModelError(
                f"{where}, buffer {path + name}",
                expected="a forward that does not change its module",
                got=f"one that writes to {path + name}",
                next="take it as an argument, and return its new value",
            )


# ---- the op --------------------------------------------------------------------------------------


class PartOp:
    """A submodule, called in one form, as an op of torch.

    Parameters
    ----------
    module : torch.nn.Module
        It must not change elsewhere.
    form : str
        From `form_of`.
    runs : list
        The input sizes and the results of each recorded call.
    numbers : bool
        Return Python numbers as tensors.
    """

    def __init__(
        self,
        module: Any,
        form: str,
        runs: list[tuple[list[int], Results]],
        about: TorchPart,
        *,
        numbers: bool,
    ) -> None:
        self._numbers = numbers
        self._weights = [slots[0] for slots in _slots_of_weights(module)]
        # Later, while others are captured, an op is in place of this module's forward.
        self._module = _sharing_copy(module)
        self._local = threading.local()
        self._count = 0
        self._name = sanitize(type(module).__name__)
        # Such a module may be called with a packed sequence and states of other sizes.
        self._is_recurrent = any(isinstance(part, torch.nn.RNNBase) for part in module.modules())
        self._like = runs[0][1]
        for _, results in runs:
            if not results.is_like(self._like):
                got = "results of another type, or a Python number that depends on values"
                raise NotLearned("forward", expected="tensors of one type", got=got)
        if not self._like.dtypes:
            raise NotLearned("forward", expected="a tensor", got="none")
        self._dims = _learned(runs)
        self._structure: Any = None
        self._leaves: list[Any] = []
        self._overload: Any = None
        self._about = about

    def __call__(self, args: Any, kwargs: Any, tensors: Sequence[Any]) -> Any:
        """Call the op, so that torch.export sees it."""
        if self._overload is None:
            leaves, self._structure = tree_flatten((args, kwargs))
            for leaf in leaves:
                self._leaves.append(_HOLE if isinstance(leaf, torch.Tensor) else leaf)
            self._count = len(tensors)
            self._register()
        # As inputs, weights are initializers of the model, which can be trained.
        weights = [getattr(part, name) for part, name in self._weights]
        results = self._overload([*tensors, *weights])
        return self._returned(as_list(results))

    def _register(self) -> None:
        returns = ", ".join(["Tensor"] * len(self._like.dtypes))
        if len(self._like.dtypes) > 1:
            returns = f"({returns})"
        # A torch op has at most 64 parameters, and a part may have more weights.
        schema = f"(Tensor[] tensors) -> {returns}"
        stem = type(self._module).__name__.strip("_")
        self._overload = register_op(PARTS, stem, self._run, self._fake, schema)
        _parts[self._overload] = replace(self._about, function=self._run)

    def _returned(self, tensors: Sequence[Any]) -> Any:
        """Put results into the structure in which forward returns them."""
        ahead = iter(tensors)
        leaves = []
        for leaf in self._like.python_values:
            leaves.append(next(ahead) if leaf is None else leaf)
        return tree_unflatten(leaves, self._like.structure)

    def _run(self, tensors: Sequence[Any]) -> Any:
        inputs, weights = tensors[: self._count], tensors[self._count :]
        # Inputs are memory of ONNX Runtime, and forward may write to them.
        copies = [tensor.clone() for tensor in inputs]
        ahead = iter(copies)
        leaves = [next(ahead) if leaf is _HOLE else leaf for leaf in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._structure)
        where = f"module {self._name}"
        if not hasattr(self._local, "copy"):
            self._local.copy = _Copy(self._module)
        lent: _Copy = self._local.copy
        lent.lend(weights)
        try:
            before = state_of(lent.tables)
            with CheckedSizes() if self._is_recurrent else nullcontext():
                # Hooks of the module run outside of the op.
                results = lent.module.forward(*args, **kwargs)
            returned, description = described(results, self._numbers)
            refuse_changes(where, before, lent.tables)
            weight_tensors = [tensor for _, table in lent.tables for tensor in table.values()]
        finally:
            # No memory of ONNX Runtime may stay there, and no state from forward.
            lent.restore()
        self._check(where, sizes_of(inputs), description)
        contiguous = [tensor.contiguous() for tensor in returned]
        return as_returned(own_memory(contiguous, (*weight_tensors, *copies)))

    def _check(self, where: str, sizes: Sequence[int], results: Results) -> None:
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
        sizes = sizes_of(tensors[: self._count])
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
        return as_returned(results)


_HOLE = object()
"""Marks a tensor among the arguments of a part."""


@dataclass(frozen=True)
class _InputSize:
    """A size that equals an input's, by its position among all sizes of the inputs."""

    position: int


def _sharing_copy(module: Any) -> Any:
    """Copy a module, but not its parameters and buffers."""
    memo = {}
    for tensor in (*module.parameters(), *module.buffers()):
        memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


class _Copy:
    """A copy of a module, to which weights can be lent; each thread has one for itself.

    Attributes
    ----------
    module : torch.nn.Module
    tables : list
        From `tables_of`.
    """

    def __init__(self, module: Any) -> None:
        self.module = _sharing_copy(module)
        self.tables = tables_of(self.module)
        self._weights, self._setters = [], []
        for slots in _slots_of_weights(self.module):
            self._weights.append(getattr(*slots[0]))
            self._setters.append([_setter(part, name) for part, name in slots])
        self._attributes = [(vars(part), dict(vars(part))) for part in self.module.modules()]

    def restore(self) -> None:
        """Restore the first state of each submodule."""
        for attributes, earlier in self._attributes:
            attributes.clear()
            attributes.update(earlier)
        self.lend(self._weights)

    def lend(self, weights: Sequence[Any]) -> None:
        """Give each submodule its weights."""
        for setters, weight in zip(self._setters, weights, strict=True):
            for setter in setters:
                setter(weight)


def _setter(part: Any, name: str) -> Callable[[Any], None]:
    """Return the function that gives a submodule a weight."""
    if type(part).__setattr__ is torch.nn.Module.__setattr__:
        return functools.partial(operator.setitem, part._parameters, name)

    # RNNs also have a list of their weights, which they update themselves.
    def set_parameter(weight: Any) -> None:
        if not isinstance(weight, torch.nn.Parameter):
            weight = torch.nn.Parameter(weight, requires_grad=False)
        setattr(part, name, weight)

    return set_parameter


def _slots_of_weights(module: Any) -> list[list[tuple[Any, str]]]:
    """List for each weight of a module the submodules that have it, and its name there."""
    slots: dict[int, list[tuple[Any, str]]] = {}
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False, remove_duplicate=False):
            if weight.is_floating_point():
                slots.setdefault(id(weight), []).append((part, name))
    return list(slots.values())


def _learned(runs: Sequence[tuple[list[int], Results]]) -> list[int | str | _InputSize]:
    """Learn each size of the results: a number, an input's size, or a name for a free one."""
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

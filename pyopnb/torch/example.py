"""Take a module with its example arguments, check them, and run it on them."""

from __future__ import annotations

import copy
import importlib
import inspect
import itertools
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from pyopnb.common import messages, plural, sanitize
from pyopnb.errors import InputError, ModelError
from pyopnb.torch.arrays import to_array, to_tensor
from pyopnb.torch.foreign import CheckedSizes, ForeignCalls
from pyopnb.torch.sizes import expanded_shapes, requested_dimensions
from pyopnb.torch.source import line_in

__all__ = [
    "Example",
    "check_runs",
    "enlarged",
    "example_of",
    "first_line",
    "is_tensor_or_number",
    "kept_attributes",
    "line_of_error",
    "tensors_in",
    "widened",
]

_ON_META = "one on the device meta"


@dataclass(frozen=True)
class Example:
    """A module with arguments, and the options for its model; `example_of` checks them.

    Attributes
    ----------
    module : torch.nn.Module
    args : tuple
    kwargs : dict
        In the order of forward's parameters, which is also the order of a program's inputs.
    dynamic_shapes : object
        With an entry for each argument, and for each tensor of a cache.
    input_names, output_names, ops
        As for `pyopnb.torch.export`.
    """

    module: Any
    args: Any
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    ops: Mapping[Any, str] | None = None

    @property
    def where(self) -> str:
        """Name the module as messages do."""
        return f"module {sanitize(type(self.module).__name__)}"

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """Bind the arguments to forward's parameters."""
        return dict(_signature(self.module).bind(*self.args, **self.kwargs).arguments)

    @cached_property
    def requests(self) -> list[dict[int, Any]]:
        """List by tensor and axis the user's requests for the open dimensions."""
        return requested_dimensions(self.dynamic_shapes, self.arguments)

    @property
    def tensors(self) -> list[Any]:
        """List the tensors among the arguments."""
        return tensors_in((self.args, self.kwargs))

    def arrays(self, count: int) -> tuple[np.ndarray, ...]:
        """Return the arrays for the inputs of a model, including numbers if they are inputs.

        Raises
        ------
        ModelError
            The model has other inputs than there are tensors.
        """
        leaves = tree_leaves((self.args, self.kwargs))
        arrays = []
        for index in _input_indices(leaves, count):
            leaf = leaves[index]
            arrays.append(to_array(leaf) if _is_tensor(leaf) else np.asarray(leaf))
        return tuple(arrays)

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        """Return args and kwargs with arrays in place of the tensors and numbers."""
        leaves, structure = tree_flatten((self.args, self.kwargs))
        for index, array in zip(_input_indices(leaves, len(arrays)), arrays, strict=True):
            if isinstance(leaves[index], torch.Tensor):
                leaves[index] = to_tensor(array)
            else:
                # A Python number is an input of the model, and stays a number for forward.
                leaves[index] = array.item()
        args, kwargs = tree_unflatten(leaves, structure)
        return args, kwargs


def tensors_in(values: Any) -> list[Any]:
    """List the tensors among values."""
    return list(filter(_is_tensor, tree_leaves(values)))


def is_tensor_or_number(leaf: Any) -> bool:
    """Tell whether a leaf can be an input or an output of a model."""
    return isinstance(leaf, (torch.Tensor, bool, int, float))


def _input_indices(leaves: Sequence[Any], count: int) -> list[int]:
    """Find the arguments that are inputs of the model."""
    # Torch makes inputs of the tensors, and also of numbers that may change.
    for is_input in (_is_tensor, is_tensor_or_number):
        indices = [index for index, leaf in enumerate(leaves) if is_input(leaf)]
        if len(indices) == count:
            return indices
    got = str(len(tensors_in(leaves)))
    raise ModelError("args", expected=plural(count, "tensor"), got=got)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _signature(module: Any) -> inspect.Signature:
    return inspect.signature(module.forward)


def example_of(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *names: Any,
    any_numbers: bool = False,
) -> Example:
    """Check a module and its example before torch gets them.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes
        As for `pyopnb.torch.export`.
    *names
        ``input_names``, ``output_names`` and ``ops``.
    any_numbers : bool
        Take a module that trains or holds NaN.

    Raises
    ------
    InputError
        The module or the tuple of arguments is something else, or a named size does not exist.
    ModelError
        The module trains, or has no values.
    """
    for leaf in tree_leaves((args, kwargs)):
        if type(leaf).__module__ == "transformers.cache_utils":
            exporting = importlib.import_module("transformers.integrations.executorch")
            exporting.register_dynamic_cache_export_support()
            break
    _check_module(module, any_numbers)
    if not isinstance(args, tuple):
        got = f"list of {len(args)}" if isinstance(args, list) else type(args).__name__
        raise InputError("args", expected="a tuple of the module's arguments", got=got, next="(x,)")
    _check_kwargs(kwargs)
    keywords = dict(kwargs or {})
    _check_arguments(module, args, keywords)
    ordered = {name: keywords[name] for name in _signature(module).parameters if name in keywords}
    pair = _clone_aliased((args, ordered | keywords))
    example = Example(module, *pair, dynamic_shapes, *names)
    for number, tensor in enumerate(example.tensors):
        if tensor.is_meta:
            where, expected = f"args, tensor {number}", "a tensor with values"
            raise ModelError(where, expected=expected, got=_ON_META, next="torch.randn(…)")
    # One entry may apply to all tensors of a cache.
    example = replace(example, dynamic_shapes=expanded_shapes(dynamic_shapes, example.arguments))
    _check_sizes(example)
    return example


# ---- the module ----------------------------------------------------------------------------------


def _check_module(module: Any, any_numbers: bool) -> None:
    if isinstance(module, type):
        got, suggestion = f"class {module.__name__}", f"{module.__name__}().eval()"
        raise InputError("module", expected="a torch.nn.Module", got=got, next=suggestion)
    if not isinstance(module, torch.nn.Module):
        advice = "export(module, args), the module first"
        got = type(module).__name__
        raise InputError("module", expected="a torch.nn.Module", got=got, next=advice)
    where = f"module {sanitize(type(module).__name__)}"
    for name, part in module.named_modules():
        if part.training and not any_numbers:
            got = f"training mode in {sanitize(name)}" if name else "training mode"
            raise ModelError(where, expected="evaluation mode", got=got, next="module.eval()")
    for name, tensor in module.named_parameters():
        _check_weights(tensor, f"{where}, parameter {sanitize(name)}", any_numbers)
    for name, tensor in module.named_buffers():
        _check_weights(tensor, f"{where}, buffer {sanitize(name)}", any_numbers)


def _check_weights(tensor: Any, where: str, any_numbers: bool) -> None:
    expected = "a tensor with values"
    # A lazy layer gets its sizes in its first call.
    if torch.nn.parameter.is_lazy(tensor):
        suggestion = "module(*args) once, which gives the lazy layers their sizes"
        got = "one of a lazy layer, not initialized"
        raise ModelError(where, expected=expected, got=got, next=suggestion)
    suggestion = "load the weights: module.load_state_dict(…)"
    if tensor.is_meta:
        raise ModelError(where, expected=expected, got=_ON_META, next=suggestion)
    if any_numbers or not tensor.is_floating_point():
        return
    count = int(torch.isnan(tensor.detach().float()).sum())
    if count:
        got, suggestion = (
            f"NaN in {count} of {tensor.numel()}",
            f"{suggestion}, or torch.nan_to_num",
        )
        raise ModelError(where, expected="numbers", got=got, next=suggestion)


# ---- its arguments -------------------------------------------------------------------------------


def _check_kwargs(kwargs: Any) -> None:
    if kwargs is None or (isinstance(kwargs, Mapping) and set(map(type, kwargs)) <= {str}):
        return
    # The third argument of torch.onnx.export is a file.
    suggestion = "pyopnb.save(pyopnb.torch.export(module, args), path) for a file"
    expected, got = "a dict of parameter names and arguments", sanitize(type(kwargs).__name__)
    raise InputError("kwargs", expected=expected, got=got, next=suggestion)


def _check_arguments(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that forward has no parameter for, and arrays instead of tensors."""
    signature = _signature(module)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        names = ", ".join(signature.parameters)
        expected = sanitize(f"the arguments of forward({names})", 300)
        got = f"{len(args)} in args, {len(kwargs)} in kwargs: {sanitize(error)}"
        raise InputError("args", expected=expected, got=got, next=f"({names},)") from None
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            where, suggestion = f"args, {sanitize(name)}", f"torch.from_numpy({sanitize(name)})"
            got = "numpy.ndarray"
            raise InputError(where, expected="a torch.Tensor", got=got, next=suggestion)


def _clone_aliased(values: tuple[Any, Any]) -> tuple[Any, Any]:
    """Clone a tensor that torch would take for more than its numbers.

    If it is passed twice, torch expects it twice in every later call. For a part of a larger
    tensor, such as ``data[:3, :6]``, its exporter asks for the strides, and fails.
    """
    seen: set[int] = set()

    def cloned(leaf: Any) -> Any:
        is_repeated = id(leaf) in seen
        seen.add(id(leaf))
        is_part = leaf.layout == torch.strided and not leaf.is_contiguous()
        if not is_repeated and not is_part:
            return leaf
        return leaf.detach().clone(memory_format=torch.contiguous_format)

    pair: tuple[Any, Any] = tree_map_only(torch.Tensor, cloned, values)
    return pair


# ---- its sizes -----------------------------------------------------------------------------------


def _check_sizes(example: Example) -> None:
    """Refuse dimensions that a tensor does not have; torch says nothing of them, or not where."""
    dynamic_shapes = example.dynamic_shapes
    if dynamic_shapes is None:
        return
    if not isinstance(dynamic_shapes, (Mapping, tuple, list)):
        got = sanitize(repr(dynamic_shapes), 100)
        expected, suggestion = "an entry for each argument", "({0: 'batch'},)"
        raise InputError("dynamic_shapes", expected=expected, got=got, next=suggestion)
    if isinstance(dynamic_shapes, Mapping):
        for name in dynamic_shapes:
            _check_argument(example.module, name, example.arguments)
    names = []
    for name, value in example.arguments.items():
        names += [name] * len(tensors_in(value))
    for name, tensor, request in zip(names, example.tensors, example.requests, strict=True):
        for dim in request:
            _check_dimension(name, tensor, dim)


def _check_argument(module: Any, name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse an entry of dynamic_shapes that belongs to no parameter of forward."""
    if name in arguments:
        return
    parameters = _signature(module).parameters
    expected = sanitize(f"arguments of forward({', '.join(parameters)})", 300)
    for parameter in parameters.values():
        is_open = parameter.kind is parameter.VAR_KEYWORD
        if is_open and name in arguments.get(parameter.name, ()):
            expected = "parameters of forward, as torch opens no sizes in further keywords"
    suggestion = messages.closest(str(name), list(parameters))
    if name == "past_key_values" and "cache" in parameters:
        # Its name before transformers 5, which takes it in further keywords and warns.
        suggestion = "cache=…"
    raise InputError("dynamic_shapes", expected=expected, got=name, next=suggestion)


def _check_dimension(name: str, tensor: Any, dim: Any) -> None:
    if isinstance(dim, int) and 0 <= dim < tensor.dim():
        return
    expected = f"a dimension from 0 to {tensor.dim() - 1}"
    if tensor.dim() == 0:
        expected = "none, of a tensor without dimensions"
    where, got = f"dynamic_shapes, {sanitize(name)}", sanitize(repr(dim), 60)
    raise InputError(where, expected=expected, got=got, next="{0: 'batch'}")


def widened(example: Example) -> Example | None:
    """Make axes of size 0 or 1 that are to stay open larger, as torch takes these for constants.

    Returns
    -------
    Example or None
        With size 2 there, for which forward returns results of the same ranks. None where there are
        no such axes, or forward takes no 2 there.
    """
    narrow_axes = []
    for number, (tensor, request) in enumerate(zip(example.tensors, example.requests, strict=True)):
        narrow_axes += [(number, axis) for axis in request if tensor.shape[axis] < 2]
    return enlarged(example, narrow_axes)


def enlarged(example: Example, places: Sequence[tuple[int, int]]) -> Example | None:
    """Repeat an example along axes, by tensor and axis.

    Returns
    -------
    Example or None
        One for which forward returns results of the same ranks, if there is any.
    """
    wider = None
    if not places:
        return wider
    try:
        scratch = copy.deepcopy(example.module)
    except (
        Exception
    ):  # modules may hold things that cannot be copied: files, locks, results of autograd
        return wider
    spy = ForeignCalls()
    with spy:
        types = _types_of_results(scratch, example)
    if spy.seen:
        # The user never gave rows of zeros, and code that is not
        # torch's may divide by them.
        tensors = example.tensors
        places = [(number, axis) for number, axis in places if tensors[number].shape[axis] > 0]
    # All of them together, as inputs share a batch; then one by one.
    for group in (places, *([axis] for axis in places)):
        candidate = _repeated(wider or example, group)
        if not places or types is None or _types_of_results(scratch, candidate) != types:
            continue
        wider = candidate
        if group is places:
            break
    return wider


def _repeated(example: Example, places: Collection[tuple[int, int]]) -> Example:
    """Repeat the tensors of an example along some axes, or give empty ones two rows of zeros."""
    numbers = itertools.count()

    def repeated(leaf: Any) -> Any:
        number = next(numbers)
        for axis in [axis for position, axis in places if position == number]:
            if leaf.shape[axis] > 0:
                leaf = leaf.detach().repeat_interleave(2, axis)
            else:
                leaf = leaf.new_zeros((*leaf.shape[:axis], 2, *leaf.shape[axis + 1 :]))
        return leaf

    args, kwargs = tree_map_only(torch.Tensor, repeated, (example.args, example.kwargs))
    return replace(example, args=args, kwargs=kwargs)


def _types_of_results(module: Any, example: Example) -> list[Any] | None:
    """Run a module that may change, and return dtype and rank of each result, or None."""
    try:
        results = _run_quietly(module, example)
    except Exception:  # of sizes that forward does not take
        return None
    types: list[Any] = []
    for leaf in tree_leaves(results):
        is_tensor = _is_tensor(leaf)
        types.append((leaf.dtype, leaf.dim()) if is_tensor else type(leaf))
    return types


# ---- a run in torch ------------------------------------------------------------------------------


@contextmanager
def kept_attributes(module: Any) -> Iterator[None]:
    """Undo changes that forward makes to plain attributes of the module.

    A single small picture, for example, shrinks the windows of a Swin permanently.
    """
    before = [(part, dict(vars(part))) for part in module.modules()]
    try:
        yield
    finally:
        for part, attributes in before:
            for name in vars(part).keys() - attributes.keys():
                del vars(part)[name]
            vars(part).update(attributes)


def check_runs(example: Example) -> None:
    """Refuse arguments for which the module does not run in torch.

    It is called only after something else has failed.

    Parameters
    ----------
    example : Example
        Its module runs on copies of the weights and buffers.

    Raises
    ------
    ModelError
    """
    module = example.module
    weights = dict(module.named_parameters()) | dict(module.named_buffers())
    weights = tree_map_only(torch.Tensor, _copied, weights)

    def call(*args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(module, weights, args, kwargs)

    try:
        # The user saw the warnings in the attempt that has failed.
        _run_quietly(call, example)
    except Exception as error:
        line = line_of_error(error)
        raise ModelError(
            f"{example.where}, {line}" if line else example.where,
            expected="arguments that forward takes",
            got=sanitize(first_line(error), 600),
            next="an example for which module(*args) runs in torch",
        ) from None


def _run_quietly(function: Callable[..., Any], example: Example) -> Any:
    """Call a function with copies of an example's arguments.

    Warnings are silenced, gradients are off, and the random state is kept.
    """
    args, kwargs = tree_map_only(torch.Tensor, _copied, (example.args, example.kwargs))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with CheckedSizes():
            return function(*args, **kwargs)


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone()


def first_line(error: BaseException) -> str:
    """Write the type of an error and the first line of its text, which may be a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    if lines:
        return f"{name}: {lines[0].removesuffix('.')}"
    return name


def line_of_error(error: BaseException) -> str:
    """Name the user's line in which an error of torch began."""
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        frames.append((frame.f_code.co_filename, line))
    # The first belongs to the caller here.
    return line_in(frames[1:])

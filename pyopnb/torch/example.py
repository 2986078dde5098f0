"""Check a module and its example arguments before torch gets them."""

from __future__ import annotations

import copy
import importlib
import inspect
import itertools
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pyopnb.errors import InputError, ModelError
from pyopnb.ops.messages import sanitize
from pyopnb.torch.foreign import ForeignCalls
from pyopnb.torch.sizes import expanded_shapes, requested_dimensions
from pyopnb.torch.source import line_in

__all__ = [
    "bound_arguments",
    "check_example",
    "check_runs",
    "clone_aliased",
    "enlarged",
    "in_order",
    "line_of_error",
    "tensors_in",
    "widened",
    "with_caches",
]

_ON_META = "one on the device meta"


def check_example(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, any_numbers: bool = False
) -> None:
    """Refuse what is no module with values in evaluation mode, and arguments that forward lacks.

    Parameters
    ----------
    module : torch.nn.Module
    args : tuple
    kwargs : mapping, optional
    any_numbers : bool
        Take a module that trains or holds NaN.

    Raises
    ------
    InputError, ModelError
    """
    _check_module(module, any_numbers)
    if not isinstance(args, tuple):
        got = f"list of {len(args)}" if isinstance(args, list) else type(args).__name__
        raise InputError("args", expected="a tuple of the module's arguments", got=got, next="(x,)")
    _check_kwargs(kwargs)
    _check_arguments(module, args, kwargs or {})
    for number, leaf in enumerate(torch.utils._pytree.tree_leaves((args, dict(kwargs or {})))):
        if isinstance(leaf, torch.Tensor) and leaf.is_meta:
            where, expected = f"args, tensor {number}", "a tensor with values"
            raise ModelError(where, expected=expected, got=_ON_META, next="torch.randn(…)")


# ---- the module ------------------------------------------------------------------------------


def _check_module(module: Any, any_numbers: bool) -> None:
    if isinstance(module, type):
        got, suggestion = f"class {module.__name__}", f"{module.__name__}().eval()"
        raise InputError("module", expected="a torch.nn.Module", got=got, next=suggestion)
    if not isinstance(module, torch.nn.Module):
        raise InputError("module", expected="a torch.nn.Module", got=type(module).__name__)
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
        got = "one of a lazy layer, not initialised"
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


# ---- its arguments ---------------------------------------------------------------------------


def _check_kwargs(kwargs: Any) -> None:
    if kwargs is None or (isinstance(kwargs, Mapping) and set(map(type, kwargs)) <= {str}):
        return
    # The third argument of torch.onnx.export is a file.
    suggestion = "pyopnb.save(pyopnb.torch.export(module, args), path) for a file"
    expected, got = "a dict of parameter names and arguments", sanitize(type(kwargs).__name__)
    raise InputError("kwargs", expected=expected, got=got, next=suggestion)


def _check_arguments(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that forward has no parameters for, and arrays, which torch does not take."""
    signature = inspect.signature(module.forward)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        names = ", ".join(signature.parameters)
        expected = sanitize(f"the arguments of forward({names})", 300)
        got = f"{len(args)} in args, {len(kwargs)} in kwargs: {sanitize(error)}"
        raise InputError("args", expected=expected, got=got) from None
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            where, suggestion = f"args, {sanitize(name)}", f"torch.from_numpy({sanitize(name)})"
            got = "numpy.ndarray"
            raise InputError(where, expected="a torch.Tensor", got=got, next=suggestion)


def in_order(module: Any, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Sort keyword arguments like forward's parameters, which is the order of a program's inputs."""
    ordered = {}
    for name in inspect.signature(module.forward).parameters:
        if kwargs is not None and name in kwargs:
            ordered[name] = kwargs[name]
    return {**ordered, **(kwargs or {})}


def bound_arguments(module: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Bind an example to the parameters of forward."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def with_caches(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> Any:
    """Let torch look into transformers' caches, and write ``dynamic_shapes`` as it takes it.

    Parameters
    ----------
    module, args, kwargs
        As for `pyopnb.torch.export`.
    dynamic_shapes : object
        One entry may stand for all tensors of a cache.

    Returns
    -------
    object
        ``dynamic_shapes`` with an entry for each argument, and for each tensor of a cache.
    """
    for leaf in torch.utils._pytree.tree_leaves((args, kwargs)):
        if type(leaf).__module__ == "transformers.cache_utils":
            exporting = importlib.import_module("transformers.integrations.executorch")
            exporting.register_dynamic_cache_export_support()
            break
    try:
        arguments = bound_arguments(module, args, kwargs or {})
    except (AttributeError, TypeError):
        # The capture says what is wrong with them.
        return dynamic_shapes
    return expanded_shapes(dynamic_shapes, arguments)


def clone_aliased(args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Clone a tensor that torch would take for more than its numbers.

    Of one that is given twice, torch expects that every later call gives it twice. Of a part of a larger tensor,
    as ``data[:3, :6]``, its exporter asks for the strides, and fails.

    Parameters
    ----------
    args : tuple
    kwargs : mapping

    Returns
    -------
    args : tuple
    kwargs : dict
    """
    seen: set[int] = set()

    def cloned(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        is_repeated = id(leaf) in seen
        seen.add(id(leaf))
        is_part = leaf.layout == torch.strided and not leaf.is_contiguous()
        if not is_repeated and not is_part:
            return leaf
        return leaf.detach().clone(memory_format=torch.contiguous_format)

    pair: tuple[Any, Any] = torch.utils._pytree.tree_map(cloned, (args, dict(kwargs)))
    return pair


def widened(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> tuple[Any, Any] | None:
    """Give 2 where an axis that is to be open has size 0 or 1, since torch takes these for constants.

    Parameters
    ----------
    module, args, kwargs, dynamic_shapes
        As for `pyopnb.torch.export`.

    Returns
    -------
    (tuple, dict) or None
        Arguments with size 2 there, for which forward returns results of the same ranks. None where there
        are no such axes, or forward takes no 2 there.
    """
    example = args, in_order(module, kwargs)
    requests = requested_dimensions(dynamic_shapes, bound_arguments(module, *example))
    narrow_axes = []
    for number, (tensor, request) in enumerate(zip(tensors_in(example), requests, strict=False)):
        sizes = dict(enumerate(tensor.shape))
        narrow_axes += [(number, axis) for axis in request if sizes.get(axis) in (0, 1)]
    wider, _ = enlarged(module, *example, narrow_axes)
    return wider


def enlarged(
    module: Any, args: Any, kwargs: Any, places: Sequence[tuple[int, int]]
) -> tuple[tuple[Any, Any] | None, set[tuple[int, int]]]:
    """Repeat an example along axes, by tensor and axis.

    Parameters
    ----------
    module, args, kwargs
        The keywords in the order of forward's parameters.
    places : sequence of (int, int)

    Returns
    -------
    wider : (tuple, dict) or None
        Arguments for which forward returns results of the same ranks, if there are any.
    changed : set of (int, int)
        The places that have another size there.
    """
    wider, changed = None, set[tuple[int, int]]()
    if not places:
        return wider, changed
    try:
        scratch = copy.deepcopy(module)
    except Exception:  # modules may hold what cannot be copied: files, locks, results of autograd
        return wider, changed
    spy = ForeignCalls()
    with spy:
        types = _types_of_results(scratch, args, kwargs)
    if spy.seen:
        # Rows of zeros are no values of the user's, and code that is not torch's may divide by them.
        tensors = tensors_in((args, kwargs))
        places = [(number, axis) for number, axis in places if tensors[number].shape[axis] > 0]
        if not places:
            return wider, changed
    # All of them together, as inputs share a batch; then one by one.
    for group in (places, *([axis] for axis in places)):
        candidate = _repeated(wider or (args, kwargs), group)
        if types is not None and _types_of_results(scratch, *candidate) == types:
            wider = candidate
            changed.update(group)
            if group is places:
                break
    return wider, changed


def tensors_in(values: Any) -> list[Any]:
    """List the tensors among values."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _repeated(example: Any, places: Collection[tuple[int, int]]) -> Any:
    """Give the tensors of an example their numbers twice along axes, by tensor and axis, or two rows of zeros."""
    numbers = itertools.count()

    def repeated(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        number = next(numbers)
        for axis in [axis for position, axis in places if position == number]:
            if leaf.shape[axis] > 0:
                leaf = leaf.detach().repeat_interleave(2, axis)
            else:
                leaf = leaf.new_zeros((*leaf.shape[:axis], 2, *leaf.shape[axis + 1 :]))
        return leaf

    return torch.utils._pytree.tree_map(repeated, example)


def _types_of_results(module: Any, args: Any, kwargs: Any) -> list[Any] | None:
    """Run a module that may change, and return dtype and rank of each result, or None."""
    args, kwargs = torch.utils._pytree.tree_map(_copied, (args, kwargs))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = module(*args, **kwargs)
    except Exception:  # of sizes that forward does not take
        return None
    types: list[Any] = []
    for leaf in torch.utils._pytree.tree_leaves(results):
        is_tensor = isinstance(leaf, torch.Tensor)
        types.append((leaf.dtype, leaf.dim()) if is_tensor else type(leaf))
    return types


# ---- a run in torch --------------------------------------------------------------------------


def check_runs(module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments for which the module does not run in torch; asked when something else has failed.

    Parameters
    ----------
    module : torch.nn.Module
        It runs on copies of its weights and buffers.
    args, kwargs
        Its arguments.

    Raises
    ------
    ModelError
    """
    weights = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        weights[name] = tensor.detach().clone()
    copies = torch.utils._pytree.tree_map(_copied, (args, dict(kwargs)))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # The user saw the warnings in the attempt that has failed.
            warnings.simplefilter("ignore")
            torch.func.functional_call(module, weights, *copies)
    except Exception as error:
        where, line = f"module {sanitize(type(module).__name__)}", line_of_error(error)
        lines = [text.strip() for text in str(error).splitlines() if text.strip()]
        text = lines[0].removesuffix(".") if lines else "no text"
        got = f"{type(error).__name__}: {text}"
        raise ModelError(
            f"{where}, {line}" if line else where,
            expected="arguments that forward takes",
            got=sanitize(got, 600),
            next="an example for which module(*args) runs in torch",
        ) from None


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def line_of_error(error: BaseException) -> str:
    """Name the user's line in which an error of torch's began."""
    frames, step = [], error.__traceback__
    while step is not None:
        frames.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    # The first is that of the caller here.
    return line_in(frames[1:])

"""An exported model run on the example, and its results held against torch's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnx import ModelProto

from pyopnb.errors import ModelError
from pyopnb.ops.messages import plural, sanitize
from pyopnb.runtime.session.session import Session
from pyopnb.torch.arrays import to_array
from pyopnb.torch.program import example_tensors
from pyopnb.torch.sizes import OpenSizes

__all__ = [
    "RELATIVE",
    "Fault",
    "feeds_of",
    "first_difference",
    "results_of",
    "verify",
    "wrong_sizes",
]

RELATIVE = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}
"""By dtype how far a result may be from torch's, as a part of the largest number of that output."""


def feeds_of(
    model: ModelProto, args: Any, kwargs: Mapping[str, Any] | None
) -> dict[str, np.ndarray]:
    """Make feeds of the example.

    Parameters
    ----------
    model : ModelProto
    args, kwargs
        The module's arguments.

    Returns
    -------
    dict

    Raises
    ------
    ModelError
        The model has other inputs than there are tensors.
    """
    names = [entry.name for entry in model.graph.input]
    leaves = _input_leaves(names, args, kwargs)
    return {name: _array(leaf) for name, leaf in zip(names, leaves, strict=True)}


def _input_leaves(names: Sequence[str], args: Any, kwargs: Mapping[str, Any] | None) -> list[Any]:
    """List the tensors among the arguments, or tensors and numbers if numbers are inputs as well."""
    leaves = example_tensors(args, kwargs)
    if len(leaves) != len(names):
        every = torch.utils._pytree.tree_leaves((args, dict(kwargs or {})))
        leaves = [leaf for leaf in every if isinstance(leaf, (torch.Tensor, bool, int, float))]
    if len(leaves) != len(names):
        expected = f"{plural(len(names), 'tensor')}: {', '.join(names)}"
        raise ModelError("args", expected=expected, got=str(len(leaves)))
    return leaves


def _array(value: Any) -> np.ndarray:
    return to_array(value) if isinstance(value, torch.Tensor) else np.asarray(value)


def results_of(module: Any, args: Any, kwargs: Mapping[str, Any] | None) -> list[np.ndarray]:
    """What torch makes of the example: the tensors and numbers among the results, as arrays."""
    args, kwargs = copy.deepcopy((_detached(args), _detached(dict(kwargs or {}))))
    with torch.no_grad():
        results = module(*args, **kwargs)
    leaves = torch.utils._pytree.tree_leaves(results)
    return [_array(leaf) for leaf in leaves if isinstance(leaf, (torch.Tensor, bool, int, float))]


def _detached(values: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, values
    )


@dataclass(frozen=True)
class Fault:
    """What is wrong with an exported model.

    Attributes
    ----------
    text : str
        The first output that differs and by how much, or what the runtime raised.
    error : Exception or None
        The latter.
    """

    text: str
    error: Exception | None = None


def verify(
    model: ModelProto, module: Any, args: Any, kwargs: Mapping[str, Any] | None
) -> Fault | None:
    """Run an exported model in ONNX Runtime, and compare it with torch.

    It is run on the example, and on the example with every float a hundredth larger: that keeps what forward may rely on
    (order, signs, symmetry), while a model in which a result of the example became a constant gives that one again.

    Parameters
    ----------
    model : ModelProto
    module : torch.nn.Module
    args, kwargs
        The module's arguments.

    Returns
    -------
    Fault or None
        None where all results agree.
    """
    try:
        session = Session(model)
        fault = _difference(session, model, module, args, kwargs)
        return fault or _difference_farther_on(session, model, module, args, kwargs)
    except ModelError as error:
        return Fault(str(error), error)
    except Exception as error:  # what ONNX Runtime raises has no common base; the caller raises it if no op takes the call over
        return Fault(f"{type(error).__name__}: {error}", error)


def _difference(
    session: Any, model: ModelProto, module: Any, args: Any, kwargs: Any
) -> Fault | None:
    return _first_fault(session, model, results_of(module, args, kwargs), args, kwargs, "")


def _difference_farther_on(
    session: Any, model: ModelProto, module: Any, args: Any, kwargs: Any
) -> Fault | None:
    args, kwargs = _larger((args, dict(kwargs or {})))
    try:
        expected = results_of(module, args, kwargs)
    except (
        Exception
    ):  # of a module that has no result there, as for probabilities above 1; then this says nothing
        return None
    if not all(
        np.isfinite(each.astype(np.float64)).all()
        for each in expected
        if each.dtype.name in RELATIVE
    ):
        return None
    return _first_fault(
        session, model, expected, args, kwargs, f", for the arguments times {_STEP}"
    )


_STEP = 1.01


def _larger(values: Any) -> Any:
    """The arguments with floats a little larger, those that are infinite or not a number as they are."""

    def larger(leaf: Any) -> Any:
        if (
            isinstance(leaf, torch.Tensor)
            and (leaf.is_floating_point() or leaf.is_complex())
            and not leaf.is_quantized
        ):
            return (
                (leaf.detach().double() * _STEP).to(leaf.dtype)
                if not leaf.is_complex()
                else leaf.detach() * _STEP
            )
        return leaf

    return torch.utils._pytree.tree_map(larger, values)


def _first_fault(
    session: Any, model: ModelProto, expected: list[np.ndarray], args: Any, kwargs: Any, where: str
) -> Fault | None:
    got = session.run(None, feeds_of(model, args, kwargs))
    if len(got) != len(expected):
        return Fault(f"{plural(len(got), 'output')}, where torch has {len(expected)}{where}")
    for entry, mine, theirs in zip(model.graph.output, got, expected, strict=True):
        difference = first_difference(mine, theirs)
        if difference:
            return Fault(f"output {sanitize(entry.name)}: {difference}{where}")
    return None


def wrong_sizes(
    model: ModelProto,
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    bounds: Mapping[str, tuple[int, int]],
    deadline: float,
) -> dict[str, str]:
    """Run an exported model at other sizes of its free dimensions, and compare it with torch.

    Parameters
    ----------
    model : ModelProto
    module : torch.nn.Module
    args, kwargs
        The module's arguments.
    bounds : mapping
        By name of a dimension the least and the largest size that the user wants.
    deadline : float
        Of `time.monotonic`: nothing more is tried then if nothing was wrong so far.

    Returns
    -------
    dict of str to str
        By name of a dimension what is wrong where it has another size. Sizes that torch itself
        does not take are none of them.
    """
    leaves = _input_leaves([entry.name for entry in model.graph.input], args, kwargs)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    infos = zip(model.graph.input, leaves, strict=True)
    dims = [_dims_of(info, leaf) for info, leaf in infos if isinstance(leaf, torch.Tensor)]
    sizes = OpenSizes(dims, tensors, bounds)
    if not sizes.example:
        return {}
    session = Session(model)

    def fault(resized: list[Any]) -> str | None:
        ahead = iter(resized)

        def other(leaf: Any) -> Any:
            return next(ahead) if isinstance(leaf, torch.Tensor) else leaf

        other_args, other_kwargs = torch.utils._pytree.tree_map(other, (args, dict(kwargs or {})))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of sizes that the user never gave
                expected = results_of(module, other_args, other_kwargs)
        except Exception:  # of a module that does not take these sizes, whatever it raises
            return None
        try:
            found = _first_fault(session, model, expected, other_args, other_kwargs, "")
        except Exception as error:  # what ONNX Runtime raises has no common base
            return f"{type(error).__name__}: {error}"
        return None if found is None else found.text

    return sizes.at_fault(fault, deadline)


def _dims_of(info: Any, tensor: Any) -> list[int | str]:
    dims: list[int | str] = []
    for dim, size in zip(info.type.tensor_type.shape.dim, tensor.shape, strict=True):
        dims.append(dim.dim_param or int(size))
    return dims


def first_difference(mine: Any, theirs: np.ndarray) -> str | None:
    """How an array differs from torch's; None where it does not, but for rounding."""
    mine = np.asarray(mine)
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return f"{mine.dtype}{list(mine.shape)}, where torch has {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.name not in RELATIVE:
        differing = int((mine != theirs).sum())
        return f"{differing} of {theirs.size} differ" if differing else None
    wide, exact = mine.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(exact)
    if (
        not np.array_equal(wide[~finite], exact[~finite], equal_nan=True)
        or not np.isfinite(wide[finite]).all()
    ):
        return "inf or NaN in other places"
    if not finite.any():
        return None
    apart, largest = np.abs(wide[finite] - exact[finite]).max(), np.abs(exact[finite]).max()
    limit = RELATIVE[theirs.dtype.name] * largest
    return (
        f"off by {apart:.2g} where the largest number is {largest:.2g}" if apart > limit else None
    )

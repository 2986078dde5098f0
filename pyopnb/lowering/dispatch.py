"""Which of NumPy's functions become ONNX operators, and how a call of one is carried out.

Each call is carried out twice: by NumPy itself on the example, which settles shape, dtype and every error, and by a function of
this room that records nodes. What depends on nothing but constants is left to NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pyopnb.lowering.arrays import Traced
from pyopnb.lowering.refusal import refuse
from pyopnb.lowering.tensors import Tensor, cast
from pyopnb.lowering.values import is_constant, plain

__all__ = ["METADATA", "REASONS", "TABLE", "Lowering", "call", "fit", "lowers", "name_of"]

Lowering = Callable[..., Any]
_Lowering = TypeVar("_Lowering", bound=Lowering)

TABLE: dict[Any, Lowering] = {}
"""NumPy's function or ufunc → what records its nodes: called with NumPy's own result and the arguments."""

METADATA = {
    np.result_type,
    np.can_cast,
    np.iscomplexobj,
    np.isrealobj,
    np.min_scalar_type,
    np.common_type,
}
"""Functions that look at dtypes alone."""

_OF_SIZES = {np.shape, np.size, np.ndim}

REASONS: dict[Any, tuple[str, str | None]] = {}
"""NumPy's function → why there is no way, and what to write instead."""


def lowers(*functions: Any) -> Callable[[_Lowering], _Lowering]:
    """Register what records the nodes of some functions."""

    def register(lowering: _Lowering) -> _Lowering:
        TABLE.update(dict.fromkeys(functions, lowering))
        return lowering

    return register


def name_of(function: Any) -> str:
    """A function as the user types it."""
    module = getattr(function, "__module__", None) or "numpy"
    if isinstance(function, np.ufunc):
        module = "numpy" if getattr(np, function.__name__, None) is function else "scipy.special"
    module = (
        module.replace("numpy.", "np.")
        .replace("numpy", "np")
        .replace("._core", "")
        .replace("np.fromnumeric", "np")
    )
    return f"{module}.{getattr(function, '__name__', function)}"


def call(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of NumPy's on values of which some are traced.

    Raises
    ------
    Refusal
        There is no way, or not for these arguments.
    Exception
        What NumPy raises on the example.
    """
    if function in METADATA:
        return function(*plain(args), **plain(kwargs))
    out = kwargs.get("out")
    kwargs = {
        key: value
        for key, value in kwargs.items()
        if key not in ("out", "order", "subok", "like", "copy", "casting")
    }
    result = function(*plain(args), **plain(kwargs))
    if is_constant(args) and is_constant(kwargs):
        made = _wrap_constants(result)
    else:
        lowering = TABLE.get(function)
        if lowering is None:
            why, next_ = REASONS.get(
                function, (f"{name_of(function)}, for which there is no operator", None)
            )
            refuse(why, next_)
        _check_arguments(function, lowering, args, kwargs)
        made = _record(function, lowering, result, args, kwargs)
    if out is None:
        return made
    target = out[0] if isinstance(out, tuple) else out
    target[...] = made
    return target


def _wrap_constants(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return (
            type(result)(map(_wrap_constants, result))
            if type(result) in (tuple, list)
            else tuple(map(_wrap_constants, result))
        )
    return Traced(result) if isinstance(result, np.ndarray) else result


def _check_arguments(
    function: Any, lowering: Lowering, args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Drop arguments that have their default, and refuse those that the lowering does not know."""
    parameters = inspect.signature(lowering).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for key in list(kwargs):
        if key in parameters:
            continue
        if kwargs[key] is None or kwargs[key] is np._NoValue:
            del kwargs[key]
        else:
            refuse(f"{name_of(function)} with {key}=")
    try:
        inspect.signature(lowering).bind(None, *args, **kwargs)
    except TypeError:
        refuse(f"{name_of(function)} with these arguments")


def _record(
    function: Any, lowering: Lowering, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    def record() -> Any:
        return lowering(result, *args, **kwargs)

    made = record()
    if function in _OF_SIZES:
        return made
    if isinstance(made, Tensor):
        source = _source_of(result, args)
        rederive = None if source is None else lambda: fit(record(), result)
        return Traced(result, fit(made, result), source=source, rederive=rederive)
    if isinstance(made, (list, tuple)) and isinstance(result, (list, tuple)):
        sources = [_source_of(value, args) for value in result]
        parts = []
        for place, (value, tensor, source) in enumerate(zip(result, made, sources, strict=True)):
            rederive = (
                None
                if source is None
                else lambda place=place, value=value: fit(record()[place], value)
            )
            parts.append(Traced(value, fit(tensor, value), source=source, rederive=rederive))
        return type(result)(parts) if type(result) in (tuple, list) else tuple(parts)
    return made


def _source_of(result: Any, args: Sequence[Any]) -> Traced | None:
    """The argument of which NumPy's result is a view."""
    if not isinstance(result, np.ndarray):
        return None
    flat = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else (arg,))]
    for arg in flat:
        if (
            isinstance(arg, Traced)
            and isinstance(arg.value, np.ndarray)
            and np.may_share_memory(result, arg.value)
        ):
            return arg
    return None


def fit(tensor: Tensor, result: Any) -> Tensor:
    """A tensor with the dtype of NumPy's result, whose rank and known sizes it must have."""
    result = np.asarray(result)
    made = cast(tensor, result.dtype)
    if made.ndim != result.ndim or any(
        d is not None and d != n for d, n in zip(made.dims, result.shape, strict=True)
    ):
        raise AssertionError(
            f"nodes of shape {made.dims} were recorded where NumPy gives {result.shape}"
        )
    return made

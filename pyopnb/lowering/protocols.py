"""How NumPy hands its calls to what is traced: NEP 13 (``__array_ufunc__``) and NEP 18 (``__array_function__``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyopnb.lowering.refusal import refuse

__all__ = ["call", "call_ufunc"]


def call(function: Any, args: Any, kwargs: Mapping[str, Any] | None = None) -> Any:
    """Call a function of NumPy's with what is traced among its arguments."""
    from pyopnb.lowering.dispatch import call  # which is written in terms of the traced classes

    return call(function, args, kwargs or {})


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call a ufunc, or a method of it, ``np.add.reduce``, as the function of NumPy's that does the same."""
    if method == "__call__" and ufunc is np.divmod:
        return call(np.floor_divide, inputs), call(np.remainder, inputs)
    if method == "__call__":
        return call(ufunc, inputs, kwargs)
    reduced = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}
    reduced |= {np.logical_and: np.all, np.logical_or: np.any}
    if method == "reduce" and ufunc in reduced:
        array, *rest = inputs
        axis = rest[0] if rest else kwargs.get("axis", 0)
        return call(
            reduced[ufunc],
            (array, axis, *rest[1:]),
            {key: value for key, value in kwargs.items() if key != "axis"},
        )
    added = {np.add: np.cumsum, np.multiply: np.cumprod}
    if method == "accumulate" and ufunc in added:
        return call(added[ufunc], inputs, {"axis": 0, **kwargs} if len(inputs) == 1 else kwargs)
    if method == "outer":
        a, b = inputs
        return call(ufunc, (call(np.reshape, (a, (*np.shape(a), *[1] * np.ndim(b)))), b))
    refuse(
        f"np.{ufunc.__name__}.{method}", _INSTEAD.get((ufunc, method), _INSTEAD.get((None, method)))
    )


_INSTEAD: dict[tuple[np.ufunc | None, str], str] = {
    (
        np.maximum,
        "accumulate",
    ): "np.where(np.tri(n, dtype=bool), x[..., None, :], -np.inf).max(-1), with n = x.shape[-1]",
    (
        np.minimum,
        "accumulate",
    ): "np.where(np.tri(n, dtype=bool), x[..., None, :], np.inf).min(-1), with n = x.shape[-1]",
    (
        None,
        "at",
    ): "sums by a table of bools, (index == np.arange(n)[:, None]) @ x, or y[index] = x where no index comes twice",
    (None, "reduceat"): "slices, or a product with a table of bools",
}

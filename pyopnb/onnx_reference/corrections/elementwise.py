"""Operators that combine elements of any number of tensors."""

from __future__ import annotations

from typing import Any

from pyopnb.catalog.cores.precision import widen

__all__ = ["mean"]


def mean(first: Any, *others: Any) -> Any:
    """Return the mean of tensors that are broadcast."""
    total = widen(first)
    for other in others:
        total = total + widen(other)
    return (total / (len(others) + 1)).astype(first.dtype)

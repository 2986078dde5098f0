"""The rules for the NumPy functions, each of which registers itself in `pyopnb.lowering.rules`."""

from pyopnb.lowering.numpy import (
    alternatives,
    choices,
    compositions,
    divisions,
    indexing,
    lookups,
    products,
    reductions,
    repeats,
    shapes,
    sorting,
    ufuncs,
)

__all__ = [
    "alternatives",
    "choices",
    "compositions",
    "divisions",
    "indexing",
    "lookups",
    "products",
    "reductions",
    "repeats",
    "shapes",
    "sorting",
    "ufuncs",
]

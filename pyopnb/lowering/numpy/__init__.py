"""The rules for NumPy's functions, each of which registers itself in `pyopnb.lowering.rules`."""

from pyopnb.lowering.numpy import (
    alternatives,
    choices,
    divisions,
    flips,
    indexing,
    lookups,
    parts,
    products,
    reductions,
    repeats,
    shapes,
    sorting,
    triangles,
    ufuncs,
)

__all__ = [
    "alternatives",
    "choices",
    "divisions",
    "flips",
    "indexing",
    "lookups",
    "parts",
    "products",
    "reductions",
    "repeats",
    "shapes",
    "sorting",
    "triangles",
    "ufuncs",
]

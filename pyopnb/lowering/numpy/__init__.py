"""The rules for NumPy's functions, each of which registers itself in `pyopnb.lowering.rules`."""

from pyopnb.lowering.numpy import (
    alternatives,
    diagonals,
    flips,
    indexing,
    parts,
    products,
    reductions,
    repeats,
    shapes,
    sorting,
    ufuncs,
)

__all__ = [
    "alternatives",
    "diagonals",
    "flips",
    "indexing",
    "parts",
    "products",
    "reductions",
    "repeats",
    "shapes",
    "sorting",
    "ufuncs",
]

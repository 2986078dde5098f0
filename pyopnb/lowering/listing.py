"""Which functions of NumPy become ONNX operators, and which do not, as text."""

from __future__ import annotations

import textwrap

import numpy as np

from pyopnb.lowering import indexing, products, shapes, sorting, ufuncs  # noqa: F401  # each registers its functions
from pyopnb.lowering.dispatch import REASONS, TABLE, name_of
from pyopnb.lowering.namespace import MAKERS
from pyopnb.lowering.values import METHODS

__all__ = ["listing"]

_WIDTH = 110


def listing() -> str:
    """All functions and methods that `lower` knows, and why others are refused.

    Returns
    -------
    str
    """
    functions = sorted({*map(name_of, TABLE), *(f"np.{name}" for name in MAKERS)}, key=str.lower)
    methods = sorted({name for name in METHODS if getattr(np, name) in TABLE} | _OWN)
    lines = ["traced:", *_wrapped(functions), "methods:", *_wrapped([f".{name}" for name in methods]), "refused:"]
    for why, advice in sorted({(why, advice) for why, advice in REASONS.values()}, key=lambda pair: pair[0].lower()):
        lines.append(f"  {why}{f'. Try: {advice}' if advice else ''}")
    return "\n".join(lines)


_OWN = {"astype", "copy", "fill", "flatten", "reshape", "sort", "transpose", "T", "shape", "size", "ndim", "dtype"}


def _wrapped(names: list[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)

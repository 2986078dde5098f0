"""Which functions of NumPy become ONNX operators, and which do not, as text."""

from __future__ import annotations

import textwrap
from operator import attrgetter

import numpy as np

import pyopnb.lowering.numpy  # noqa: F401  # each rule registers its functions
from pyopnb.lowering.namespace import MAKERS
from pyopnb.lowering.rules import REASONS, TABLE, name_of
from pyopnb.lowering.tracing import METHODS
from pyopnb.ops.text_table import Table

__all__ = ["COMMON", "common", "listing"]

_WIDTH = 110

COMMON = (
    *(
        "abs",
        "sign",
        "sqrt",
        "exp",
        "log",
        "log1p",
        "tanh",
        "sin",
        "power",
        "square",
        "floor",
        "round",
        "clip",
        "maximum",
    ),
    *(
        "minimum",
        "where",
        "select",
        "isnan",
        "isclose",
        "nan_to_num",
        "logical_and",
        "sum",
        "prod",
        "mean",
        "var",
        "std",
        "max",
    ),
    *(
        "argmax",
        "any",
        "all",
        "median",
        "percentile",
        "cumsum",
        "cumprod",
        "diff",
        "sort",
        "argsort",
        "partition",
        "searchsorted",
    ),
    *(
        "unique",
        "bincount",
        "nonzero",
        "take",
        "take_along_axis",
        "reshape",
        "transpose",
        "expand_dims",
        "squeeze",
    ),
    *(
        "concatenate",
        "stack",
        "split",
        "tile",
        "repeat",
        "pad",
        "roll",
        "flip",
        "tril",
        "meshgrid",
        "broadcast_to",
        "zeros",
    ),
    *(
        "arange",
        "linspace",
        "eye",
        "matmul",
        "einsum",
        "linalg.norm",
        "linalg.inv",
        "fft.rfft",
        "interp",
    ),
)
"""NumPy's functions that ops are mostly made of, without ``np.``."""


def common() -> Table:
    """Tell for each of `COMMON` whether `lower` traces it, or why not.

    Returns
    -------
    Table
    """
    return Table(("NumPy", ""), [(f"np.{name}", _fate(name)) for name in COMMON])


def _fate(name: str) -> str:
    function = attrgetter(name)(np)
    if function in TABLE or name in MAKERS:
        return "traced"
    why, advice = REASONS[function]
    return f"refused: {why}{f'. Try: {advice}' if advice else ''}"


def listing() -> str:
    """List all functions and methods that `lower` knows, and why others are refused.

    Returns
    -------
    str
    """
    functions = sorted({*map(name_of, TABLE), *(f"np.{name}" for name in MAKERS)}, key=str.lower)
    methods = sorted({name for name in METHODS if getattr(np, name) in TABLE} | _OWN)
    lines = [
        "traced:",
        *_wrapped(functions),
        "methods:",
        *_wrapped([f".{name}" for name in methods]),
        "refused:",
    ]
    for why, advice in sorted(
        {(why, advice) for why, advice in REASONS.values()}, key=lambda pair: pair[0].lower()
    ):
        lines.append(f"  {why}{f'. Try: {advice}' if advice else ''}")
    return "\n".join(lines)


_OWN = {
    "astype",
    "copy",
    "fill",
    "flatten",
    "reshape",
    "sort",
    "transpose",
    "T",
    "shape",
    "size",
    "ndim",
    "dtype",
}


def _wrapped(names: list[str]) -> list[str]:
    return textwrap.wrap(
        ", ".join(names),
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )

"""The parts of a diff of arrays, their statistics, and how they are written."""

from __future__ import annotations

from pyopnb.diffs.arrays.diff import compared
from pyopnb.diffs.arrays.files import ENDINGS, arrays_in
from pyopnb.diffs.arrays.mismatch import mismatch
from pyopnb.diffs.arrays.pairs import FEW, Pairs
from pyopnb.diffs.arrays.parts import VERDICTS, Part
from pyopnb.diffs.arrays.report import (
    detail_lines,
    format_index,
    format_number,
    part_lines,
    summarize,
)
from pyopnb.diffs.arrays.stats import ArrayStats
from pyopnb.diffs.arrays.ulp import rounding_error
from pyopnb.diffs.tolerances import TOLERANCES, is_float

__all__ = [
    "ENDINGS",
    "FEW",
    "TOLERANCES",
    "VERDICTS",
    "ArrayStats",
    "Pairs",
    "Part",
    "arrays_in",
    "compared",
    "detail_lines",
    "format_index",
    "format_number",
    "is_float",
    "mismatch",
    "part_lines",
    "rounding_error",
    "summarize",
]

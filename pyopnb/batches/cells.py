"""The cells of a table of runs, for `map` and `sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyopnb.batches.work import BatchRun
from pyopnb.common import sanitize
from pyopnb.traces import Summary

__all__ = ["output_names", "result_cells", "short_text"]


def output_names(runs: Sequence[BatchRun]) -> list[str]:
    """List the outputs of runs, by the first that has a result; none if all raised."""
    for run in runs:
        if run.result is not None:
            return list(run.result.keys())
    return []


def result_cells(run: BatchRun, names: Sequence[str]) -> list[str]:
    """Describe each output of a run in a few words, or its exception in the first cell.

    Parameters
    ----------
    names : sequence of str
        The outputs.
    """
    if run.result is None:
        text = sanitize(f"{type(run.error).__name__}: {run.error}", 80)
        return [text, *[""] * (len(names) - 1)]
    return [_output_text(run.result[name]) for name in names]


def _output_text(value: Any) -> str:
    """Describe an output: its value if it is a single number, else its range and mean."""
    is_array = isinstance(value, (np.ndarray, np.generic))
    if is_array and value.size == 1 and value.dtype.kind not in "OUT":
        return short_text(value.item())
    summary = Summary.of(value)
    type_text, span, *_, special = summary.cells
    # An output that is neither numbers nor texts has no range, and shows its type instead.
    text = span or type_text
    # The mean of equal elements is the range itself.
    if summary.mean is not None and summary.least != summary.greatest:
        text += f", mean {summary.mean:.4g}"
    return ", ".join(filter(None, [text, special]))


def short_text(value: Any) -> str:
    """Write a value into a few characters."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return sanitize(value, 40)

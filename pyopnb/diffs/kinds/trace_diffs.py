"""Diffs of runs and of their times, and the steps in them."""

from __future__ import annotations

from pyopnb.diffs.profiles import ProfileDiff
from pyopnb.diffs.traces.diff import TraceDiff
from pyopnb.diffs.traces.optimizers import OptimizerDiff
from pyopnb.diffs.traces.quantized import QuantizedTensor
from pyopnb.diffs.traces.steps import ComparedStep, ComparedTensor

__all__ = [
    "ComparedStep",
    "ComparedTensor",
    "OptimizerDiff",
    "ProfileDiff",
    "QuantizedTensor",
    "TraceDiff",
]

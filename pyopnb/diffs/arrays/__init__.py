"""Differences between arrays, and between results and nested values made of them."""

from pyopnb.common.messages import require_native

require_native("pyopnb.diffs.arrays._stats")

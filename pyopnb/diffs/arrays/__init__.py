"""Differences between arrays, and between results and nested values made of them."""

from pyopnb.common import require_native

require_native("pyopnb.diffs.arrays._stats")

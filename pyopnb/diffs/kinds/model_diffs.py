"""Diffs of models and of ops, and the changes in them."""

from __future__ import annotations

from pyopnb.diffs.models.change import Change, NodeAt
from pyopnb.diffs.models.diff import ModelDiff, format_change
from pyopnb.diffs.ops import OpDiff

__all__ = ["Change", "ModelDiff", "NodeAt", "OpDiff", "format_change"]

"""How long anything may take before a test calls it a hang: far longer than the slowest machine under load needs."""

from __future__ import annotations

import os

LIMIT = float(os.environ.get("PYOPNB_TEST_LIMIT", "600"))
"""Seconds. Only a deadlock reaches it, so that a loaded machine fails no test."""


def examples(count: int) -> int:
    """How many examples hypothesis draws for a test that takes long: all in make test-all, a quarter elsewhere."""
    return count if os.environ.get("everywhere") else count // 4  # noqa: SIM112

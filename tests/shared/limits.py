"""How long anything may take before a test calls it a hang: far longer than the slowest machine under load needs."""

from __future__ import annotations

import os

LIMIT = float(os.environ.get("PYOPNB_TEST_LIMIT", "600"))
"""Seconds. Only a deadlock reaches it, so that a loaded machine fails no test."""

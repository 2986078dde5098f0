"""What the searches of this room find, beside diffs."""

from __future__ import annotations

from pyopnb.diffs.node_sensitivity import Sensitivity
from pyopnb.diffs.reduction import Reduction
from pyopnb.diffs.run_stability import HEAD, Stability, StabilityRow

__all__ = ["HEAD", "Reduction", "Sensitivity", "Stability", "StabilityRow"]

"""Profilers that hold frames of `compute`, and so its variables, while they sample."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["are_frames_held"]


def are_frames_held() -> bool:
    """Tell whether a Dask worker in this process profiles its tasks.

    A frame that another thread holds keeps its variables past the end of the call, so an input can
    seem to have been kept. Other profilers that sample from a thread do not say that they run.
    """
    module: Any = sys.modules.get("distributed.worker")
    if module is None:
        return False
    return any("profile" in worker.periodic_callbacks for worker in list(module.Worker._instances))

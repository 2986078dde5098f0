"""Sessions whose idle threads sleep.

Threads of ONNX Runtime spin for some 30 ms after each run, in case another follows. Tests make
thousands of sessions and run each a few times: on two cores, half of the CPU time of those with
many sessions went there, and lanes that run at once had less of it.
"""

from __future__ import annotations

import functools
from typing import Any

import onnxruntime

__all__ = ["calm"]


def calm(init: Any) -> Any:
    """``InferenceSession.__init__`` with other defaults: what a test says of spinning counts."""

    @functools.wraps(init)
    def calmly(self, path_or_bytes, sess_options=None, *arguments, **named):
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        for key in ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning"):
            if not _has(options, key):
                options.add_session_config_entry(key, "0")
        init(self, path_or_bytes, options, *arguments, **named)

    return calmly


def _has(options: onnxruntime.SessionOptions, key: str) -> bool:
    try:
        options.get_session_config_entry(key)
    except RuntimeError:
        return False
    return True

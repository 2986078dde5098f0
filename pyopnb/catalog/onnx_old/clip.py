"""Clip of ONNX version 1, with an attribute that lets it write into its input.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Clip-1. ``consumed_inputs`` changes no result.
Tested against the NumPy clip, exactly.
"""

import numpy as np

NAMES = ("::Clip",)
VERSIONS = (1,)


class Clip_1:
    """Limit elements to an interval; a missing limit does not apply."""

    def __init__(
        self,
        min: float = -3.4028234663852886e38,
        max: float = 3.4028234663852886e38,
        consumed_inputs: list[int] = [],
    ):
        self.limits = (min, max)

    def infer(self, x):
        return x

    def compute(self, x):
        # The limits of float32 do not fit into float16, and become its infinities.
        with np.errstate(over="ignore"):
            lowest, highest = np.array(self.limits).astype(x.dtype)
        return x.clip(lowest, highest)

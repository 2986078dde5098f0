"""Clip_TRT, the limits of UFF files.

Defined in NVIDIA/TensorRT v8.6.1, plugin/clipPlugin/clip.cu. It is gone from later releases. Tested
against the NumPy clip, exactly.
"""

NAMES = ("::Clip_TRT", "TRT::Clip_TRT")


class Clip_TRT:
    """Limit elements to an interval."""

    def __init__(
        self,
        clipMin: float,
        clipMax: float,
        plugin_version: str = "1",
        plugin_namespace: str = "",
    ):
        self.limits = (clipMin, clipMax)

    def infer(self, x):
        return x

    def compute(self, x):
        # NumPy takes Python numbers in the dtype of the array, but for bfloat16.
        return x.clip(*self.limits).astype(x.dtype)

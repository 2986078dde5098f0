"""DisentangledAttention_TRT, the attention of DeBERTa in NVIDIA's and the ONNX Runtime files.

Defined in NVIDIA/TensorRT v10.12.0, plugin/disentangledAttentionPlugin/disentangledKernel.cu. It is
compiled as its version 2, with logarithmic buckets. Differs: releases before 22.07 cut positions
off linearly, and no file tells which one it was made for. Tested against a loop by its definition,
to 1e-5.
"""

import numpy as np

NAMES = (
    "::DisentangledAttention_TRT",
    "TRT::DisentangledAttention_TRT",
    "trt.plugins::DisentangledAttention_TRT",
)


class DisentangledAttention_TRT:
    """Add the scores content to content, content to position and position to content, and scale."""

    def __init__(
        self, span: int, factor: float, plugin_version: str = "1", plugin_namespace: str = ""
    ):
        self.span = span
        self.factor = np.float32(factor)

    def infer(self, content, content_to_position, position_to_content):
        return content

    def compute(self, content, content_to_position, position_to_content):
        length = content.shape[1]
        positions = np.arange(length)
        bucket = positions[:, None] - positions
        bucket = self._bucket(bucket)
        forward = np.take_along_axis(content_to_position, bucket[None], axis=2)
        # Of the other scores, the row is the key: the bucket of query minus key is looked up there.
        backward = np.take_along_axis(position_to_content, bucket.T[None], axis=2)
        total = content.astype(np.float32) + forward.astype(np.float32)
        total = total + backward.transpose(0, 2, 1).astype(np.float32)
        return (total * self.factor).astype(content.dtype)

    def _bucket(self, distance):
        """Return the column of each distance: one each in the middle, then logarithmic ones."""
        # Half of the span has a bucket for each distance.
        middle = self.span // 2
        size = np.maximum(np.abs(distance), 1)
        size = size.astype(np.float64)
        farthest = (2 * self.span - 1) / middle
        scale = (middle - 1) / np.log(farthest)
        steps = np.log(size / middle) * scale
        steps = np.ceil(steps * (1 - 1e-7)) + middle
        is_near = np.abs(distance) <= middle
        bucket = np.where(is_near, distance, np.sign(distance) * steps)
        result = bucket.astype(np.int64) + self.span
        return result.clip(0, 2 * self.span - 1)

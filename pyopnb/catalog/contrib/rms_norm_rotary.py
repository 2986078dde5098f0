"""RMSNormRotary of com.microsoft, the normalization and rotation of queries and keys in one node.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/bert_defs.cc, version
1. With float16 or with float32 caches all is float32; else normalized values, and in a prefill the
rotation's products too, are rounded to bfloat16 as the text says. Tested against a loop by its
definition, to 2e-2 (bfloat16).
"""

import numpy as np
from ml_dtypes import bfloat16

from pyopnb.catalog.cores.precision import widen

NAMES = ("com.microsoft::RMSNormRotary",)


class RMSNormRotary:
    """Normalize a slice of the last axis, and rotate its first channels by their positions."""

    def __init__(
        self,
        rotary_embedding_dim: int,
        epsilon: float = 1e-6,
        input_start: int = 0,
        input_width: int = 0,
        use_fp32_arithmetic: int = 1,
        flatten_batch: int = 0,
        output_fp16: int = 0,
    ):
        self.rotary = rotary_embedding_dim
        self.epsilon = np.float32(epsilon)
        self.start, self.width = input_start, input_width
        self.is_wide = bool(use_fp32_arithmetic)
        self.flattens = bool(flatten_batch)
        self.dtype = np.dtype(np.float16 if output_fp16 else bfloat16)

    def infer(self, x, scale, positions, cosine, sine, prefill=None):
        normalized = x.like(dtype="float32")
        if x.shape and self.width:
            normalized = normalized.like(shape=(*x.shape[:-1], self.width))
        return x.like(dtype=self.dtype.name, shape=(None,) * 3), normalized

    def compute(
        self, x, scale, positions, cosine, sine, prefill=None
    ) -> ("any[B,S,D]", "float32[...]"):
        is_float32 = np.float16 in (x.dtype, self.dtype) or cosine.dtype == np.float32
        is_prefill = prefill is not None and bool(prefill.item())
        if self.width:
            end = self.start + self.width
        else:
            end = x.shape[-1]
        rows = widen(x[..., self.start : end])
        root = np.square(rows).mean(axis=-1, keepdims=True) + self.epsilon
        root = np.sqrt(root)
        if is_prefill:
            normalized = rows * (1 / root)
        else:
            normalized = rows / root
        # The scale is float32 for every input.
        normalized = normalized * scale
        rounds = not is_float32 and (is_prefill or not self.is_wide)
        if not is_float32:
            normalized = _round(normalized)
        rotated = self._rotate(normalized, self._tables(x, positions, cosine, sine), rounds)
        batch, length = x.shape[:2]
        if self.flattens:
            flat_shape = (1, batch * length, -1)
        else:
            flat_shape = (batch, length, -1)
        return rotated.astype(self.dtype).reshape(flat_shape), normalized

    def _tables(self, x, positions, cosine, sine):
        """Return the cosines and sines of each token, float32[B,S,1,R]."""
        batch, length = x.shape[:2]
        if positions.size == 1:
            # One number is the position of the first token.
            positions = np.broadcast_to(positions.item() + np.arange(length), (batch, length))
        rows = positions.reshape(batch, length)
        cosines = widen(cosine)[rows]
        sines = widen(sine)[rows]
        return cosines[:, :, None], sines[:, :, None]

    def _rotate(self, x, tables, rounds):
        """Rotate pairs of channels that are half the rotary width apart."""
        cosine, sine = tables
        half = self.rotary // 2
        first = x[..., :half]
        second = x[..., half : self.rotary]
        # Each product is rounded by itself where the kernel computes in bfloat16.
        products = [first * cosine, second * sine, first * sine, second * cosine]
        if rounds:
            products = [_round(product) for product in products]
        rotated = x.copy()
        rotated[..., :half] = products[0] - products[1]
        rotated[..., half : self.rotary] = products[2] + products[3]
        return rotated


def _round(x):
    """Round float32 to bfloat16's digits."""
    return x.astype(bfloat16).astype(np.float32)

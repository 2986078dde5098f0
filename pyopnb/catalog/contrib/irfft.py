"""Irfft of com.microsoft, the inverse of Rfft.

Defined in microsoft/onnxruntime, onnxruntime/core/graph/contrib_ops/contrib_defs.cc, version 1.
Like the CUDA kernel, it divides by the size of the signal, whatever ``normalized`` says. The last
axis of a signal is taken to be even.
"""

import numpy as np

from pyopnb.ops.types import TensorType

NAMES = ("com.microsoft::Irfft",)


class Irfft:
    """Transform the last ``signal_ndim`` axes before the one of real and imaginary parts back to real signals."""

    def __init__(self, signal_ndim: int = 1, onesided: int = 1, normalized: int = 0):
        self.signal_ndim = signal_ndim

    def infer(self, x):
        if not x.shape or len(x.shape) < 2:
            return TensorType(x.dtype, None)
        size = x.shape[-2]
        return x.like(shape=(*x.shape[:-2], 2 * (size - 1) if isinstance(size, int) else None))

    def compute(self, x):
        wide = np.float64 if x.dtype == np.float64 else np.float32
        parts = x.astype(wide)
        spectrum = parts[..., 0] + 1j * parts[..., 1]
        axes = tuple(range(-self.signal_ndim, 0))
        return np.fft.irfftn(spectrum, axes=axes).astype(x.dtype)

"""Rfft of com.microsoft, the Fourier transform of real signals in the torch exports for GPUs.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Like the CUDA kernel, it does not scale, and ignores ``normalized``. Tested against
the NumPy numpy.fft, to 1e-5 (float32).
"""

import numpy as np

from pyopnb.catalog.cores.precision import wide_dtype
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::Rfft",)


class Rfft:
    """Transform real signals along the last ``signal_ndim`` axes.

    The output has one more axis, of two, for the real and imaginary parts.
    """

    def __init__(self, signal_ndim: int = 1, onesided: int = 1, normalized: int = 0):
        self.signal_ndim = signal_ndim

    def infer(self, x):
        if not x.shape:
            return TensorType(x.dtype, None)
        size = x.shape[-1]
        frequencies = None
        if isinstance(size, int):
            frequencies = size // 2 + 1
        return x.like(shape=(*x.shape[:-1], frequencies, 2))

    def compute(self, x):
        wide = wide_dtype(x.dtype)
        axes = tuple(range(-self.signal_ndim, 0))
        # NumPy computes float32 in float32 since its version 2.
        spectrum = np.fft.rfftn(x.astype(wide), axes=axes)
        result = np.stack([spectrum.real, spectrum.imag], -1)
        return result.astype(x.dtype)

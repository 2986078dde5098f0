"""Irfft of com.microsoft, the inverse of Rfft.

Defined in microsoft/onnxruntime v1.32.0, onnxruntime/core/graph/contrib_ops/contrib_defs.cc,
version 1. Like the CUDA kernel, it divides by the size of the signal, and ignores ``normalized``.
Differs: the last axis of a signal is taken to be even. Tested against the NumPy numpy.fft, to 1e-5
(float32).
"""

import numpy as np

from pyopnb.catalog.cores.precision import wide_dtype
from pyopnb.engine import TensorType

NAMES = ("com.microsoft::Irfft",)


class Irfft:
    """Transform a spectrum back to real signals, along its last ``signal_ndim`` axes.

    The input has one more axis, the last one, for the real and imaginary parts.
    """

    def __init__(self, signal_ndim: int = 1, onesided: int = 1, normalized: int = 0):
        self.signal_ndim = signal_ndim

    def infer(self, x):
        if not x.shape or len(x.shape) < 2:
            return TensorType(x.dtype, None)
        size = x.shape[-2]
        length = None
        if isinstance(size, int):
            length = 2 * (size - 1)
        return x.like(shape=(*x.shape[:-2], length))

    def compute(self, x):
        wide = wide_dtype(x.dtype)
        parts = x.astype(wide)
        spectrum = parts[..., 0] + 1j * parts[..., 1]
        # The axis of real and imaginary parts is gone by now.
        axes = tuple(range(-self.signal_ndim, 0))
        result = np.fft.irfftn(spectrum, axes=axes)
        return result.astype(x.dtype)

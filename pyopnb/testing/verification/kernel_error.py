"""The errors of the kernels that converted functions run on, which are no fault of a conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyopnb.diffs import array_diffs

__all__ = ["KernelError"]


@dataclass(frozen=True)
class KernelError:
    """The error of the kernels of a runtime, which is no fault of a conversion.

    Attributes
    ----------
    tiny : float
        How far a float32 or float64 result may be off, in multiples of its dtype's
        smallest normal number.
    of_largest : float
        How far it may be off, in units in the last place of the largest number that goes in or out.
        This is for functions of numbers that a body makes itself, ``np.cos(np.arange(n))``, which
        are not moved.
    of_one : float
        How far it may be off, in units in the last place of 1.
    of_row : float
        How far it may be off relative to the largest number of its row and of the example. A label
        beside scores may be another one where the best two are that close.
    """

    tiny: float = 0.0
    of_largest: float = 0.0
    of_one: float = 0.0
    of_row: float = 0.0

    ONNX_RUNTIME: ClassVar[KernelError]
    TORCH: ClassVar[KernelError]
    FOREIGN: ClassVar[KernelError]
    ELEMENTWISE: ClassVar[KernelError]
    SCORES: ClassVar[KernelError]


# Measured with onnxruntime 1.32.0 on x86-64, over 25 kernels, 11 shapes and numbers from 1e-30 to
# 1e6. Among the smallest float32 Tanh is off by up to 0.008 times the smallest normal number (3e-6
# of its result), Erf by 0.004; a body may multiply that by a hundred. No kernel that works element
# by element lost more than 1.7 units in the last place of the largest number; twice that is
# allowed, as a body that subtracts the mean of equal float32 numbers loses 3. Kernels that add lose
# more, one unit for every 12 to 50 terms: the error of NumPy sums covers that in the 1,600
# elements of a verification. Of a million numbers 0.1, ReduceSum, ReduceMean and ReduceL1 are off
# by 0.09 %, where NumPy adds in pairs. onnx-ad writes LSTM, GRU, RNN and Attention out, so that the
# outputs are added up in another order: of 312 such nodes, GRU is off by up to 8 units, Attention
# by 28, the others by 3. Moved inputs account for nearly all of that: with 4 no right model is
# refused, with none 2 of 8 GRUs.
KernelError.ONNX_RUNTIME = KernelError(tiny=1.0, of_largest=4.0)
# Torch and ONNX Runtime add in different orders, and approximate exp, tanh and erf differently.
KernelError.TORCH = KernelError(tiny=1.0, of_largest=16.0)
# The rounding of code that runs on the example alone cannot be measured. This is 1e-3 of the
# largest number for float32.
KernelError.FOREIGN = KernelError(tiny=1.0, of_largest=2.0**13)
# Kernels lose tiny results of single functions.
KernelError.ELEMENTWISE = KernelError(tiny=1.0, of_one=16.0)
# An estimator computes in float64 and the skl2onnx kernels in float32, so that the error of an
# element is relative to the largest: a probability of 1e-30 may be off by 1e-7 or so.
KernelError.SCORES = KernelError(of_row=array_diffs.TOLERANCES["float32"].rtol)

"""BatchNormalization of ONNX before version 7, which says by an attribute whether it is a test.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, BatchNormalization-1 and BatchNormalization-6.
Tested against the ONNX Runtime BatchNormalization of today, and in training its formula in NumPy,
to 1e-5.
"""

import numpy as np

from pyopnb.catalog.cores.precision import widen

NAMES = ("::BatchNormalization",)
VERSIONS = (1, 6)


class BatchNormalization_1:
    """Normalize by running statistics, or in training by the statistics of the batch.

    In training, the outputs after the first one are the new running mean and variance, and the
    batch's mean and variance. With ``spatial`` 0, each position has statistics of its own.
    """

    def __init__(
        self,
        epsilon: float = 1e-5,
        is_test: int = 0,
        momentum: float = 0.9,
        spatial: int = 1,
        consumed_inputs: list[int] = [],
    ):
        self.epsilon = epsilon
        self.is_test = bool(is_test)
        self.momentum = momentum
        self.spatial = bool(spatial)

    def infer(self, x, scale, bias, mean, variance):
        return x, mean, variance, mean, variance

    def compute(
        self, x, scale, bias, mean, variance
    ) -> ("any[...]", "any[...]", "any[...]", "any[...]", "any[...]"):
        values = widen(x)
        batch_mean, batch_variance = mean, variance
        if not self.is_test:
            if self.spatial:
                # Without spatial, only the batch is averaged.
                axes = (0, *range(2, x.ndim))
            else:
                axes = (0,)
            batch_mean = values.mean(axes)
            batch_variance = values.var(axes)
            # The momentum is the share of the old statistics.
            mean = self.momentum * mean + (1 - self.momentum) * batch_mean
            variance = self.momentum * variance + (1 - self.momentum) * batch_variance
        centered = values - self._spread(batch_mean, x)
        deviation = self._spread(batch_variance, x) + self.epsilon
        deviation = np.sqrt(deviation)
        normalized = centered / deviation * self._spread(scale, x)
        normalized = normalized + self._spread(bias, x)
        statistics = (mean, variance, batch_mean, batch_variance)
        return tuple(array.astype(x.dtype) for array in (normalized, *statistics))

    def _spread(self, parameter, x):
        """Give a parameter of each channel, or of each position, the axes of the data."""
        if self.spatial:
            return widen(parameter).reshape(-1, *(1,) * (x.ndim - 2))
        return widen(parameter)

"""Sum of ONNX version 1, with an attribute that lets it write into its inputs.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Sum-1. ``consumed_inputs`` changes no result. Tested
against the ONNX Runtime Sum of today, to 1e-6.
"""

from pyopnb.catalog.cores.precision import wide_dtype

NAMES = ("::Sum",)
VERSIONS = (1,)


class Sum_1:
    """Add tensors of one shape."""

    def __init__(self, consumed_inputs: list[int] = []):
        self.consumed_inputs = consumed_inputs

    def infer(self, *tensors):
        return tensors[0]

    def compute(self, *tensors):
        dtype = tensors[0].dtype
        wide = wide_dtype(dtype)
        total = tensors[0].astype(wide)
        # Inputs have one shape: that version does not broadcast.
        for tensor in tensors[1:]:
            total = total + tensor.astype(wide)
        return total.astype(dtype)

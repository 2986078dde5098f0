"""Cast of ONNX version 1, which names the dtype by a text.

Defined in onnx/onnx v1.2.2, docs/Changelog.md, Cast-1. Tested against the NumPy astype, exactly.
"""

import numpy as np
import onnx

NAMES = ("::Cast",)
VERSIONS = (1,)


class Cast_1:
    """Convert to a dtype that is named as in the ONNX enumeration, FLOAT or INT64."""

    def __init__(self, to: str):
        # Later versions have the number itself.
        number = onnx.TensorProto.DataType.Value(to.upper())
        self.dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))

    def infer(self, x):
        return x.like(dtype=self.dtype.name)

    def compute(self, x):
        return x.astype(self.dtype)

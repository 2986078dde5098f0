"""IsAllFinite of com.microsoft, with which mixed-precision training checks gradients.

Defined in microsoft/onnxruntime v1.19.2, orttraining/orttraining/core/graph/training_op_defs.cc,
version 1. Tested against arrays whose answer is known, exactly.
"""

import numpy as np

NAMES = ("com.microsoft::IsAllFinite",)


class IsAllFinite:
    """Tell whether no element of any input is NaN or infinite.

    ``isinf_only`` and ``isnan_only`` restrict the search to one of the two.
    """

    def __init__(self, isinf_only: int = 0, isnan_only: int = 0):
        self.looks_for_nan = not isinf_only
        self.looks_for_infinity = not isnan_only

    def infer(self, *tensors):
        return tensors[0].like(dtype="bool", shape=())

    def compute(self, *tensors):
        # One bad element in any tensor is enough.
        is_bad = False
        for tensor in tensors:
            if self.looks_for_nan:
                is_bad = is_bad or bool(np.isnan(tensor).any())
            if self.looks_for_infinity:
                is_bad = is_bad or bool(np.isinf(tensor).any())
        return np.bool_(not is_bad)

    def lowered(self, *tensors):
        names = [f"tensor_{number}" for number in range(len(tensors))]
        counts = []
        nodes = "zero = Constant<value_float = 0.0>()"
        for name in names:
            nodes += f"""
            {name}_32 = Cast<to = 1>({name})
            {name}_nan = IsNaN({name}_32)
            {name}_inf = IsInf({name}_32)
            {name}_both = Or({name}_nan, {name}_inf)"""
            looked_for = "both" if self.looks_for_nan else "inf"
            if not self.looks_for_infinity:
                looked_for = "nan"
            nodes += f"""
            {name}_bad = Cast<to = 1>({name}_{looked_for})
            {name}_count = ReduceSum<keepdims = 0>({name}_bad)"""
            counts.append(f"{name}_count")
        return f"""({", ".join(names)}) => (is_finite) {{
            {nodes}
            total = Sum({", ".join(counts)})
            is_bad = Greater(total, zero)
            is_finite = Not(is_bad)
        }}"""

"""AliasWithName and the copies between devices, with which detectron2's tracer names tensors.

Defined in pytorch/pytorch v1.13.1, caffe2/operators/alias_with_name.h and copy_op.cc. Tested
against its input, exactly.
"""

NAMES = (
    "org.pytorch._caffe2::AliasWithName",
    "org.pytorch._caffe2::CopyCPUToGPU",
    "org.pytorch._caffe2::CopyGPUToCPU",
)


class AliasWithName:
    """Return the input."""

    def __init__(self, name: str = "", is_backward: int = 0):
        self.name = name

    def infer(self, x):
        return x

    def compute(self, x):
        # An op may not return its input: the runtime owns that memory.
        return x.copy()

    def lowered(self, x):
        # Outside of Python, no memory is owned twice.
        return "(x) => (y) { y = Identity(x) }"

"""MaskedFill of onnxruntime-extensions, which keeps the strings that a mask selects.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/text/masked_fill.cc. Tested against
onnxruntime-extensions, exactly.
"""

NAMES = ("ai.onnx.contrib::MaskedFill",)


class MaskedFill:
    """Return the strings where the mask is true."""

    def infer(self, value, mask):
        return value.like(shape=(None,))

    def compute(self, value, mask):
        # Despite its name, nothing is filled: masked elements are gone.
        return value[mask]

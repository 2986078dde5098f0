"""Nodes that hold a model from a vendor's compiler.

Defined in microsoft/onnxruntime, onnxruntime/core/graph/contrib_ops/contrib_defs.cc (EPContext,
Snpe), and in its example of OpenVINO's wrapper. The attribute is machine code or a graph in a
format of the vendor, and nothing in the file describes its computation.
"""

NAMES = (
    "com.microsoft::EPContext",
    "com.microsoft::Snpe",
    "test.customop.ov::OpenVINO_Wrapper",
)
REFUSAL = "it holds a binary that only the vendor's runtime reads"
INSTEAD = (
    "the execution provider that compiled it (onnxruntime-qnn for QNN and Snpe, "
    "onnxruntime-openvino for OpenVINO), or the model as it was before"
)

"""ModelProtos as sessions need them: built, read, ordered and inferred."""

from pyopnb.common import require

# Here, as this is the first room that `import pyopnb` enters.
require("onnx", "1.19", "onnx")
require(
    "onnxruntime",
    "1.25",
    "onnxruntime (or onnxruntime-gpu, -directml or -openvino, of which one is enough)",
)

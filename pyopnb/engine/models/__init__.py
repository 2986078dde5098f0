"""ModelProtos as sessions need them: built, read, ordered and inferred."""

from pyopnb.common import open_door, require

# Here, as this is the first room that `import pyopnb` enters.
require("onnx", "1.19", "onnx")
require(
    "onnxruntime",
    "1.25",
    "onnxruntime (or onnxruntime-gpu, -directml or -openvino, of which one is enough)",
)

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

"""The readers and writers of image and audio files of onnxruntime-extensions.

Defined in microsoft/onnxruntime-extensions, operators/vision and operators/audio, in C++. They wrap
the decoders of the system, whose pixels differ in the last bit between libraries.
"""

NAMES = (
    "com.microsoft.extensions::AudioDecoder",
    "com.microsoft.extensions::DrawBoundingBoxes",
    "com.microsoft.extensions::ImageReader",
    "ai.onnx.contrib::AudioDecoder",
    "ai.onnx.contrib::DrawBoundingBoxes",
    "ai.onnx.contrib::ImageReader",
)

REFUSAL = "it wraps decoders of files in C++"
INSTEAD = (
    "pip install onnxruntime-extensions, then in the session's options "
    "register_custom_ops_library(onnxruntime_extensions.get_library_path())"
)

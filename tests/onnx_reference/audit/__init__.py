"""Every ONNX operator in every version: the reference held against a kernel or a plain loop."""

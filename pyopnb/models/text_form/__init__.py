"""The ONNX text form, read and written without loss."""

"""ONNX's text form, read and written without loss."""

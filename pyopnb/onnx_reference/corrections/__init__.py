"""Operators that the onnx reference computes wrongly or not at all, in plain NumPy."""

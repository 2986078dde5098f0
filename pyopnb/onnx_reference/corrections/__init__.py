"""Operators that onnx's reference implementation computes wrongly or not at all, in plain NumPy."""

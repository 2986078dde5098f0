"""Operators of com.microsoft that ONNX Runtime runs on GPUs only."""

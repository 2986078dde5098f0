"""Operators that ONNX removed, and that files of its first years still hold."""

"""Ops inside ONNX Runtime: the native bridge, sessions, retired PyOp nodes."""

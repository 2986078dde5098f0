"""Operators as their definitions say, where ONNX Runtime has no kernel."""

LOOPS = {}

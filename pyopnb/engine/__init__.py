"""What makes a Python class run in ONNX Runtime: ops, the models of sessions, the runtime."""

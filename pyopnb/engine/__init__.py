"""The engine, which runs Python classes in ONNX Runtime: ops, session models, the runtime."""

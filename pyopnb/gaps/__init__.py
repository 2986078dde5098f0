"""What the installed ONNX Runtime cannot run, and what stands in for it."""

"""What the installed ONNX Runtime cannot run, from its own lists of operators and kernels."""

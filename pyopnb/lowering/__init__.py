"""A way out: ops as functions of ONNX operators, which plain ONNX Runtime runs."""

"""ModelProtos: read, walked, known to onnx, prepared for the installed runtime."""

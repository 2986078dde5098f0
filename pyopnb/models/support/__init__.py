"""Find nodes that the installed ONNX Runtime cannot run, by its own operators and kernels."""

"""String operators of onnxruntime-extensions, found in models whose tokenizers are elsewhere."""

"""Operators of onnxruntime-training, found in the files of models that were being trained."""

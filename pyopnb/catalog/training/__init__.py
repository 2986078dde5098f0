"""Operators that onnxruntime-training adds to a model, in files of models that were being trained."""

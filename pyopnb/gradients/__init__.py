"""Models that compute gradients, by onnx-ad's reverse rules and the ops' own ``backward``."""

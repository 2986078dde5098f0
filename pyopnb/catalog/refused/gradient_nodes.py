"""Gradient, an operator of the ONNX preview that names other parts of its graph.

Defined in onnx/onnx, docs/Operators.md, domain ai.onnx.preview.training, version 1. The node has no
formula: it means the derivative of the nodes between the tensors that its attrs name.
"""

NAMES = ("ai.onnx.preview.training::Gradient",)
REFUSAL = "it means the derivative of other nodes of its graph"
INSTEAD = "remove the node and let pyopnb.grad write the nodes of the gradient"

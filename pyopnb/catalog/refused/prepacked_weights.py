"""Products whose weights a GPU library has already ordered for its kernels.

Defined in microsoft/onnxruntime, onnxruntime/contrib_ops/cuda: the order of the bytes depends on
the GPU for which they were packed, and is documented by the packing kernels only.
"""

NAMES = ("com.microsoft::MatMulPacked", "com.microsoft::MoEPacked")
REFUSAL = "its weights are packed for one kind of GPU, in an order that is nowhere documented"
INSTEAD = "onnxruntime-gpu, or the model as it was before the weights were packed"

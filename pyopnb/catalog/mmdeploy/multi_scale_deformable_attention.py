"""The attention of deformable DETR, which mmdeploy and TensorRT have as an operator.

Defined in open-mmlab/mmdeploy v1.3.1,
csrc/mmdeploy/backend_ops/tensorrt/multi_scale_deform_attn/trt_ms_deform_attn_kernel.cu. Tested
against the ONNX Runtime GridSample, level by level, to 1e-4.
"""

from pyopnb.catalog.cores.deformable_attention import attend
from pyopnb.engine import TensorType

NAMES = ("mmdeploy::MMCVMultiScaleDeformableAttention",)


class MMCVMultiScaleDeformableAttention:
    """Sample values on all levels at each query's points, and sum them by the attention weights.

    The heads of a query share one axis of the result, float[B,Q,M·D].
    """

    def __init__(self, im2col_step: int = 64):
        self.im2col_step = im2col_step

    def infer(self, value, shapes, level_start, locations, weights):
        if value.shape is None or locations.shape is None:
            return TensorType(value.dtype, None)
        batch, _, heads, size = value.shape
        if isinstance(heads, int) and isinstance(size, int):
            width = heads * size
        else:
            width = None
        shape = (batch, locations.shape[1], width)
        return value.like(shape=shape)

    def compute(self, value, shapes, level_start, locations, weights):
        # TensorRT's plugin keeps the heads apart; here they are joined.
        attended = attend(value, shapes, level_start, locations, weights)
        batch, queries, heads, size = attended.shape
        return attended.reshape(batch, queries, heads * size)

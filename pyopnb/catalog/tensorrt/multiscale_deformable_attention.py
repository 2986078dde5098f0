"""MultiscaleDeformableAttnPlugin_TRT, the attention of deformable DETR as TensorRT has it.

Defined in NVIDIA/TensorRT v10.12.0,
plugin/multiscaleDeformableAttnPlugin/multiscaleDeformableAttn.cu. Tested against ONNX Runtime's
GridSample, level by level, to 1e-4.
"""

from pyopnb.catalog.cores.deformable_attention import attend
from pyopnb.engine import TensorType

NAMES = ("::MultiscaleDeformableAttnPlugin_TRT", "TRT::MultiscaleDeformableAttnPlugin_TRT")


class MultiscaleDeformableAttnPlugin_TRT:
    """Sample values on all levels at each query's points, and sum them with the attention weights.

    The result is float[B,Q,M,D].
    """

    def __init__(self, plugin_version: str = "1", plugin_namespace: str = ""):
        self.plugin_version = plugin_version

    def infer(self, value, shapes, level_start, locations, weights):
        if value.shape is None or locations.shape is None:
            return TensorType(value.dtype, None)
        batch, _, heads, size = value.shape
        shape = (batch, locations.shape[1], heads, size)
        return value.like(shape=shape)

    def compute(self, value, shapes, level_start, locations, weights):
        # Heads stay apart, unlike in mmdeploy's operator.
        return attend(value, shapes, level_start, locations, weights)

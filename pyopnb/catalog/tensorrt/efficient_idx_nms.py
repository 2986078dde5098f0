"""EfficientIdxNMS_TRT, which also gives the numbers of the boxes, for masks and key points.

Defined in laugh12321/TensorRT-YOLO afc06ec,
modules/plugin/efficientIdxNMSPlugin/efficientIdxNMSInference.cu. The rules come from
EfficientNMS_TRT. Differs: as EfficientNMS_TRT; and with boxes for each class, the number is the
box's, where the plugin gives (box * classes + class) % boxes. Tested against ONNX Runtime's
NonMaxSuppression, and the input's boxes at its numbers, exactly.
"""

from pyopnb.catalog.cores.efficient_nms_form import efficient_nms_form
from pyopnb.catalog.tensorrt.efficient_nms import EfficientNMS_TRT as EfficientNMS

NAMES = ("TRT::EfficientIdxNMS_TRT", "::EfficientIdxNMS_TRT")


class EfficientIdxNMS_TRT(EfficientNMS):
    """Select the best boxes of all classes, and say which they are."""

    def infer(self, boxes, scores, anchors=None):
        outputs = super().infer(boxes, scores, anchors)
        return (*outputs, outputs[3])

    def compute(
        self, boxes, scores, anchors=None
    ) -> (
        "int32[B,1]",
        "any[B,M,4]",
        "any[B,M]",
        "int32[B,M]",
        "int32[B,M]",
    ):
        return self._detect(boxes, scores, anchors)

    def lowered(self, boxes, scores, anchors=None):
        return efficient_nms_form(self, boxes, scores, anchors, gives_numbers=True)

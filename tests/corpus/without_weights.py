"""Models in whose main graph and bodies no float that may be changed reaches an output: no copy of them can be perturbed."""

from __future__ import annotations

__all__ = ["WITHOUT_WEIGHTS"]

_NAMES = """
    onnxscript functions | onnx PixelShuffle | onnx MaxPool3d_stride_padding | onnx operator_repeat | onnx expand_shape_model1
    onnx sequence_model1 | onnx sequence_model4 | onnx scan9_sum | onnx strnorm_model_nostopwords_nochangecase
    onnx lstm_with_peepholes | onnx string_concat_broadcasting | onnx range_float_type_positive_delta_expanded
    onnx center_crop_pad_crop_axes_hwc_expanded
"""
WITHOUT_WEIGHTS = {name.strip() for line in _NAMES.splitlines() for name in line.split("|")}

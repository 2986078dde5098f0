"""Models of scikit-learn in ONNX Runtime, also where skl2onnx has no converter.

``import pyopnb.sklearn``. `convert` asks skl2onnx for everything that it converts rightly, and makes an op of each fitted
estimator that it does not; `filled` lists these. skl2onnx and scikit-learn are imported here, and nowhere else.
"""

from __future__ import annotations

try:
    from skl2onnx import update_registered_converter
except ImportError as error:
    raise ImportError("pyopnb.sklearn needs scikit-learn and skl2onnx. Type: pip install 'pyopnb[sklearn]'") from error

from pyopnb.sklearn.convert import convert, feeds
from pyopnb.sklearn.fitted import FittedEstimator, filled

__all__ = ["FittedEstimator", "convert", "feeds", "filled", "update_registered_converter"]

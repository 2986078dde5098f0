"""A way out: ops as functions of ONNX operators, which plain ONNX Runtime runs."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

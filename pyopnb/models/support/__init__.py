"""Find nodes that the installed ONNX Runtime cannot run, by its own operators and kernels."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

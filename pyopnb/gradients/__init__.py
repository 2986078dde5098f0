"""Models that compute gradients, by the reverse rules of onnx-ad and the ops' own ``backward``."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

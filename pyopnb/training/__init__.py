"""Training in ONNX Runtime.

A model, its gradient and an optimizer's update are one graph, whose weights stay in memory.
"""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

# Its views register themselves, also for what comes out of a pickle.
from pyopnb.training import view as _view  # noqa: E402, F401

"""Models, traces, tensors, ops and diffs as text, HTML and pictures."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

"""Every named tensor of a run: which to expose, their values, and how long each node took."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

"""Copies of models with other nodes in them."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

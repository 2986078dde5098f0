"""The algorithms that several operators of the catalog share."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

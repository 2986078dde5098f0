"""What each kind of diff consists of, for views and for rooms that compare."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

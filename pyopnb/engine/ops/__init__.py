"""Define ops: their dtypes, the schemas of their classes, and the registry of their versions."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

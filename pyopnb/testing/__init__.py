"""Assertions for users' tests, and a check whether an op is ready for use."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

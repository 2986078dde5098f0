"""Texts of messages, and how far long work is."""

from pyopnb.common.installed import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

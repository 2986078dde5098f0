"""Differences between two of a kind: arrays, models, traces, versions of an op."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

"""Run a session many times, by the workers of an executor: `map` and `sweep`."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

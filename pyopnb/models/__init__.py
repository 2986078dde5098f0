"""Work on a ModelProto: its text form, edits, files, and support by the installed runtime."""

from pyopnb.common import open_door

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

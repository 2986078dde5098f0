"""Ops inside ONNX Runtime: the native bridge, sessions, retired PyOp nodes."""

from pathlib import Path

from pyopnb.common import open_door, require_native

require_native("pyopnb.engine.runtime._bridge")

INCLUDE_FOLDER = Path(__file__).parent / "include"
"""The headers of the bridge, with which ops in C++ are compiled."""

__getattr__, __dir__, __all__ = open_door(__name__, __file__)

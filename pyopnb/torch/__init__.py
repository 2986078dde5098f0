"""Torch modules in ONNX Runtime.

Every torch op that the exporter lacks becomes a node that calls torch itself.

torch and onnxscript are imported when a name of this package is first used.
"""

from __future__ import annotations

from typing import Any

from pyopnb.common import open_door, require

_find_name, __dir__, __all__ = open_door(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for package, least in (("torch", "2.13"), ("onnxscript", "0.7"), ("onnx_ir", "0.2")):
            require(package, least, "'pyopnb[torch]'")
    return _find_name(name)

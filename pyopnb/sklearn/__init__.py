"""Models of scikit-learn in ONNX Runtime, also where skl2onnx has no converter.

`convert` asks skl2onnx for everything that it converts rightly, and makes an op of each fitted
estimator that it does not; `filled` lists these. scikit-learn and skl2onnx are imported when a name
of this package is first used.
"""

from __future__ import annotations

import sys
from typing import Any

from pyopnb.common import open_door, require
from pyopnb.engine import op_inference

_find_name, __dir__, __all__ = open_door(__name__, __file__)


def _require() -> None:
    for package, least in (("sklearn", "1.6"), ("skl2onnx", "1.20")):
        require(package, least, "'pyopnb[sklearn]'")


def __getattr__(name: str) -> Any:
    if name in __all__ and "skl2onnx" in sys.modules:
        _require()
    elif name in __all__:
        # It makes a class for each operator of onnx.defs, and splits their names at underscores.
        op_inference.without_schemas(_require)
    return _find_name(name)

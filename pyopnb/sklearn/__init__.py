"""Models of scikit-learn in ONNX Runtime, also where skl2onnx has no converter.

`convert` asks skl2onnx for everything that it converts rightly, and makes an op of each fitted
estimator that it does not; `filled` lists these. scikit-learn and skl2onnx are imported when a name
of this package is first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyopnb.common.installed import import_at_first_use, require
from pyopnb.engine.models.op_inference import without_schemas

if TYPE_CHECKING:
    from skl2onnx import update_registered_converter

    from pyopnb.sklearn.conversion import convert
    from pyopnb.sklearn.fitted import FittedEstimator, RunsInPython, filled
    from pyopnb.sklearn.inputs import feeds

__all__ = [
    "FittedEstimator",
    "RunsInPython",
    "convert",
    "feeds",
    "filled",
    "update_registered_converter",
]

_HOMES = {
    "FittedEstimator": "pyopnb.sklearn.fitted",
    "RunsInPython": "pyopnb.sklearn.fitted",
    "convert": "pyopnb.sklearn.conversion",
    "feeds": "pyopnb.sklearn.inputs",
    "filled": "pyopnb.sklearn.fitted",
    "update_registered_converter": "skl2onnx",
}


def _require() -> None:
    for package, least in (("sklearn", "1.6"), ("skl2onnx", "1.20")):
        require(package, least, "'pyopnb[sklearn]'")


def __getattr__(name: str) -> Any:
    if name in _HOMES and "skl2onnx" in sys.modules:
        _require()
    elif name in _HOMES:
        # It makes a class for each operator of onnx.defs, and splits their names at underscores.
        without_schemas(_require)
    return import_at_first_use(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)

"""Torch modules in ONNX Runtime.

Every torch op that the exporter lacks becomes a node that calls torch itself.

torch and onnxscript are imported when a name of this package is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyopnb.common.installed import import_at_first_use, require

if TYPE_CHECKING:
    from pyopnb.torch.conversion import export, missing
    from pyopnb.torch.functions import TorchFunction, op
    from pyopnb.torch.holes import Hole
    from pyopnb.torch.recording import trace
    from pyopnb.torch.reports import Report, StandIns, report

__all__ = [
    "Hole",
    "Report",
    "StandIns",
    "TorchFunction",
    "export",
    "missing",
    "op",
    "report",
    "trace",
]

_HOMES = {
    "Hole": "pyopnb.torch.holes",
    "Report": "pyopnb.torch.reports",
    "StandIns": "pyopnb.torch.reports",
    "TorchFunction": "pyopnb.torch.functions",
    "export": "pyopnb.torch.conversion",
    "missing": "pyopnb.torch.conversion",
    "op": "pyopnb.torch.functions",
    "report": "pyopnb.torch.reports",
    "trace": "pyopnb.torch.recording",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        for package, least in (("torch", "2.13"), ("onnxscript", "0.7")):
            require(package, least, "'pyopnb[torch]'")
    return import_at_first_use(__name__, name, _HOMES)


def __dir__() -> list[str]:
    return list(__all__)

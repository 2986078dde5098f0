"""Write the ONNX operator that you are missing in a notebook cell, and watch it run inside ONNX Runtime a moment later."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import onnx as _onnx  # noqa: F401  # from here and not from further down: measured to be 20 ms faster

from pyopnb.models import schemas as _schemas  # noqa: F401  # onnx.defs follows the registry from here on
from pyopnb.ops import drawn as _drawn
from pyopnb.ops.errors import (
    DefinitionError,
    EscapedInput,
    FeedError,
    ModelError,
    ModuleRefused,
    NotationError,
    PyopError,
    ResultError,
    SchemaChanged,
    UnknownOp,
)
from pyopnb.ops.registry import pyop, registry
from pyopnb.ops.types import TensorType, tensor_type
from pyopnb.runtime.library import get_library_path
from pyopnb.runtime.session import Result, Session, SessionRebuilt

if TYPE_CHECKING:
    from pyopnb.changes.models import ModelDiff
    from pyopnb.changes.versions import OpDiff
    from pyopnb.checks.fitness import check
    from pyopnb.compare.diffs import Diff
    from pyopnb.diffs.diff import diff
    from pyopnb.divergence.bisected import first_divergence
    from pyopnb.divergence.traces import TraceDiff
    from pyopnb.edits.replaced import replace
    from pyopnb.edits.tapped import wrap
    from pyopnb.gaps.missing import Missing, missing
    from pyopnb.graphs.build import model, node
    from pyopnb.graphs.text import parse, text
    from pyopnb.models.evaluator import reference_ops
    from pyopnb.notebook.live.interact import interact
    from pyopnb.notebook.live.watch import watch
    from pyopnb.runtime.once import call, run, trace
    from pyopnb.standins.fill import Filled, fill
    from pyopnb.standins.reference import reference
    from pyopnb.standins.skeleton import skeleton
    from pyopnb.traces.trace import Trace
    from pyopnb.travel.kept import KeptOp
    from pyopnb.travel.loaded import Loaded, load
    from pyopnb.travel.modules import load_module, save_module
    from pyopnb.travel.saved import save
    from pyopnb.viewer.view import NetronView, netron
    from pyopnb.views.show import show
    from pyopnb.views.view import View

__version__ = "0.1.0"

__all__ = [
    "DefinitionError",
    "Diff",
    "EscapedInput",
    "FeedError",
    "Filled",
    "KeptOp",
    "Loaded",
    "Missing",
    "ModelDiff",
    "ModelError",
    "ModuleRefused",
    "NetronView",
    "NotationError",
    "OpDiff",
    "PyopError",
    "Result",
    "ResultError",
    "SchemaChanged",
    "Session",
    "SessionRebuilt",
    "TensorType",
    "Trace",
    "TraceDiff",
    "UnknownOp",
    "View",
    "call",
    "check",
    "diff",
    "fill",
    "first_divergence",
    "get_library_path",
    "interact",
    "load",
    "load_module",
    "missing",
    "model",
    "netron",
    "node",
    "parse",
    "pyop",
    "reference",
    "reference_ops",
    "registry",
    "replace",
    "run",
    "save",
    "save_module",
    "show",
    "skeleton",
    "tensor_type",
    "text",
    "trace",
    "watch",
    "wrap",
]

_AT_FIRST_USE = {
    "pyopnb.changes.models": ["ModelDiff"],
    "pyopnb.changes.versions": ["OpDiff"],
    "pyopnb.checks.fitness": ["check"],
    "pyopnb.compare.diffs": ["Diff"],
    "pyopnb.diffs.diff": ["diff"],
    "pyopnb.divergence.bisected": ["first_divergence"],
    "pyopnb.divergence.traces": ["TraceDiff"],
    "pyopnb.edits.replaced": ["replace"],
    "pyopnb.edits.tapped": ["wrap"],
    "pyopnb.gaps.missing": ["Missing", "missing"],
    "pyopnb.graphs.build": ["model", "node"],
    "pyopnb.graphs.text": ["parse", "text"],
    "pyopnb.models.evaluator": ["reference_ops"],
    "pyopnb.notebook.live.interact": ["interact"],
    "pyopnb.notebook.live.watch": ["watch"],
    "pyopnb.runtime.once": ["call", "run", "trace"],
    "pyopnb.standins.fill": ["Filled", "fill"],
    "pyopnb.standins.reference": ["reference"],
    "pyopnb.standins.skeleton": ["skeleton"],
    "pyopnb.traces.trace": ["Trace"],
    "pyopnb.travel.kept": ["KeptOp"],
    "pyopnb.travel.loaded": ["Loaded", "load"],
    "pyopnb.travel.modules": ["load_module", "save_module"],
    "pyopnb.travel.saved": ["save"],
    "pyopnb.viewer.view": ["NetronView", "netron"],
    "pyopnb.views.show": ["show"],
    "pyopnb.views.view": ["View"],
}
"""What a script that only runs ops does not pay for: these modules are imported when one of their names is first used."""

_HOMES = {name: module for module, names in _AT_FIRST_USE.items() for name in names}


_drawn.draw_with(lambda: importlib.import_module("pyopnb.views.show"))


def __getattr__(name: str) -> Any:
    if name == "testing":  # as numpy.testing is there without an import of its own
        return importlib.import_module("pyopnb.testing")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=importlib.import_module(__name__))
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext pyopnb`` calls. IPython is imported here and not before."""
    from pyopnb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """What ``%unload_ext pyopnb`` calls."""
    from pyopnb.notebook.extension import unload

    unload(shell)

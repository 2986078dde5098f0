"""Write the ONNX operator that you are missing in a notebook cell, and watch it run inside ONNX Runtime a moment later."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import onnx as _onnx  # noqa: F401  # first: importing it from a module further down takes 20 ms longer

from pyopnb.errors import PyopError
from pyopnb.models import op_inference as _op_inference  # noqa: F401  # onnx.defs follows the registry from here on
from pyopnb.ops import displayable as _displayable
from pyopnb.ops.definitions import pyop
from pyopnb.ops.registry import registry
from pyopnb.ops.result import Result
from pyopnb.ops.types import TensorType, tensor_type
from pyopnb.runtime import forms as _forms
from pyopnb.runtime.callbacks import get_library_path
from pyopnb.runtime.session import Session

if TYPE_CHECKING:
    from pyopnb.batches.map import Batches, map
    from pyopnb.batches.sweep import Sweep, sweep
    from pyopnb.compile.cpp import cpp_op
    from pyopnb.compile.library import write_library
    from pyopnb.diffs.api import diff
    from pyopnb.diffs.arrays.diff import Diff
    from pyopnb.diffs.models.diff import ModelDiff
    from pyopnb.diffs.ops import OpDiff
    from pyopnb.diffs.profiles import ProfileDiff
    from pyopnb.diffs.traces.bisect import first_divergence
    from pyopnb.diffs.traces.diff import TraceDiff
    from pyopnb.display.netron.view import NetronView, netron
    from pyopnb.display.show import show
    from pyopnb.display.view import View
    from pyopnb.gradients.grad import grad
    from pyopnb.lowering.form_table import Form, Forms
    from pyopnb.lowering.forms import forms
    from pyopnb.lowering.lower import lower
    from pyopnb.models.build import model, node
    from pyopnb.models.edit.replace import replace
    from pyopnb.models.edit.wrap import wrap
    from pyopnb.models.load import Loaded, load
    from pyopnb.models.op_metadata import KeptOp
    from pyopnb.models.save import save
    from pyopnb.models.support.missing import Missing, missing
    from pyopnb.models.text.parse import parse
    from pyopnb.models.text.write import text
    from pyopnb.notebook.live.interact import interact
    from pyopnb.notebook.live.watch import watch
    from pyopnb.onnx_reference.evaluator_ops import reference_ops
    from pyopnb.onnx_reference.fill import Filled, fill
    from pyopnb.onnx_reference.operator import reference
    from pyopnb.onnx_reference.skeleton import skeleton
    from pyopnb.ops.module_files import load_module, save_module
    from pyopnb.runtime.call import call
    from pyopnb.runtime.one_run import run, trace
    from pyopnb.runtime.profile.profile import Profile
    from pyopnb.runtime.profile.run import profile
    from pyopnb.runtime.trace.trace import Trace
    from pyopnb.testing.check import check
    from pyopnb.testing.gradients import GradientReport, check_grad
    from pyopnb.training.train import train

__version__ = "0.1.0"

__all__ = [
    "Batches",
    "Diff",
    "Filled",
    "Form",
    "Forms",
    "GradientReport",
    "KeptOp",
    "Loaded",
    "Missing",
    "ModelDiff",
    "NetronView",
    "OpDiff",
    "Profile",
    "ProfileDiff",
    "PyopError",
    "Result",
    "Session",
    "Sweep",
    "TensorType",
    "Trace",
    "TraceDiff",
    "View",
    "call",
    "check",
    "check_grad",
    "cpp_op",
    "diff",
    "fill",
    "first_divergence",
    "forms",
    "get_library_path",
    "grad",
    "interact",
    "load",
    "load_module",
    "lower",
    "map",
    "missing",
    "model",
    "netron",
    "node",
    "parse",
    "profile",
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
    "sweep",
    "tensor_type",
    "text",
    "trace",
    "train",
    "watch",
    "wrap",
    "write_library",
]

_AT_FIRST_USE = {
    "pyopnb.compile.cpp": ["cpp_op"],
    "pyopnb.compile.library": ["write_library"],
    "pyopnb.diffs.models.diff": ["ModelDiff"],
    "pyopnb.diffs.ops": ["OpDiff"],
    "pyopnb.diffs.profiles": ["ProfileDiff"],
    "pyopnb.testing.check": ["check"],
    "pyopnb.testing.gradients": ["GradientReport", "check_grad"],
    "pyopnb.diffs.arrays.diff": ["Diff"],
    "pyopnb.diffs.api": ["diff"],
    "pyopnb.diffs.traces.bisect": ["first_divergence"],
    "pyopnb.diffs.traces.diff": ["TraceDiff"],
    "pyopnb.models.edit.replace": ["replace"],
    "pyopnb.models.edit.wrap": ["wrap"],
    "pyopnb.models.support.missing": ["Missing", "missing"],
    "pyopnb.gradients.grad": ["grad"],
    "pyopnb.lowering.form_table": ["Form", "Forms"],
    "pyopnb.lowering.forms": ["forms"],
    "pyopnb.lowering.lower": ["lower"],
    "pyopnb.training.train": ["train"],
    "pyopnb.models.build": ["model", "node"],
    "pyopnb.models.text.parse": ["parse"],
    "pyopnb.models.text.write": ["text"],
    "pyopnb.onnx_reference.evaluator_ops": ["reference_ops"],
    "pyopnb.notebook.live.interact": ["interact"],
    "pyopnb.notebook.live.watch": ["watch"],
    "pyopnb.runtime.call": ["call"],
    "pyopnb.runtime.one_run": ["run", "trace"],
    "pyopnb.runtime.profile.profile": ["Profile"],
    "pyopnb.runtime.profile.run": ["profile"],
    "pyopnb.batches.map": ["Batches", "map"],
    "pyopnb.batches.sweep": ["Sweep", "sweep"],
    "pyopnb.onnx_reference.fill": ["Filled", "fill"],
    "pyopnb.onnx_reference.operator": ["reference"],
    "pyopnb.onnx_reference.skeleton": ["skeleton"],
    "pyopnb.runtime.trace.trace": ["Trace"],
    "pyopnb.models.op_metadata": ["KeptOp"],
    "pyopnb.models.load": ["Loaded", "load"],
    "pyopnb.ops.module_files": ["load_module", "save_module"],
    "pyopnb.models.save": ["save"],
    "pyopnb.display.netron.view": ["NetronView", "netron"],
    "pyopnb.display.show": ["show"],
    "pyopnb.display.view": ["View"],
}
"""Modules that are imported when one of their names is first used: a script that only runs ops does without them."""

_HOMES = {name: module for module, names in _AT_FIRST_USE.items() for name in names}


# Both rooms stand above those that call them, so they are handed down by name and imported when first used.
_forms.register_maker("numba", "pyopnb.compile.numba_form", "form_of")
_displayable.display_with(lambda: importlib.import_module("pyopnb.display.show"))


_PACKAGES = ("errors", "ortx", "sklearn", "testing", "torch", "training")
"""Like numpy.testing, they need no import of their own. None imports its framework before one of its names is used."""


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"pyopnb.{name}")
    if name not in _HOMES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}",
            name=name,
            obj=importlib.import_module(__name__),
        )
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__version__"])


def load_ipython_extension(shell: object) -> None:
    """Called by ``%load_ext pyopnb``; imports IPython.

    Parameters
    ----------
    shell : InteractiveShell
    """
    from pyopnb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Called by ``%unload_ext pyopnb``.

    Parameters
    ----------
    shell : InteractiveShell
    """
    from pyopnb.notebook.extension import unload

    unload(shell)

"""Write a missing ONNX operator in a notebook cell, and run it in ONNX Runtime a moment later."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# It comes first, because importing it from a module further down takes 20 ms longer.
import onnx as _onnx  # noqa: F401

from pyopnb.common.hand_downs import hand_down as _hand_down
from pyopnb.common.installed import import_at_first_use as _import_at_first_use

# From here on, onnx.defs follows the registry.
from pyopnb.engine.models import op_inference as _op_inference  # noqa: F401
from pyopnb.engine.ops import pickling as _pickling  # noqa: F401  # registers how ops are pickled
from pyopnb.engine.ops.definitions import pyop
from pyopnb.engine.ops.registry import registry
from pyopnb.engine.ops.result import Result
from pyopnb.engine.ops.types import TensorType

# It ends all runs before the interpreter ends, also in bare sessions.
from pyopnb.engine.runtime import exceptions as _exceptions  # noqa: F401
from pyopnb.engine.runtime.callbacks import get_library_path
from pyopnb.errors import PyopError

if TYPE_CHECKING:
    from pyopnb.batches.mapping import map
    from pyopnb.batches.sweeping import sweep
    from pyopnb.compile.cpp import cpp_op
    from pyopnb.compile.library import write_library
    from pyopnb.diffs.api import diff
    from pyopnb.diffs.extraction import extract
    from pyopnb.diffs.node_sensitivity import sensitivity
    from pyopnb.diffs.reduction import reduce
    from pyopnb.diffs.run_stability import stability
    from pyopnb.diffs.traces.bisect import first_divergence
    from pyopnb.display.netron_page.view import netron
    from pyopnb.display.showing import show
    from pyopnb.engine.models.build import model, node
    from pyopnb.engine.runtime.call import call
    from pyopnb.engine.runtime.one_run import run
    from pyopnb.engine.runtime.session.session import Session
    from pyopnb.gradients.gradient_model import grad
    from pyopnb.lowering.form_list import forms
    from pyopnb.lowering.lowering import lower
    from pyopnb.models.edit.replace import replace
    from pyopnb.models.edit.wrap import wrap
    from pyopnb.models.loading import load
    from pyopnb.models.saving import save
    from pyopnb.models.support.missing import missing
    from pyopnb.models.text_form.parse import parse
    from pyopnb.models.text_form.write import text
    from pyopnb.notebook.live.interact import interact
    from pyopnb.notebook.live.watch import watch
    from pyopnb.onnx_reference.filling import fill
    from pyopnb.onnx_reference.operator import reference
    from pyopnb.onnx_reference.skeletons import skeleton
    from pyopnb.testing.gradients import check_grad
    from pyopnb.testing.readiness import check
    from pyopnb.traces.api import trace
    from pyopnb.traces.profiling import profile
    from pyopnb.training.fitting import train

__version__ = "0.1.0"

__all__ = [
    "PyopError",
    "Result",
    "Session",
    "TensorType",
    "call",
    "check",
    "check_grad",
    "cpp_op",
    "diff",
    "extract",
    "fill",
    "first_divergence",
    "forms",
    "get_library_path",
    "grad",
    "interact",
    "load",
    "lower",
    "map",
    "missing",
    "model",
    "netron",
    "node",
    "parse",
    "profile",
    "pyop",
    "reduce",
    "reference",
    "registry",
    "replace",
    "run",
    "save",
    "sensitivity",
    "show",
    "skeleton",
    "stability",
    "sweep",
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
    "pyopnb.testing.readiness": ["check"],
    "pyopnb.testing.gradients": ["check_grad"],
    "pyopnb.diffs.api": ["diff"],
    "pyopnb.diffs.extraction": ["extract"],
    "pyopnb.diffs.reduction": ["reduce"],
    "pyopnb.diffs.node_sensitivity": ["sensitivity"],
    "pyopnb.diffs.run_stability": ["stability"],
    "pyopnb.diffs.traces.bisect": ["first_divergence"],
    "pyopnb.models.edit.replace": ["replace"],
    "pyopnb.models.edit.wrap": ["wrap"],
    "pyopnb.models.support.missing": ["missing"],
    "pyopnb.gradients.gradient_model": ["grad"],
    "pyopnb.lowering.form_list": ["forms"],
    "pyopnb.lowering.lowering": ["lower"],
    "pyopnb.training.fitting": ["train"],
    "pyopnb.engine.models.build": ["model", "node"],
    "pyopnb.models.text_form.parse": ["parse"],
    "pyopnb.models.text_form.write": ["text"],
    "pyopnb.notebook.live.interact": ["interact"],
    "pyopnb.notebook.live.watch": ["watch"],
    "pyopnb.engine.runtime.call": ["call"],
    "pyopnb.engine.runtime.one_run": ["run"],
    "pyopnb.engine.runtime.session.session": ["Session"],
    "pyopnb.traces.api": ["trace"],
    "pyopnb.traces.profiling": ["profile"],
    "pyopnb.batches.mapping": ["map"],
    "pyopnb.batches.sweeping": ["sweep"],
    "pyopnb.onnx_reference.filling": ["fill"],
    "pyopnb.onnx_reference.operator": ["reference"],
    "pyopnb.onnx_reference.skeletons": ["skeleton"],
    "pyopnb.models.loading": ["load"],
    "pyopnb.models.saving": ["save"],
    "pyopnb.display.netron_page.view": ["netron"],
    "pyopnb.display.showing": ["show"],
}
"""Modules that are imported when one of their names is first used.

A script that only runs ops never imports them.
"""

# The first use of a name needs its module, which is the reverse of the table above.
_HOMES = {name: module for module, names in _AT_FIRST_USE.items() for name in names}

# These rooms are above the rooms that use them.
_hand_down(
    catalog_names="pyopnb.models.catalog_names",
    catalog_op="pyopnb.onnx_reference.catalog_ops:op_named",
    display="pyopnb.display.showing",
    failing_node="pyopnb.models.support.failing_node:failing_node",
    fill="pyopnb.onnx_reference.filling:fill_source",
    node_kernel="pyopnb.engine.runtime.node_kernel:NodeKernel",
    refusal="pyopnb.models.support.refusal:explain_refusal",
    tracer="pyopnb.traces.run",
)

_PACKAGES = ("catalog", "errors", "ortx", "sklearn", "testing", "torch", "training")
"""Packages that need no import of their own, like numpy.testing.

None of them imports its framework before one of its names is used.
"""


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"pyopnb.{name}")
    return _import_at_first_use(__name__, name, _HOMES)


def __dir__() -> list[str]:
    # Completion offers what a user types, and none of the modules imported above.
    return sorted([*__all__, *_PACKAGES, "__version__"])


def load_ipython_extension(shell: object) -> None:
    """Add the magics to IPython, for ``%load_ext pyopnb``.

    Parameters
    ----------
    shell : InteractiveShell
        IPython passes the running one.
    """
    from pyopnb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take the magics out of IPython, for ``%unload_ext pyopnb``.

    Parameters
    ----------
    shell : InteractiveShell
        IPython passes the running one.
    """
    from pyopnb.notebook.extension import unload

    unload(shell)

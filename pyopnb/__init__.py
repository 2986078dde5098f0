"""Write a missing ONNX operator in a notebook cell, and run it in ONNX Runtime a moment later."""

from __future__ import annotations

import importlib
from typing import Any

# It comes first, because importing it from a module further down takes 20 ms longer.
import onnx as _onnx  # noqa: F401

import pyopnb.engine as _engine  # noqa: F401  # what it changes in onnx holds from here on
from pyopnb.common import hand_downs
from pyopnb.common import open_door as _open_door

__version__ = "0.1.0"

_find_name, _, __all__ = _open_door(__name__, __file__)

# These rooms are above the rooms that use them.
hand_downs.hand_down(
    catalog_names="pyopnb.models.support.catalog_names",
    catalog_op="pyopnb.onnx_reference.catalog_ops:op_named",
    display="pyopnb.display.showing",
    failing_node="pyopnb.models.support.failing_node:failing_node",
    fill="pyopnb.onnx_reference.filling:fill_source",
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
    return _find_name(name)


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
    from pyopnb.notebook import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Take the magics out of IPython, for ``%unload_ext pyopnb``.

    Parameters
    ----------
    shell : InteractiveShell
        IPython passes the running one.
    """
    from pyopnb.notebook import unload

    unload(shell)

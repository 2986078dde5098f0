"""Write the ONNX operator that you are missing in a notebook cell, and watch it run inside ONNX Runtime a moment later."""

from pyopnb.compare.fitness import check
from pyopnb.edits.replaced import replace
from pyopnb.edits.tapped import wrap
from pyopnb.gaps.missing import Missing, missing
from pyopnb.graphs.build import model, node
from pyopnb.graphs.text import parse, text
from pyopnb.models import schemas as _schemas  # noqa: F401  # onnx.defs follows the registry from here on
from pyopnb.models.evaluator import reference_ops
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
from pyopnb.runtime.once import call, run
from pyopnb.runtime.session import Result, Session, SessionRebuilt
from pyopnb.standins.fill import Filled, fill
from pyopnb.standins.reference import reference
from pyopnb.standins.skeleton import skeleton

__version__ = "0.1.0"

__all__ = [
    "DefinitionError",
    "EscapedInput",
    "FeedError",
    "Filled",
    "Missing",
    "ModelError",
    "ModuleRefused",
    "NotationError",
    "PyopError",
    "Result",
    "ResultError",
    "SchemaChanged",
    "Session",
    "SessionRebuilt",
    "TensorType",
    "UnknownOp",
    "call",
    "check",
    "fill",
    "get_library_path",
    "missing",
    "model",
    "node",
    "parse",
    "pyop",
    "reference",
    "reference_ops",
    "registry",
    "replace",
    "run",
    "skeleton",
    "tensor_type",
    "text",
    "wrap",
]


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext pyopnb`` calls. IPython is imported here and not before."""
    from pyopnb.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """What ``%unload_ext pyopnb`` calls."""
    from pyopnb.notebook.extension import unload

    unload(shell)

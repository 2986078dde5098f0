"""The Python operators of onnxruntime-extensions, run by pyopnb: only the line that imports them changes.

``import pyopnb.ortx as ortx``, or ``from pyopnb.ortx import onnx_op, PyCustomOpDef, get_library_path``. What
a function was decorated as is an op of `pyopnb.registry` in the domain ``ai.onnx.contrib``: it reloads in
live sessions, `pyopnb.Session` runs it as well, and an exception in it is an exception. The operators that
onnxruntime-extensions has in C++ are not here.
"""

from __future__ import annotations

from typing import Any

from pyopnb.ortx.definitions import (
    Opdef,
    PyCustomOpDef,
    default_opset_domain,
    enable_py_op,
    onnx_op,
)
from pyopnb.ortx.functions import OrtPyFunction, ort_inference
from pyopnb.ortx.models import hook_model_op, make_onnx_model
from pyopnb.runtime.callbacks import get_library_path

__all__ = [
    "Opdef",
    "OrtPyFunction",
    "PyCustomOpDef",
    "PyOp",
    "PyOrtFunction",
    "default_opset_domain",
    "enable_py_op",
    "get_library_path",
    "hook_model_op",
    "make_onnx_model",
    "onnx_op",
    "ort_inference",
]

PyOp = PyCustomOpDef
PyOrtFunction = OrtPyFunction

_IN_C = (
    "gen_processing_models",
    "hash_64",
    "SingleOpGraph",
    "CustomOpConverter",
    "GPT2Tokenizer",
    "SentencepieceTokenizer",
)


def __getattr__(name: str) -> Any:
    if name in _IN_C:
        # An AttributeError would lose its text where somebody writes from … import.
        raise ImportError(
            f"pyopnb.ortx.{name}: expected one of the Python operators' names, got what works by operators "
            f"in C++. Try: from onnxruntime_extensions import {name}",
            name=__name__,
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Run Python operators written for onnxruntime-extensions, by changing only their import line.

Write ``from pyopnb.ortx import onnx_op, PyCustomOpDef, get_library_path``. A decorated function
becomes an op of `pyopnb.registry` in the domain ``ai.onnx.contrib``. It reloads in live sessions,
`pyopnb.Session` also runs it, and its exceptions reach the caller. The C++ operators of
onnxruntime-extensions are not included.
"""

from __future__ import annotations

from typing import Any

from pyopnb.engine import get_library_path
from pyopnb.ortx.definitions import (
    Opdef,
    PyCustomOpDef,
    default_opset_domain,
    onnx_op,
)

__all__ = [
    "Opdef",
    "PyCustomOpDef",
    "PyOp",
    "default_opset_domain",
    "get_library_path",
    "onnx_op",
]

PyOp = PyCustomOpDef

_IN_C = (
    "gen_processing_models",
    "hash_64",
    "SingleOpGraph",
    "CustomOpConverter",
    "GPT2Tokenizer",
    "SentencepieceTokenizer",
)


# The functions of pyopnb itself for models.
_INSTEAD = {
    "OrtPyFunction": "session = pyopnb.Session(model); session(x=x)",
    "PyOrtFunction": "session = pyopnb.Session(model); session(x=x)",
    "ort_inference": "pyopnb.run(model, x=x)",
    "hook_model_op": "pyopnb.wrap(model, node_name, function)",
    "make_onnx_model": "pyopnb.model(nodes, inputs, outputs)",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise ImportError(f"pyopnb.ortx has no {name}. Try: {_INSTEAD[name]}", name=__name__)
    if name in _IN_C:
        # An AttributeError would lose its text in a from … import.
        raise ImportError(
            f"pyopnb.ortx.{name}: expected one of the Python operators' names, "
            "got what works by operators "
            f"in C++. Try: from onnxruntime_extensions import {name}",
            name=__name__,
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What the drop-in takes from onnxruntime itself: options of sessions, its errors, and the model that it optimizes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import onnxruntime
from onnx import ModelProto
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from pyopnb.runtime.callbacks import get_library_path

__all__ = [
    "ONNXRuntimeError",
    "ONNXRuntimeException",
    "extension_options",
    "has_gpu",
    "optimize_model",
]

ONNXRuntimeError = _state.Fail
ONNXRuntimeException = _state.RuntimeException


def has_gpu() -> bool:
    """Tell whether the installed onnxruntime is a build for a GPU."""
    return bool(onnxruntime.get_device() == "GPU")


def extension_options(
    attributes: Mapping[str, Any], *, register: bool = True
) -> onnxruntime.SessionOptions:
    """Options of a session with these attributes.

    Parameters
    ----------
    attributes : mapping
    register : bool
        Whether a plain session is to know the ops; `pyopnb.Session` knows them without.

    Returns
    -------
    onnxruntime.SessionOptions
    """
    options = onnxruntime.SessionOptions()
    for name, value in attributes.items():
        setattr(options, name, value)
    if register:
        options.register_custom_ops_library(get_library_path())
    return options


def optimize_model(
    model_or_file: str | os.PathLike[str] | ModelProto, output_file: str | os.PathLike[str]
) -> None:
    """Write the model as ONNX Runtime's basic optimizations make it.

    Parameters
    ----------
    model_or_file : path or ModelProto
    output_file : path
    """
    options = extension_options({"optimized_model_filepath": os.fspath(output_file)})
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    source = (
        model_or_file.SerializeToString()
        if isinstance(model_or_file, ModelProto)
        else os.fspath(model_or_file)
    )
    onnxruntime.InferenceSession(source, options)

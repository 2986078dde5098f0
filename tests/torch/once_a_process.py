"""What torch's exporter makes again in each call, made once a process: two thirds of the time of exporting a small module."""

from __future__ import annotations

import functools
import typing

import torch
import torch._export.utils as utils
from torch.onnx._internal.exporter import _registration


def remember() -> None:
    """Keep the table of ONNX functions, and do not look again for the ops that C++ registers."""
    if hasattr(_registration.ONNXRegistry.from_torchlib, "cache_info"):
        return
    made = functools.cache(_registration.ONNXRegistry.from_torchlib)

    @functools.wraps(made)
    def from_torchlib(**options):
        table = made(**options)
        copy = _registration.ONNXRegistry()  # an export writes its own functions into it
        copy._opset_version = table._opset_version
        copy.functions = {target: list(functions) for target, functions in table.functions.items()}
        return copy

    from_torchlib.cache_info = made.cache_info
    _registration.ONNXRegistry.from_torchlib = staticmethod(from_torchlib)
    # An annotation that torch evaluates ten thousand times an export; this one is kept, that of collections.abc is made each time.
    torch._ops.Callable = typing.Callable
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)

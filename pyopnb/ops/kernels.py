"""ONNX Runtime's kernels for the rooms below the one that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto

__all__ = ["Kernel", "make_kernels_by", "runtime_kernel"]

Kernel = Callable[..., Sequence[Any]]
"""A function of a node's inputs that returns its outputs."""

_make: Callable[[NodeProto, Mapping[str, int]], Kernel] | None = None


def make_kernels_by(make: Callable[[NodeProto, Mapping[str, int]], Kernel]) -> None:
    """Set what `runtime_kernel` asks: the runtime, a room above this one.

    Parameters
    ----------
    make : callable
        Takes a node and the versions of domains, and returns a function of the node's inputs.
    """
    global _make
    _make = make


def runtime_kernel(node: NodeProto, opset: int) -> Kernel:
    """Return ONNX Runtime's kernel of one of ONNX's operators, as a function of arrays.

    Parameters
    ----------
    node : NodeProto
        Its attributes count; its inputs are those of each call, None for one that is left out.
    opset : int
    """
    assert _make is not None  # noqa: S101  # `import pyopnb` has set it
    return _make(node, {"": opset})

"""ONNX Runtime's kernels for the rooms below the one that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto

from pyopnb.ops.op import Op

__all__ = ["Kernel", "make_kernels_by", "runtime_kernel"]

Kernel = Callable[..., Sequence[Any]]
"""A function of a node's inputs that returns its outputs; None stands for one that is left out."""

_Make = Callable[[NodeProto, Mapping[str, int], Op | None], Kernel]

_make: _Make | None = None


def make_kernels_by(make: _Make) -> None:
    """Set what `runtime_kernel` asks: the runtime, a room above this one.

    Parameters
    ----------
    make : callable
        Takes what `runtime_kernel` takes.
    """
    global _make
    _make = make


def runtime_kernel(node: NodeProto, versions: Mapping[str, int], op: Op | None = None) -> Kernel:
    """Return what ONNX Runtime computes for a node, as a function of arrays.

    Parameters
    ----------
    node : NodeProto
        Its attributes count; its inputs are those of each call.
    versions : mapping
        Of the domains that the model imports.
    op : Op, optional
        What runs the node, if it is an op's.
    """
    assert _make is not None  # noqa: S101  # `import pyopnb` has set it
    return _make(node, versions, op)

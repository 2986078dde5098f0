"""The ONNX Runtime kernels for the rooms below the one that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import NodeProto

from pyopnb.common import handed_down
from pyopnb.engine.ops.op import Op

__all__ = ["Kernel", "runtime_kernel"]

Kernel = Callable[..., Sequence[Any]]
"""A function of a node's inputs that returns its outputs; None means that one is left out."""


def runtime_kernel(node: NodeProto, versions: Mapping[str, int], op: Op | None = None) -> Kernel:
    """Return a function of arrays that computes a node in ONNX Runtime.

    Parameters
    ----------
    node : NodeProto
        Its attributes count; each call passes the inputs.
    versions : mapping
        Of the domains that the model imports.
    op : Op, optional
        The op that runs the node, if there is one.
    """
    kernel: Kernel = handed_down("node_kernel")(node, versions, op)
    return kernel

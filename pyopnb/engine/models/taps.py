"""Taps, the nodes that `wrap` inserts beside the nodes that they look at."""

from __future__ import annotations

from onnx import FunctionProto, GraphProto, NodeProto

__all__ = ["TAP_DOMAIN", "put_taps_last"]

TAP_DOMAIN = "pyopnb.tap"
"""Domain of the taps. They are never selected by name."""


def put_taps_last(scope: GraphProto | FunctionProto) -> None:
    """Move the taps of a graph or function to its end, so that each runs as soon as it can.

    ONNX Runtime begins with the last of the nodes on whose outputs no other depends, and runs all
    that it needs before it. So the tap that looks at the first node comes last.
    """
    produced = {name: place for place, node in enumerate(scope.node) for name in node.output}

    def place(node: NodeProto) -> int:
        if node.domain != TAP_DOMAIN:
            return -len(scope.node)
        return -max((produced.get(name, -1) for name in node.input), default=-1)

    scope.node.sort(key=place)

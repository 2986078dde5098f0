"""Insert taps: nodes that look at a tensor during the run, and on which no other node depends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, NodeProto

from pyopnb.engine import ANY, Op, Version, markers, node_plans, protos, schema_of
from pyopnb.traces.select import NamedTensor
from pyopnb.traces.summary import Summary

__all__ = ["DOMAIN", "Sink", "TensorTap", "insert_taps", "make_taps"]

DOMAIN = "pyopnb.trace"
"""The domain of the taps, with which the names of their nodes begin."""


@dataclass
class Sink:
    """Collects the tensors or summaries that the taps of one run see.

    Attributes
    ----------
    keeps : bool
        Whether the tensors are kept. Almost all of the main graph are outputs of the run instead.
    """

    keeps: bool
    values: dict[str, np.ndarray] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)
    # Names of bodies' tensors in the order of the run, by outer node.
    inner: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, tensor: NamedTensor, array: np.ndarray) -> None:
        """Look at a tensor."""
        if tensor.repeats:
            # In a loop, each round has a tensor of its own.
            name = f"{tensor.name}[{self.counts[tensor.name]}]"
        else:
            name = tensor.name
        self.counts[tensor.name] += 1
        self.summaries[name] = Summary.of(array)
        if tensor.inside is not None:
            self.inner.setdefault(tensor.inside, []).append(name)
        if self.keeps:
            self.values[name] = array.copy()


class TensorTap:
    """Looks at one tensor."""

    tensor: NamedTensor
    sink: Sink

    def compute(self, x):  # type: ignore[no-untyped-def]  # an op's hints are its schema
        self.sink.take(self.tensor, x)
        return _NOTHING


TensorTap.compute.__annotations__["return"] = "uint8[]"
_NOTHING = np.zeros((), np.uint8)


def _tap(tensor: NamedTensor, sink: Sink) -> TensorTap:
    tap = TensorTap()  # parameters of __init__ would be the op's attrs
    tap.tensor, tap.sink = tensor, sink
    return tap


def make_taps(tensors: Sequence[NamedTensor], sink: Sink) -> list[node_plans.PlannedNode]:
    """Make taps for tensors, as nodes for a session's plan that are not in their graphs yet."""
    # Not an op of the registry: users should not see it, and no session has to follow it.
    op = Op(
        f"{DOMAIN}::Tap",
        (Version(f"{DOMAIN}::Tap", 1, TensorTap, schema_of(TensorTap), 1, None, 0.0, 0),),
    )
    planned = []
    for number, tensor in enumerate(tensors):
        name = f"{DOMAIN}/{number}"
        node = NodeProto(
            op_type="Tap", domain=DOMAIN, name=name, input=[tensor.inner], output=[name]
        )
        # A tap takes any dtype, and gives a scalar that is never read.
        numbered = markers.NumberedNode(
            protos.Site(node, tensor.scope, ""), DOMAIN, "Tap", declared=(ANY,)
        )
        planned.append(
            node_plans.PlannedNode(
                op, numbered, {}, {}, f"trace of {tensor.name}", instances={1: _tap(tensor, sink)}
            )
        )
    return planned


def insert_taps(tensors: Sequence[NamedTensor], taps: Sequence[node_plans.PlannedNode]) -> None:
    """Put the taps into their graphs, each right after the node whose output it looks at.

    The ONNX Runtime order by priority, which keeps the file order among equals, then runs a tap
    right after its node.
    """
    scopes: dict[int, tuple[GraphProto, list[tuple[NodeProto, NodeProto]]]] = {}
    for tensor, tap in zip(tensors, taps, strict=True):
        node = tensor.scope.node.add()
        node.CopyFrom(tap.numbered.site.node)
        tap.numbered.site = protos.Site(node, tensor.scope, "")
        scopes.setdefault(id(tensor.scope), (tensor.scope, []))[1].append((tensor.node, node))
    for scope, pairs in scopes.values():
        _move_behind(scope, pairs)


def _move_behind(scope: GraphProto, pairs: Sequence[tuple[NodeProto, NodeProto]]) -> None:
    """Move the second node of each pair right after the first.

    Nodes that go after the same node keep their order.
    """
    # Keep the nodes alive, because only live objects have unique ids.
    nodes = list(scope.node)
    positions: dict[int, float] = {id(node): position for position, node in enumerate(nodes)}
    positions |= {id(tap): positions[id(node)] + 0.5 for node, tap in pairs}
    scope.node.sort(key=lambda node: positions[id(node)])

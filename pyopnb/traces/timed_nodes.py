"""Name the nodes of a session beside the user's for its profile, and clock its ops."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto

from pyopnb.engine import model_files, node_plans, op_names, protos
from pyopnb.traces.clocks import Clock, ClockedCall
from pyopnb.traces.ort_profile import ProfiledRun
from pyopnb.traces.tensor_origins import origins
from pyopnb.traces.times import Times, times_of

__all__ = ["TimedNodes", "keep_ops"]

# onnxruntime 1.25 writes these into a profile as they are, which is no JSON.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def keep_ops(plan: node_plans.Plan, ops: Collection[str]) -> None:
    """Leave only the nodes in a plan that the user's session also runs through ops.

    Both sessions then number them alike.
    """
    # An op that is new since the session was built does not serve it.
    plan.nodes[:] = [node for node in plan.nodes if node.op.name in ops]


@dataclass
class TimedNodes:
    """The nodes of the main graph, by which times are listed.

    Attributes
    ----------
    labels : list of str
        Their names for the reader, or their first outputs.
    named : GraphProto
        The main graph with the names that the profile has.
    clocks : dict
        The clocks of the ops, by the first output of the node of the main graph that
        they are, or are in.
    """

    labels: list[str] = field(default_factory=list)
    named: GraphProto = field(default_factory=GraphProto)
    clocks: dict[str, Clock] = field(default_factory=dict)

    def attach(self, plan: node_plans.Plan, proto: ModelProto) -> None:
        """Give all nodes names, and the ops clocks.

        This is called before each attempt to build the session.
        """
        labels = _name_nodes(proto)
        # When the session is built again, the nodes have their new names already.
        if not self.labels:
            self.labels = labels
            self.named = model_files.without_weights(proto).proto.graph
        outputs = {}
        for node in proto.graph.node:
            outputs[id(node)] = protos.first_output(node)
            for body in protos.bodies(node):
                for inner in protos.nodes_in(body):
                    outputs[id(inner)] = protos.first_output(node)
        for entry in plan.nodes:
            output = outputs.get(id(entry.numbered.site.node), "")
            if output:
                entry.wrap = self.clocks.setdefault(output, Clock()).wrap

    def take(self) -> dict[str, list[ClockedCall]]:
        """Return the calls of ops since the last query, by the first output of their node."""
        return {output: clock.take() for output, clock in self.clocks.items()}

    def times(
        self,
        runs: Sequence[ProfiledRun],
        calls: Sequence[Mapping[str, Sequence[ClockedCall]]],
        executed: GraphProto,
    ) -> list[Times]:
        """Divide the time of each run among the nodes.

        Parameters
        ----------
        calls : sequence of mapping
            The calls of ops in each run, as `take` gives them.
        executed : GraphProto
            The graph that ONNX Runtime ran, or ``named`` if that is not known.
        """
        groups = origins(self.named, executed)
        times = []
        for run, calls_by_output in zip(runs, calls, strict=True):
            python = {}
            for output, computes in calls_by_output.items():
                python[output] = sum(call.took for call in computes)
            times.append(times_of(run, python, self.named, groups, self.labels))
        return times


def _name_nodes(proto: ModelProto) -> list[str]:
    """Give every node a unique name that a profile can hold, and return the main graph's labels.

    A node in a body without a name gets one from ONNX Runtime, which can be the name of a
    node of the main graph.
    """
    labels = [node.name or protos.first_output(node) for node in proto.graph.node]
    names = {site.node.name for site in protos.walk(proto)}
    used: set[str] = set()
    nodes = list(proto.graph.node)
    for node in proto.graph.node:
        for body in protos.bodies(node):
            nodes += protos.nodes_in(body)
    for number, node in enumerate(nodes):
        if not node.name or node.name in used or _ESCAPED.search(node.name):
            node.name = op_names.fresh_name(f"{node.op_type}_{number}", names)
            names.add(node.name)
        used.add(node.name)
    return labels

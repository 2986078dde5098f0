"""Times of a run's nodes, and of the groups of nodes that ONNX Runtime ran as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto

from pyopnb.models.nodes import first_output
from pyopnb.traces.origins import Origin
from pyopnb.traces.ort_profile import ProfiledRun

__all__ = ["NodeTime", "Times", "group_text", "times_of"]

_SHOWN = 4  # nodes of a group that its text names


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, or a group of nodes that ONNX Runtime ran as one; in microseconds.

    Attributes
    ----------
    node : str
        The node's name, or that of its first output; of a group ``"conv1 + relu1"``.
    op_type : str
        Of a group ``"Conv + Relu"``.
    total : float
        What passed from the start of its kernels to that of the next ones. An instant in which
        several nodes ran is divided between them.
    kernel : float
        What passed in its kernels, those of nodes in its bodies and of conversions to another
        layout included. The rest of ``total`` is ONNX Runtime's own: it records the kernel's time,
        releases tensors and prepares the next kernel.
    python : float or None
        Of an op: the time in ``compute``. None for other nodes.
    outputs : tuple of str
        First outputs of the nodes of a group, in their order.
    """

    node: str
    op_type: str
    total: float
    kernel: float
    python: float | None = None
    outputs: tuple[str, ...] = ()

    @property
    def crossing(self) -> float | None:
        """Return the microseconds of an op's kernel outside ``compute``; None for other nodes."""
        if self.python is None:
            return None
        return max(0.0, self.kernel - self.python)

    def __str__(self) -> str:
        text = f"{self.total:.0f} µs"
        if len(self.outputs) > 1:
            text += f" ({self.node})"
        if self.python is not None:
            text += f" ({self.python:.0f} in Python)"
        return text


class Times(dict[str, NodeTime]):
    """The `NodeTime` of each node of the main graph, or group of nodes, by the first output of its last node.

    ``times["c"]`` also finds the group that the node with the first output ``c`` is part of;
    it is listed once. A node that was folded or eliminated before the run has no time. All
    times are microseconds.

    Parameters
    ----------
    nodes : dict
    total : float
        The whole run: the sum of the nodes' `NodeTime.total` and of `unattributed`.
    looking : float
        What passed beside ``total`` in the trace's own looks at tensors, for summaries and bodies.
    unprofiled : float or None
        How long the unexposed run took that the trace compares itself with, conversion of feeds and
        outputs included; None where there was none. ONNX Runtime's profile itself costs some
        microseconds for each node.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeTime],
        total: float,
        *,
        looking: float = 0.0,
        unprofiled: float | None = None,
    ) -> None:
        super().__init__(nodes)
        self.total, self.looking, self.unprofiled = total, looking, unprofiled
        self._groups = {output: key for key, time in self.items() for output in time.outputs}

    def __missing__(self, output: str) -> NodeTime:
        return self[self._groups[output]]

    def find(self, output: str) -> NodeTime | None:
        """Find the time of the node or group that has this first output; None where it has no time."""
        return self.get(self._groups.get(output, output))

    @property
    def attributed(self) -> float:
        """Add up the nodes' totals."""
        return sum(time.total for time in self.values())

    @property
    def unattributed(self) -> float:
        """Return what no node accounts for, as preparing the run and handing out its outputs."""
        return max(0.0, self.total - self.attributed)

    def share(self, time: float) -> str:
        """Write a time as a share of the whole run.

        Returns
        -------
        str
            ``"12.5 %"``.
        """
        return f"{100 * time / (self.total or 1.0):.1f} %"

    def __str__(self) -> str:
        unattributed = f"{self.unattributed:,.0f} µs ({self.share(self.unattributed)})"
        return f"the run took {self.total:,.0f} µs, {unattributed} of them not attributed to a node"


def times_of(
    run: ProfiledRun,
    python: Mapping[str, float],
    graph: GraphProto,
    groups: Iterable[Origin],
    labels: Sequence[str],
) -> Times:
    """Divide the time of a run among a graph's nodes.

    Parameters
    ----------
    run : ProfiledRun
    python : mapping of str to float
        Microseconds in ``compute`` of each op, by the first output of its node.
    graph : GraphProto
        The user's, whose indices the groups have.
    groups : iterable of Origin
    labels : sequence of str
        What the reader calls the nodes.

    Returns
    -------
    Times
    """
    times = {}
    # In the order of the user's graph, by the last node of each group.
    for origin in sorted(groups, key=lambda origin: origin.nodes[-1:]):
        nodes = [graph.node[index] for index in origin.nodes]
        # A node that was folded has no kernel.
        if not nodes or not run.kernels.keys() & set(origin.executed):
            continue
        outputs = tuple(map(first_output, nodes))
        spent = [python[output] for output in outputs if output in python]
        times[outputs[-1]] = NodeTime(
            group_text([labels[index] for index in origin.nodes]),
            group_text([node.op_type for node in nodes]),
            sum(run.nodes.get(index, 0.0) for index in origin.executed),
            sum(run.kernels.get(index, 0.0) for index in origin.executed),
            sum(spent) if spent else None,
            outputs if len(outputs) > 1 else (),
        )
    return Times(times, run.total, looking=run.looking)


def group_text(texts: Sequence[str]) -> str:
    """Join the texts of a group's nodes: of many the first two and the last."""
    # A chain of convolutions can be a group of hundreds.
    if len(texts) > _SHOWN:
        texts = (*texts[: _SHOWN - 2], f"{len(texts) - _SHOWN + 1} more", texts[-1])
    return " + ".join(texts)

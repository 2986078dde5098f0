"""Times of the nodes of a run, and of the groups of nodes that ONNX Runtime ran as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto

from pyopnb.common import messages, sanitize
from pyopnb.engine import protos
from pyopnb.errors import UnknownName
from pyopnb.traces.ort_profile import ProfiledRun
from pyopnb.traces.tensor_origins import Origin

__all__ = ["NodeTime", "Times", "group_text", "times_of"]

_SHOWN = 4  # nodes of a group that its text names
_SLOWEST = 10  # nodes in the text of all


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, or a group of nodes that ONNX Runtime ran as one, in microseconds.

    Attributes
    ----------
    node : str
        The name of the node or of its first output; for a group ``"conv1 + relu1"``.
    op_type : str
        For a group ``"Conv + Relu"``.
    total : float
        The time from the start of its kernels to the start of the next ones. Time in which several
        nodes ran is divided between them.
    kernel : float
        The time in its kernels, including those in its bodies and conversions to another layout. In
        the rest of ``total``, ONNX Runtime records the kernel's time, releases tensors and prepares
        the next kernel.
    python : float or None
        For an op, the time in ``compute``; None for other nodes.
    outputs : tuple of str
        The first outputs of the nodes of a group, in their order.
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
        text = messages.duration(self.total / 1e6)
        if len(self.outputs) > 1:
            text += f" ({self.node})"
        if self.python is not None:
            text += f" ({messages.duration(self.python / 1e6)} in Python)"
        return text


class Times(dict[str, NodeTime]):
    """The `NodeTime` of each node or group of nodes of the main graph.

    The key of a group is the first output of its last node. ``times["c"]`` also finds the group of
    the node with the first output ``c``; a group is listed once. A node that was folded or
    eliminated before the run has no time. All times are in microseconds.

    Parameters
    ----------
    nodes : dict
        A `NodeTime` by the key of its group.
    total : float
        The whole run: the sum of the nodes' `NodeTime.total` and of `unattributed`.
    looking : float
        The time, outside ``total``, in which the trace itself summarized tensors and recorded
        bodies.
    """

    def __init__(
        self, nodes: Mapping[str, NodeTime], total: float, *, looking: float = 0.0
    ) -> None:
        super().__init__(nodes)
        self.total, self.looking = total, looking
        self._groups = {output: key for key, time in self.items() for output in time.outputs}

    def __missing__(self, output: str) -> NodeTime:
        key = self._groups.get(output)
        if key is None:
            known = {*self, *self._groups}
            advice = messages.suggest_key(str(output), known) or "list(trace.times)"
            expected = "the first output of a node that was timed"
            got = sanitize(repr(output))
            raise UnknownName("trace.times", expected=expected, got=got, next=advice)
        return self[key]

    def find(self, output: str) -> NodeTime | None:
        """Find the time of the node or group with this first output; None if it has no time."""
        return self.get(self._groups.get(output, output))

    @property
    def attributed(self) -> float:
        """Add up the nodes' totals."""
        return sum(time.total for time in self.values())

    @property
    def unattributed(self) -> float:
        """Return the time that belongs to no node.

        It goes, for example, into preparing the run and handing out its outputs.
        """
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
        rest = f"{messages.duration(self.unattributed / 1e6)} ({self.share(self.unattributed)})"
        total = messages.duration(self.total / 1e6)
        return f"the run took {total}, {rest} of them not attributed to a node"

    def __repr__(self) -> str:
        lines = [str(self)]
        slowest = sorted(self.values(), key=lambda time: time.total, reverse=True)
        for time in slowest[:_SLOWEST]:
            took = messages.duration(time.total / 1e6)
            name = sanitize(f"{time.node} ({time.op_type})", 80)
            if time.python is not None:
                name += f", {messages.duration(time.python / 1e6)} in Python"
            lines.append(f"{took:>8}  {self.share(time.total):>7}  {name}")
        if len(slowest) > _SLOWEST:
            lines.append(f"… and {len(slowest) - _SLOWEST} more")
        return "\n".join(lines)


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
    python : mapping of str to float
        Microseconds in ``compute`` for each op, by the first output of its node.
    graph : GraphProto
        The user's graph, to whose nodes the groups refer.
    labels : sequence of str
        The names of the nodes for the reader.
    """
    times = {}
    # In the order of the user's graph, by the last node of each group.
    for origin in sorted(groups, key=lambda origin: origin.nodes[-1:]):
        nodes = [graph.node[index] for index in origin.nodes]
        # A node that was folded has no kernel.
        if not nodes or not run.kernels.keys() & set(origin.executed):
            continue
        outputs = tuple(map(protos.first_output, nodes))
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
    """Join the texts of a group's nodes; of many, only the first two and the last."""
    # A chain of convolutions can be a group of hundreds.
    if len(texts) > _SHOWN:
        texts = (*texts[: _SHOWN - 2], f"{len(texts) - _SHOWN + 1} more", texts[-1])
    return " + ".join(texts)

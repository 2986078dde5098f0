"""The ONNX Runtime profile: how long each node of the optimized graph took in each run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from onnx import GraphProto

__all__ = ["LOOKS", "NOBODY", "KernelEvent", "ProfiledRun", "RunEvents", "profiled_runs"]

_KERNEL = "_kernel_time"
_NODE = '{"cat" : "Node"'  # how the line of a kernel's event begins
_RUN, _EXECUTOR = "model_run", "SequentialExecutor::Execute"
NOBODY, LOOKS = -1, -2
"""In place of a node's index: a kernel of no known node, and one of the trace's own nodes."""


@dataclass
class ProfiledRun:
    """The times of one run in microseconds, by the indices of the optimized graph's nodes.

    Attributes
    ----------
    total : float
        The whole run, without the trace's own nodes.
    nodes : dict
        The time from the start of a node's kernel to the start of the next one.
    kernels : dict
        The time in the node's kernel, the kernels of nodes in its bodies included.
    looking : float
        The time in the trace's own nodes.
    """

    total: float
    nodes: dict[int, float]
    kernels: dict[int, float]
    looking: float


@dataclass(slots=True)
class KernelEvent:
    """A kernel's event.

    Attributes
    ----------
    name, op_type : str
        Of the node in the optimized graph.
    node : str
        Its number in ONNX Runtime.
    begin, end : float
        Microseconds since the profile began.
    looks : float
        The time in the trace's own nodes in its bodies.
    place : int
        The index of the node in the optimized graph, or the marker of an event of no node.
    """

    name: str
    op_type: str
    node: str
    begin: float
    end: float
    looks: float = 0.0
    place: int = NOBODY

    @property
    def took(self) -> float:
        return self.end - self.begin


@dataclass
class RunEvents:
    """The events of one run.

    Attributes
    ----------
    lines : list of str
        As ONNX Runtime wrote them.
    kernels : list of KernelEvent
        The kernels of the main graph, in the order in which they ran.
    executed_until : float
        When the last node was done.
    """

    lines: list[str] = field(default_factory=list)
    kernels: list[KernelEvent] = field(default_factory=list)
    begin: float = 0.0
    end: float = 0.0
    executed_until: float = 0.0

    def add_kernel(self, kernel: KernelEvent) -> None:
        """Add a kernel; events come in the order of their ends."""
        # A kernel that began later and ended earlier is in a body of this one,
        # whose time includes it.
        while self.kernels and self.kernels[-1].begin > kernel.begin:
            inner = self.kernels.pop()
            kernel.looks += inner.took if inner.place == LOOKS else inner.looks
        self.kernels.append(kernel)

    def times(self) -> ProfiledRun:
        """Divide the time of the run among its nodes."""
        nodes: dict[int, float] = defaultdict(float)
        kernels: dict[int, float] = defaultdict(float)
        begins = [kernel.begin for kernel in self.kernels]
        if self.kernels:
            begins.append(max(self.kernels[-1].end, min(self.executed_until, self.end)))
        # Between kernels, ONNX Runtime cleans up after the kernel before.
        for kernel, (begin, following) in zip(self.kernels, pairwise(begins), strict=True):
            nodes[kernel.place] += following - begin - kernel.looks
            nodes[LOOKS] += kernel.looks
            kernels[kernel.place] += kernel.took - kernel.looks
        looking = nodes.pop(LOOKS, 0.0)
        for index in (NOBODY, LOOKS):
            nodes.pop(index, None)
            kernels.pop(index, None)
        return ProfiledRun(self.end - self.begin - looking, dict(nodes), dict(kernels), looking)


def profiled_runs(
    file: Iterable[str], executed: GraphProto, looks: str = "", skipped: int = 0
) -> Iterator[RunEvents]:
    """Read the runs of a profile one by one.

    Parameters
    ----------
    file : file
        The profile's JSON, in which each event has a line.
    executed : GraphProto
        The graph that ran.
    looks : str
        The prefix of the names of the trace's own nodes; without it there are none.
    skipped : int
        Runs at the beginning whose nodes are not read: a run of 60,000 nodes
        takes a second to read.
    """
    places = _Places(executed)
    run = RunEvents()
    read_event = json.JSONDecoder().raw_decode  # loads costs as much again in its wrappers
    number = 0
    for line in file:
        text = line.strip().removesuffix(",")
        # Each event has a line; the brackets of the array are on lines of their own.
        if text in ("[", "]", "") or (number < skipped and text.startswith(_NODE)):
            continue
        event: dict[str, Any]
        event, _ = read_event(text)
        run.lines.append(text)
        name = event["name"]
        begin = float(event["ts"])
        end = begin + event["dur"]
        # Older versions write further events for each node, which are no kernels.
        if event["cat"] == "Node" and name.endswith(_KERNEL):
            args = event["args"]
            kernel = KernelEvent(
                name.removesuffix(_KERNEL), args["op_name"], args["node_index"], begin, end
            )
            if looks and kernel.name.startswith(looks):
                kernel.place = LOOKS
            run.add_kernel(kernel)
        elif name == _EXECUTOR:
            run.executed_until = end
        elif name == _RUN:
            run.begin, run.end = begin, end
            for kernel in run.kernels:
                if kernel.place != LOOKS:
                    kernel.place = places.find(kernel)
            if number >= skipped:
                yield run
            number += 1
            run = RunEvents()
        elif event["cat"] == "Session":
            run = RunEvents()  # events before it, as of the initialization, are no part of a run


class _Places:
    """Indices of nodes in the optimized graph, by a kernel's name, op type and number.

    Names can be the same or missing, and the profile numbers nodes differently from the
    file. Nodes of the same name and op type are taken in the order in which they run,
    which is the order of the file.
    """

    def __init__(self, executed: GraphProto) -> None:
        self._free: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, node in enumerate(executed.node):
            self._free[node.name, node.op_type].append(index)
        for indices in self._free.values():
            indices.reverse()
        self._places: dict[tuple[str, str], int] = {}

    def find(self, kernel: KernelEvent) -> int:
        """Find the place of a kernel of the main graph."""
        # The number tells nodes of the same name apart, and stays the same in all runs.
        key = kernel.name, kernel.node
        if key not in self._places:
            self._places[key] = self._take(kernel)
        return self._places[key]

    def _take(self, kernel: KernelEvent) -> int:
        indices = self._free.get((kernel.name, kernel.op_type))
        # ONNX Runtime names a node that has no name by its op type and number.
        if not indices and kernel.name == f"{kernel.op_type}_{kernel.node}":
            indices = self._free.get(("", kernel.op_type))
        if indices:
            return indices.pop()
        return NOBODY

"""ONNX Runtime's profile: how long each node of the optimised graph took in each run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from onnx import GraphProto

__all__ = ["ProfiledRun", "read_profile"]

_KERNEL = "_kernel_time"
_RUN, _EXECUTOR = "model_run", "SequentialExecutor::Execute"  # the latter is that of parallel execution as well
_NOBODY, _LOOKS = -1, -2


@dataclass
class ProfiledRun:
    """One run; microseconds, by the indices of the optimised graph's nodes.

    Attributes
    ----------
    total : float
        The whole run, without the trace's own nodes.
    nodes : dict
        What passed from the start of a node's kernel to that of the next one. An instant in which several nodes ran is divided
        between them.
    kernels : dict
        What passed in the node's kernel, the kernels of nodes in its bodies included.
    looking : float
        What passed in the trace's own nodes.
    """

    total: float
    nodes: dict[int, float]
    kernels: dict[int, float]
    looking: float


def read_profile(file: IO[Any], executed: GraphProto, looks: str) -> list[ProfiledRun]:
    """Read the runs of a profile.

    Parameters
    ----------
    file : file
        The profile's JSON.
    executed : GraphProto
        The graph that ran.
    looks : str
        What the names of the trace's own nodes begin with.
    """
    places = _Places(executed, looks)
    return [_attribute(run, kernels, executed_until, places) for run, kernels, executed_until in _runs(json.load(file))]


@dataclass
class _Kernel:
    """A kernel's event, and those of the kernels in its bodies."""

    name: str
    op_type: str
    node: str  # ONNX Runtime's number of it
    thread: int
    begin: float
    end: float
    inside: list[_Kernel] = field(default_factory=list)

    @property
    def took(self) -> float:
        return self.end - self.begin

    def walk(self) -> Iterator[_Kernel]:
        """Yield the kernels inside it at every depth."""
        for kernel in self.inside:
            yield kernel
            yield from kernel.walk()


def _runs(events: Iterable[dict[str, Any]]) -> Iterator[tuple[_Kernel, list[_Kernel], float]]:
    """Each run, the kernels of its main graph, and when its executor was done; events come in the order of their ends."""
    kernels: dict[int, list[_Kernel]] = defaultdict(list)
    executed_until = 0.0
    for event in events:
        name, args = event.get("name", ""), event.get("args") or {}
        begin = event.get("ts", 0.0)
        one = _Kernel(
            name, args.get("op_name", ""), args.get("node_index", ""), event.get("tid", 0), begin, begin + event.get("dur", 0.0)
        )
        if name == _EXECUTOR:
            executed_until = one.end
        elif name == _RUN:
            yield one, [kernel for of_thread in kernels.values() for kernel in of_thread], executed_until
            kernels.clear()
        elif event.get("cat") == "Node" and name.endswith(_KERNEL):
            one.name = name.removesuffix(_KERNEL)
            before = kernels[one.thread]
            while before and before[-1].begin > one.begin:  # it began later and ended earlier: in a body of this one
                one.inside.append(before.pop())
            before.append(one)


class _Places:
    """Indices of nodes in the optimised graph, by what the profile says of a kernel.

    Names can be the same or missing, and the profile numbers nodes otherwise than the file. Nodes of the same name and op type
    are taken in the order in which they run, which is that of the file.
    """

    def __init__(self, executed: GraphProto, looks: str) -> None:
        self.looks = looks
        self.free: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index in reversed(range(len(executed.node))):
            node = executed.node[index]
            self.free[node.name, node.op_type].append(index)
        self.known: dict[tuple[str, str], int] = {}

    def of(self, kernel: _Kernel) -> int:
        """The node's index, `_LOOKS` for one of the trace's own, or `_NOBODY`."""
        if kernel.name.startswith(self.looks):
            return _LOOKS
        key = kernel.name, kernel.node
        if key not in self.known:
            unnamed = kernel.name == f"{kernel.op_type}_{kernel.node}"
            free = self.free.get((kernel.name, kernel.op_type)) or (self.free.get(("", kernel.op_type)) if unnamed else None)
            self.known[key] = free.pop() if free else _NOBODY
        return self.known[key]


def _attribute(run: _Kernel, kernels: list[_Kernel], executed_until: float, places: _Places) -> ProfiledRun:
    """Divide a run's time among its nodes, instant by instant."""
    taken: dict[int, float] = defaultdict(float)
    inside: dict[int, float] = defaultdict(float)
    starts = [(kernel.begin, 1, places.of(kernel), kernel) for kernel in kernels]
    ends = [(kernel.end, 0, place, kernel) for _, _, place, kernel in starts]
    active: list[int] = []
    now, latest = run.begin, _NOBODY
    for at, begins, place, kernel in sorted((*starts, *ends), key=lambda change: change[:2]):
        for owner in active or [latest]:
            taken[owner] += max(0.0, at - now) / max(1, len(active))
        now = max(now, at)
        if begins:
            active.append(place)
            continue
        active.remove(place)
        # Between kernels, the thread that runs them is busy with what they leave behind; other threads may wait for work.
        latest = place if kernel.thread == run.thread else _NOBODY
        looks = sum(inner.took for inner in kernel.walk() if places.of(inner) == _LOOKS)
        taken[place] -= looks
        taken[_LOOKS] += looks
        inside[place] += kernel.took - looks
    taken[latest] += max(0.0, min(executed_until, run.end) - now)
    looking = taken.pop(_LOOKS, 0.0)
    for strange in (_NOBODY, _LOOKS):
        taken.pop(strange, None)
        inside.pop(strange, None)
    return ProfiledRun(run.took - looking, dict(taken), dict(inside), looking)

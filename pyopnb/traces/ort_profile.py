"""ONNX Runtime's profile: how long each node of the optimised graph took in each run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from onnx import GraphProto

__all__ = ["LOOKS", "NOBODY", "Kernel", "ProfiledRun", "profiled_runs", "read_profile"]

_KERNEL = "_kernel_time"
_RUN, _EXECUTOR = (
    "model_run",
    "SequentialExecutor::Execute",
)  # the latter is that of parallel execution as well
NOBODY, LOOKS = -1, -2
"""In place of a node's index: the kernel of no node that is known, and of one of the trace's own."""


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
    return [found for found, _, _ in profiled_runs(file, executed, looks)]


def profiled_runs(
    file: IO[Any], executed: GraphProto, looks: str = ""
) -> Iterator[tuple[ProfiledRun, Kernel, list[tuple[int, Kernel]]]]:
    """Read the runs of a profile one by one.

    Parameters
    ----------
    file, executed, looks
        As of `read_profile`; without ``looks`` there are no nodes of the trace's own.

    Yields
    ------
    ProfiledRun
    Kernel
        The event of the run itself.
    list of (int, Kernel)
        The kernels of the main graph, each with the index of its node, or `NOBODY`.
    """
    places = _Places(executed, looks)
    for run, kernels, executed_until in _runs(_events(file)):
        placed = [(places.of(kernel), kernel) for kernel in kernels]
        yield _attribute(run, placed, executed_until, places), run, placed


@dataclass(slots=True)
class Kernel:
    """A kernel's event, and those of the kernels in its bodies.

    Attributes
    ----------
    name, op_type : str
        Of the node in the optimised graph.
    node : str
        ONNX Runtime's number of it.
    thread : int
    begin, end : float
        Microseconds since the profile began.
    inside : list of Kernel
        In the order of their ends.
    """

    name: str
    op_type: str
    node: str
    thread: int
    begin: float
    end: float
    inside: list[Kernel] = field(default_factory=list)

    @property
    def took(self) -> float:
        return self.end - self.begin

    def walk(self) -> Iterator[Kernel]:
        """Yield the kernels inside it at every depth."""
        for kernel in self.inside:
            yield kernel
            yield from kernel.walk()


def _events(file: IO[Any]) -> Iterator[dict[str, Any]]:
    """The events of a profile; ONNX Runtime writes each on a line of its own, and a million of them are too much at once."""
    for line in file:
        text = line.strip()
        if text[:2] in ("[{", b"[{"):
            yield from json.loads(text)
        elif len(text) > 1:
            yield json.loads(text[:-1] if text[-1:] in (",", b",") else text)


def _runs(events: Iterable[dict[str, Any]]) -> Iterator[tuple[Kernel, list[Kernel], float]]:
    """Each run, the kernels of its main graph, and when its executor was done; events come in the order of their ends."""
    kernels: dict[int, list[Kernel]] = defaultdict(list)
    executed_until = 0.0
    for event in events:
        name, args = event.get("name", ""), event.get("args") or {}
        begin = event.get("ts", 0.0)
        one = Kernel(
            name,
            args.get("op_name", ""),
            args.get("node_index", ""),
            event.get("tid", 0),
            begin,
            begin + event.get("dur", 0.0),
        )
        if name == _EXECUTOR:
            executed_until = one.end
        elif name == _RUN:
            yield (
                one,
                [kernel for of_thread in kernels.values() for kernel in of_thread],
                executed_until,
            )
            kernels.clear()
        elif event.get("cat") == "Node" and name.endswith(_KERNEL):
            one.name = name.removesuffix(_KERNEL)
            before = kernels[one.thread]
            while (
                before and before[-1].begin > one.begin
            ):  # it began later and ended earlier: in a body of this one
                one.inside.append(before.pop())
            one.inside.reverse()
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

    def is_look(self, kernel: Kernel) -> bool:
        return bool(self.looks) and kernel.name.startswith(self.looks)

    def of(self, kernel: Kernel) -> int:
        """The node's index, `LOOKS` for one of the trace's own, or `NOBODY`."""
        if self.is_look(kernel):
            return LOOKS
        key = kernel.name, kernel.node
        if key not in self.known:
            unnamed = kernel.name == f"{kernel.op_type}_{kernel.node}"
            free = self.free.get((kernel.name, kernel.op_type)) or (
                self.free.get(("", kernel.op_type)) if unnamed else None
            )
            self.known[key] = free.pop() if free else NOBODY
        return self.known[key]


def _attribute(
    run: Kernel, placed: list[tuple[int, Kernel]], executed_until: float, places: _Places
) -> ProfiledRun:
    """Divide a run's time among its nodes, instant by instant."""
    taken: dict[int, float] = defaultdict(float)
    inside: dict[int, float] = defaultdict(float)
    starts = [(kernel.begin, 1, place, kernel) for place, kernel in placed]
    ends = [(kernel.end, 0, place, kernel) for _, _, place, kernel in starts]
    active: list[int] = []
    now, latest = run.begin, NOBODY
    for at, begins, place, kernel in sorted((*starts, *ends), key=lambda change: change[:2]):
        for owner in active or [latest]:
            taken[owner] += max(0.0, at - now) / max(1, len(active))
        now = max(now, at)
        if begins:
            active.append(place)
            continue
        active.remove(place)
        # Between kernels, the thread that runs them is busy with what they leave behind; other threads may wait for work.
        latest = place if kernel.thread == run.thread else NOBODY
        looks = sum(inner.took for inner in kernel.walk() if places.is_look(inner))
        taken[place] -= looks
        taken[LOOKS] += looks
        inside[place] += kernel.took - looks
    taken[latest] += max(0.0, min(executed_until, run.end) - now)
    looking = taken.pop(LOOKS, 0.0)
    for strange in (NOBODY, LOOKS):
        taken.pop(strange, None)
        inside.pop(strange, None)
    return ProfiledRun(run.took - looking, dict(taken), dict(inside), looking)

"""Times of nodes, from ONNX Runtime's profile and from clocks in Python."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

__all__ = ["NodeTime", "node_times"]

_KERNEL = "_kernel_time"


@dataclass(frozen=True)
class NodeTime:
    """How long a node took, in microseconds; medians where there were several runs.

    Attributes
    ----------
    node : str
        The node's name, or that of its first output.
    op_type : str
    total : float
        What ONNX Runtime measured; it counts whole microseconds.
    python : float or None
        Of an op: the time in ``compute``. None for other nodes.
    runs : int
        How many runs were timed.
    """

    node: str
    op_type: str
    total: float
    python: float | None = None
    runs: int = 1

    @property
    def crossing(self) -> float | None:
        """Of an op: microseconds spent outside ``compute``, on passing arrays and checking results; None for other nodes."""
        return None if self.python is None else max(0.0, self.total - self.python)

    def __str__(self) -> str:
        split = "" if self.python is None else f" ({self.python:.0f} in Python)"
        return f"{self.total:.0f} µs{split}"


def node_times(
    profile: IO[Any], nodes: Mapping[str, tuple[str, str, str]], python: Mapping[str, Sequence[int]], runs: int
) -> dict[str, NodeTime]:
    """The times of nodes, by their first outputs, from a profile of ONNX Runtime.

    Parameters
    ----------
    profile : file
        The profile's JSON.
    nodes : dict
        First output, name for the reader and op type of each node, by the name in the profile. A node that ONNX Runtime fused
        with others, folded or took away is not in the profile, and gets no time.
    python : dict
        Nanoseconds of each call of ``compute``, by first output.
    runs : int
        How many runs count: the last ones, as those before warm up.
    """
    spent: dict[str, list[float]] = defaultdict(list)
    for event in json.load(profile):
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            spent[name.removesuffix(_KERNEL)].append(event["dur"])
    times = {}
    for name, (output, node, op_type) in nodes.items():
        if name in spent and output:
            counted, calls = spent[name][-runs:], python.get(output, ())[-runs:]
            inside = statistics.median(calls) / 1000 if calls else None
            times[output] = NodeTime(node, op_type, statistics.median(counted), inside, len(counted))
    return times

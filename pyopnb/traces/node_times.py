"""Profiles: the times of many runs, node by node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from onnx import ModelProto

from pyopnb.common import Displayable, NamedItems, Table, messages, plural, sanitize
from pyopnb.engine import argument_checks, check_arguments
from pyopnb.errors import InputError, UnknownName
from pyopnb.traces.chrome import RunLog, write_chrome
from pyopnb.traces.spread import Spread
from pyopnb.traces.times import Times

__all__ = ["NodeProfile", "Profile"]

_LINES = 12  # nodes in the text


@dataclass(frozen=True, eq=False)
class NodeProfile:
    """The times of a node, or of a group of nodes that ONNX Runtime ran as one.

    Each array has an element for each run.

    Attributes
    ----------
    node : str
        The node's name, or its first output; of a group ``"conv1 + relu1"``.
    op_type : str
        Of a group ``"Conv + Relu"``.
    key : str
        The first output of its last node.
    outputs : tuple of str
        First outputs of the nodes of the group, or of the node.
    totals : ndarray
        float64[runs], microseconds: from the start of its kernels to the start of the next ones,
        as ``NodeTime.total``.
    kernels : ndarray
        float64[runs], microseconds: in its kernels, including kernels in its bodies.
    pythons : ndarray or None
        float64[runs], microseconds: in ``compute`` of the op, or of the ops in its bodies. None
        where there is no op.
    """

    node: str
    op_type: str
    key: str
    outputs: tuple[str, ...]
    totals: np.ndarray
    kernels: np.ndarray
    pythons: np.ndarray | None = None

    @classmethod
    def of(cls, key: str, runs: Sequence[Times]) -> NodeProfile:
        """Gather the times of a node in several runs."""
        times = [run[key] for run in runs]
        first = times[0]
        pythons = None
        if first.python is not None:
            pythons = np.array([time.python for time in times])
        totals = np.array([time.total for time in times])
        kernels = np.array([time.kernel for time in times])
        outputs = first.outputs or (key,)
        return cls(first.node, first.op_type, key, outputs, totals, kernels, pythons)

    @cached_property
    def total(self) -> Spread:
        """Summarize ``totals``."""
        return Spread.of(self.totals)

    @cached_property
    def kernel(self) -> Spread:
        """Summarize ``kernels``."""
        return Spread.of(self.kernels)

    @cached_property
    def python(self) -> Spread | None:
        """Summarize ``pythons``."""
        if self.pythons is None:
            return None
        return Spread.of(self.pythons)

    def __str__(self) -> str:
        text = str(self.total)
        if self.python is not None:
            text += f", {Spread.write(self.python.median)} in Python"
        return text


class Profile(NamedItems, Displayable):
    """The times of many runs of a session in microseconds, as `profile` measures them.

    In each run, the nodes of the main graph and the `unattributed` time add up to the whole.
    Medians do not: the median of a sum is not the sum of medians. So shares use the mean
    over the middle half of the runs, and add up.

    Attributes
    ----------
    model : ModelProto
        The model that ran, with the names of its user and the attrs that the session had; without
        the data of large weights.
    nodes : list of NodeProfile
        Nodes of the main graph, in its order.
    walls : ndarray
        float64[runs]: each run as its caller waited for it, from the feeds' check to the
        arrays that it gave.
    sessions : ndarray
        float64[runs]: the part of it in ONNX Runtime.
    pythons : ndarray
        float64[runs]: in ``compute`` of all ops.
    unprofiled : Spread or None
        Of some runs of the session itself without a profile; None where it writes one anyway.
    asked : int
        How many runs were wanted; there are fewer if they were interrupted, or too many for
        the ONNX Runtime profile.
    runtime : str
        The runtime and level: ``"onnxruntime 1.31.1, all optimizations"``.
    logs : list of RunLog
        The events of the runs, for `to_chrome`.
    remarks : list of str
        Remarks on these numbers.
    """

    def __init__(
        self,
        model: ModelProto,
        nodes: Sequence[NodeProfile],
        *,
        walls: np.ndarray,
        sessions: np.ndarray,
        pythons: np.ndarray,
        logs: Sequence[RunLog] = (),
        unprofiled: Spread | None = None,
        asked: int = 0,
        runtime: str = "",
        remarks: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.nodes = list(nodes)
        self.walls, self.sessions, self.pythons = walls, sessions, pythons
        self.logs = list(logs)
        self.unprofiled = unprofiled
        self.asked = asked or len(walls)
        self.runtime = runtime
        self.remarks = list(remarks)

    @property
    def runs(self) -> int:
        """Count the runs in the profile."""
        return len(self.walls)

    @cached_property
    def wall(self) -> Spread:
        """Summarize ``walls``."""
        return Spread.of(self.walls)

    @cached_property
    def python(self) -> Spread:
        """Summarize ``pythons``."""
        return Spread.of(self.pythons)

    @cached_property
    def attributed(self) -> np.ndarray:
        """Add up the times of the main graph's nodes: float64[runs]."""
        return np.asarray(self._totals(self.nodes).sum(axis=0))

    def _totals(self, nodes: Sequence[NodeProfile]) -> np.ndarray:
        """Stack the times of nodes: float64[nodes, runs]."""
        return np.array([node.totals for node in nodes]).reshape(len(nodes), self.runs)

    @cached_property
    def unattributed(self) -> np.ndarray:
        """Return the time that no node accounts for, such as checking feeds: float64[runs]."""
        return np.asarray(self.walls - self.attributed)

    @cached_property
    def _middle(self) -> np.ndarray:
        """Select the middle half of the runs, ordered by ``walls``."""
        # Runs that the machine slowed down or sped up do not count.
        cut = (self.runs + 1) // 4
        return np.argsort(self.walls, kind="stable")[cut : self.runs - cut]

    def mean(self, values: np.ndarray) -> float:
        """Take the mean over the middle half of the runs, ordered by ``walls``.

        Parameters
        ----------
        values : ndarray
            float64[runs].

        Returns
        -------
        float
            In the unit of ``values``.
        """
        return float(values[self._middle].mean())

    @cached_property
    def _mean_wall(self) -> float:
        return self.mean(self.walls)

    def share(self, values: np.ndarray) -> float:
        """Return times as a share of the runs.

        The shares of the main graph's nodes and of `unattributed` add up to 1.

        Parameters
        ----------
        values : ndarray
            float64[runs], microseconds.

        Returns
        -------
        float
            From 0 to 1.
        """
        return self.mean(values) / self._mean_wall

    @property
    def op_types(self) -> dict[str, np.ndarray]:
        """Add the times up by op type, the largest first: float64[runs] each."""
        sums: dict[str, np.ndarray] = {}
        for node in self.nodes:
            sums[node.op_type] = sums.get(node.op_type, 0.0) + node.totals
        return dict(sorted(sums.items(), key=lambda entry: -self.mean(entry[1])))

    def __getitem__(self, name: str) -> NodeProfile:
        """Find the profile of a node, by its name or first output."""
        # A group is found by the first output of each of its nodes.
        for node in self.nodes:
            if name == node.node or name in node.outputs:
                return node
        names = [node.node for node in self.nodes]
        expected = "a node of the profile, by its name or first output"
        next_ = messages.suggest_key(str(name), names)
        raise UnknownName(
            "profile", expected=expected, got=argument_checks.describe(name), next=next_
        )

    def ranked(self) -> list[NodeProfile]:
        """Order the nodes by their times, the slowest first.

        Returns
        -------
        list of NodeProfile
            All nodes that ran.
        """
        # One reduction over all nodes: one NumPy mean for each node takes seconds where
        # there are thousands.
        means = self._totals(self.nodes)[:, self._middle].mean(axis=1)
        return [self.nodes[index] for index in np.argsort(-means, kind="stable")]

    @check_arguments
    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON that https://ui.perfetto.dev and ``chrome://tracing`` open.

        The ONNX Runtime threads and the Python ``compute`` have separate tracks.

        Parameters
        ----------
        path : path
            The name may have any ending; ``.json`` is usual.

        Raises
        ------
        ModelError, OSError
            The file cannot be written.

        Notes
        -----
        The file is the ONNX Runtime profile of these runs, plus the calls of ``compute``.
        """
        if not argument_checks.is_path(path) or not os.fspath(path):
            raise InputError(
                "to_chrome, path",
                expected="a path",
                got=argument_checks.describe(path),
                next='"trace.json"',
            )
        write_chrome(self.logs, Path(path))

    # ---- text ------------------------------------------------------------------------------------

    def title(self) -> str:
        """Name the model and the number of runs, in one line."""
        # An interrupted profile has fewer runs than requested.
        few = f" of {self.asked:,}" if self.runs < self.asked else ""
        return f"Profile of {self.runs:,}{few} run{'s' if self.runs != 1 else ''}, {self.runtime}"

    def headline(self) -> str:
        """Say how long a run takes, and how much of it is Python.

        Returns
        -------
        str
            One line.
        """
        text = f"a run: {self.wall}"
        if self.unprofiled is not None:
            # The profile itself costs some microseconds for each node.
            text += f", {Spread.write(self.unprofiled.median)} without the profile"
        if self._has_ops:
            share = _percent(self.share(self.pythons))
            text += f"; in Python {Spread.write(self.python.median)}, {share}"
        return text

    @property
    def _has_ops(self) -> bool:
        return any(node.pythons is not None for node in self.nodes)

    @check_arguments
    def table(self, most: int = 40) -> Table:
        """Tabulate the nodes, the slowest first, and the time of no node.

        Parameters
        ----------
        most : int
            Rows of nodes.

        Returns
        -------
        Table
            One row sums up the nodes beyond ``most``.
        """
        nodes = self.ranked()
        shown, faster = nodes[:most], nodes[most:]
        rows = []
        for node in shown:
            labels = [sanitize(node.node, 60), sanitize(node.op_type, 60)]
            rows.append(labels + self._times(self.share(node.totals), node.total, node.python))
        sums = {"not attributed to a node": self.unattributed, "the whole run": self.walls}
        if faster:
            sums = {f"{len(faster):,} faster ones": self._totals(faster).sum(axis=0), **sums}
        for label, values in sums.items():
            python = self.python if values is self.walls else None
            times = self._times(self.share(values), Spread.of(values), python)
            rows.append([label, "", *times])
        head = ["node", "op", "share", "median", "middle half", "least", "in Python"]
        width = len(head) if self._has_ops else len(head) - 1
        keys = [node.outputs for node in shown]
        return Table(head[:width], [row[:width] for row in rows], keys=keys)

    def _times(self, share: float, spread: Spread, python: Spread | None) -> list[str]:
        """Write the cells of a time; the last is the time in Python."""
        texts = [_percent(share), Spread.write(spread.median), spread.range]
        in_python = "" if python is None else Spread.write(python.median)
        return [*texts, Spread.write(spread.least), in_python]

    def __repr__(self) -> str:
        # The same text as in the widget, cut to the slowest nodes.
        counts = plural(len(self.model.graph.node), "node")
        head = [f"{self.title()}, {counts}", self.headline()]
        return "\n".join([*head, repr(self.table(_LINES)), *self.remarks])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

"""The events of profiled runs on one clock, and as a trace that Perfetto and Chrome open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pyopnb.ops.atomic_write import atomic_write, check_writable
from pyopnb.runtime.plan import ClockedCall
from pyopnb.traces.ort_profile import Kernel

__all__ = ["Events", "Recorder", "What", "write_chrome_trace"]

_EVENT = np.dtype(
    [("run", "i4"), ("what", "i4"), ("thread", "i8"), ("begin", "f8"), ("took", "f8")]
)
_CALL, _SESSION, _KERNEL, _PYTHON = "call", "session", "kernel", "python"
_TRACKS = {
    _CALL: "calls of the session",
    _SESSION: "ONNX Runtime",
    _KERNEL: "ONNX Runtime",
    _PYTHON: "Python: compute",
}
_PROCESS = 1


@dataclass(frozen=True)
class What:
    """What an event is of: its kind, the name that is shown, and the op type of a node."""

    kind: str
    name: str
    op_type: str = ""


@dataclass(frozen=True, eq=False)
class Events:
    """The events of all runs.

    Attributes
    ----------
    rows : ndarray
        Structured: ``run`` (int32), ``what`` (int32, an index of ``whats``), ``thread`` (int64), ``begin`` and ``took``
        (float64, microseconds). Those of Python are on the clock of ONNX Runtime's profile.
    whats : sequence of What
    """

    rows: np.ndarray
    whats: Sequence[What]

    def chrome(self, runs: Iterable[int], title: str) -> dict[str, Any]:
        """Some runs in the JSON object format of Chrome's Trace Event Format, which Perfetto reads.

        Parameters
        ----------
        runs : iterable of int
            The first begins at 0.
        title : str

        Returns
        -------
        dict
            ``traceEvents`` are complete events (``"ph": "X"``, ``ts`` and ``dur`` in microseconds) that nest on each track, and
            metadata (``"ph": "M"``) with the tracks' names.
        """
        rows = self.rows[np.isin(self.rows["run"], list(runs))]
        start = float(rows["begin"].min()) if len(rows) else 0.0
        tracks = self._tracks(rows)
        events: list[dict[str, Any]] = [_metadata("process_name", 0, {"name": title})]
        for (name, number), (track, _) in tracks.items():
            events.append(
                _metadata(
                    "thread_name",
                    track,
                    {"name": f"{name}, thread {number}" if number > 1 else name},
                )
            )
            events.append(_metadata("thread_sort_index", track, {"sort_index": track}))
        for track, selected in tracks.values():
            events += (
                self._event(row, begin - start, end - start, track)
                for row, begin, end in _nested(rows[selected])
            )
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {"made by": "pyopnb.profile"},
        }

    def _tracks(self, rows: np.ndarray) -> dict[tuple[str, int], tuple[int, np.ndarray]]:
        """The rows of each track by its name and number: calls first, then ONNX Runtime's threads, then Python's."""
        names = np.array([_TRACKS[what.kind] for what in self.whats])[rows["what"]]
        found: dict[tuple[str, int], tuple[int, np.ndarray]] = {}
        for name in dict.fromkeys(_TRACKS.values()):
            here = names == name
            threads = dict.fromkeys(rows["thread"][here].tolist())
            for number, thread in enumerate(threads, 1):
                found[name, number] = len(found) + 1, here & (rows["thread"] == thread)
        return found

    def _event(self, row: Any, begin: float, end: float, track: int) -> dict[str, Any]:
        what = self.whats[row["what"]]
        ts = round(begin, 3)
        args: dict[str, Any] = {
            "run": int(row["run"]) + 1,
            **({"op_type": what.op_type} if what.op_type else {}),
        }
        return {
            "name": f"{what.name} {int(row['run']) + 1}" if what.kind == _CALL else what.name,
            "cat": what.kind,
            "ph": "X",
            "ts": ts,
            "dur": max(0.0, round(round(end, 3) - ts, 3)),
            "pid": _PROCESS,
            "tid": track,
            "args": args,
        }


def _metadata(name: str, track: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": _PROCESS, "tid": track, "args": args}


def _nested(rows: np.ndarray) -> Iterator[tuple[Any, float, float]]:
    """The rows of a track with begins and ends that nest.

    ONNX Runtime counts whole microseconds, begin and duration each for itself, so that an event can seem to end one after the
    event around it. Perfetto drops what does not nest.
    """
    around: list[float] = []  # the ends of the events that the next one can be inside of
    for row in rows[np.lexsort((-rows["took"], rows["begin"]))]:
        begin = float(row["begin"])
        end = begin + float(row["took"])
        while around and around[-1] <= begin:
            around.pop()
        if around:
            end = min(end, around[-1])
        around.append(end)
        yield row, begin, end


def write_chrome_trace(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write what `Events.chrome` gives; an existing file stays as it was until the new one is complete."""
    path = Path(path)
    check_writable(path)
    with atomic_write(path) as file:
        file.stream.write(json.dumps(document, allow_nan=False).encode())


@dataclass
class Recorder:
    """Collects the events of one run after the other.

    Attributes
    ----------
    labels : dict
        What the reader calls a kernel, by its name in the optimised graph: name and op type.
    """

    labels: dict[str, tuple[str, str]]
    _rows: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    _whats: dict[What, int] = field(default_factory=dict)
    _bounds: dict[int, tuple[float, float]] = field(
        default_factory=dict
    )  # of the shift between the clocks, by run

    def add(
        self,
        number: int,
        call: ClockedCall,
        event: Kernel,
        kernels: Sequence[Kernel],
        python: Mapping[str, Sequence[ClockedCall]],
    ) -> None:
        """Add a run.

        Parameters
        ----------
        number : int
        call : ClockedCall
            Of the session.
        event : Kernel
            Of the run in ONNX Runtime.
        kernels : sequence of Kernel
            Those of the main graph.
        python : mapping
            The calls of each op's ``compute``, by the name of its node.
        """
        every = [inner for kernel in kernels for inner in (kernel, *kernel.walk())]
        self._bounds[number] = _bounds(call, event, every, python)
        self._put(number, What(_CALL, "call"), call.thread, call.begin / 1000, call.took)
        self._put(number, What(_SESSION, "run"), event.thread, event.begin, event.took)
        for kernel in every:
            what = What(_KERNEL, *self.labels.get(kernel.name, (kernel.name, kernel.op_type)))
            self._put(number, what, kernel.thread, kernel.begin, kernel.took)
        for name, calls in python.items():
            what = What(_PYTHON, *self.labels.get(name, (name, "")))
            for one in calls:
                self._put(number, what, one.thread, one.begin / 1000, one.took)

    def _put(self, run: int, what: What, thread: int, begin: float, took: float) -> None:
        self._rows.append(
            (run, self._whats.setdefault(what, len(self._whats)), thread, begin, took)
        )

    def events(self) -> Events:
        """All of them."""
        rows, shifts = (
            np.array(self._rows, _EVENT),
            dict(zip(self._bounds, _shifts(list(self._bounds.values())), strict=True)),
        )
        is_python = np.array([what.kind in (_CALL, _PYTHON) for what in self._whats], bool)[
            rows["what"]
        ]
        rows["begin"][is_python] += [shifts[run] for run in rows["run"][is_python].tolist()]
        return Events(rows, list(self._whats))


def _shifts(bounds: Sequence[tuple[float, float]]) -> list[float]:
    """Microseconds from Python's clock to that of ONNX Runtime's profile, for each run.

    One that all runs allow; where the clocks drift, that of the narrowest bounds, moved from run to run as far as it must. The
    middle of each run's own bounds would lay calls over one another: they are wide where a call takes long around its run.
    """
    if not bounds:
        return []
    lows, highs = zip(*bounds, strict=True)
    if max(lows) <= min(highs):
        return [(max(lows) + min(highs)) / 2] * len(bounds)
    first = min(range(len(bounds)), key=lambda run: highs[run] - lows[run])
    found = [(lows[first] + highs[first]) / 2] * len(bounds)
    for run in range(first + 1, len(bounds)):
        found[run] = min(max(found[run - 1], lows[run]), highs[run])
    for run in reversed(range(first)):
        found[run] = min(max(found[run + 1], lows[run]), highs[run])
    return found


def _bounds(
    call: ClockedCall,
    event: Kernel,
    kernels: Iterable[Kernel],
    python: Mapping[str, Sequence[ClockedCall]],
) -> tuple[float, float]:
    """Between what the shift from Python's clock to that of ONNX Runtime's profile is, in a run.

    They are not the same clock everywhere. But the call of the session contains the run, and a kernel contains the call of its
    op's ``compute``: each leaves an interval for the shift, and all of them a narrow one.
    """
    low, high = event.end - call.end / 1000, event.begin - call.begin / 1000
    by_name: dict[str, list[Kernel]] = {name: [] for name in python}
    for kernel in kernels:
        if kernel.name in by_name:
            by_name[kernel.name].append(kernel)
    for name, calls in python.items():
        found = sorted(by_name[name], key=lambda kernel: kernel.begin)
        for kernel, inner in zip(found, calls, strict=True) if len(found) == len(calls) else ():
            low = max(low, kernel.begin - inner.begin / 1000)
            high = min(high, kernel.end - inner.end / 1000)
    return min(
        low, high + 1
    ), high + 1  # ONNX Runtime counts whole microseconds, and drops the rest

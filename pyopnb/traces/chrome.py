"""Write profiled runs for Perfetto.

The ONNX Runtime profile is a Chrome trace, to which the spans of Python are added.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import onnxruntime

from pyopnb.common import file_writes
from pyopnb.traces.clocks import ClockedCall

__all__ = ["RunLog", "Span", "clock_offset", "write_chrome"]

_CALLS = "calls of the session"
_COMPUTE = "Python: compute"


class Span(NamedTuple):
    """A call in Python, under the name that a reader knows it by."""

    name: str
    call: ClockedCall


@dataclass(frozen=True, eq=False)
class RunLog:
    """The events of one run.

    Attributes
    ----------
    number : int
        Counted from 1.
    packed : bytes
        The lines of the ONNX Runtime profile, compressed: a run of a large network has megabytes.
    call : ClockedCall
        Of the session.
    computes : sequence of Span
        Calls of ops.
    offset : int
        Nanoseconds that the Python clock is ahead of the profile's.
    """

    number: int
    packed: bytes
    call: ClockedCall
    computes: Sequence[Span]
    offset: int

    @classmethod
    def of(
        cls,
        number: int,
        lines: Iterable[str],
        call: ClockedCall,
        computes: Sequence[Span],
        offset: int,
    ) -> RunLog:
        """Pack the lines of a run."""
        # The quickest compression: profiles shrink to a tenth anyway.
        text = ",\n".join(lines)
        return cls(number, zlib.compress(text.encode(), 1), call, computes, offset)

    def events(self) -> list[bytes]:
        """Return the events of the run as JSON, with separate tracks for Python."""
        lines = zlib.decompress(self.packed).split(b",\n")
        first = json.loads(lines[0])
        # Perfetto drops spans that do not nest in a track, and ONNX Runtime counts whole
        # microseconds, so that the spans of Python, which are exact, must not be among its own.
        process = first["pid"] + 1
        spans = [Span(f"call {self.number}", self.call), *self.computes]
        for number, span in enumerate(spans):
            track = _COMPUTE
            if number == 0:
                track = _CALLS
            event = {
                "name": span.name,
                "cat": track,
                "ph": "X",
                "ts": (span.call.begin - self.offset) / 1000,
                "dur": span.call.took,
                "pid": process,
                "tid": 1 if number == 0 else 2,
                "args": {"run": self.number},
            }
            lines.append(json.dumps(event).encode())
        lines.append(_named("process_name", "pyopnb", process, 1))
        lines.append(_named("thread_name", _CALLS, process, 1))
        lines.append(_named("thread_name", _COMPUTE, process, 2))
        return lines


def _named(kind: str, name: str, process: int, track: int) -> bytes:
    event = {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
    return json.dumps(event).encode()


def clock_offset(runtime: onnxruntime.InferenceSession) -> int:
    """Return the nanoseconds that the Python clock is ahead of a profile that has just begun.

    ONNX Runtime uses the system's clock on Linux and a monotonic one elsewhere. The right one is
    the clock that has moved least since the profile began.
    """
    start = int(runtime.get_profiling_start_time_ns())
    now = time.perf_counter_ns()
    passed = min(abs(clock - start) for clock in (time.time_ns(), time.monotonic_ns(), now))
    return now - passed


def write_chrome(logs: Iterable[RunLog], path: Path) -> None:
    """Write runs in the JSON array format of Chrome's Trace Event Format, as ONNX Runtime does."""
    # A profile of minutes should not be lost to a folder that does not exist.
    file_writes.check_writable(path)
    with file_writes.atomic_write(path) as file:
        separator = b"[\n"
        for log in logs:
            for event in log.events():
                file.stream.write(separator + event)
                separator = b",\n"
        file.stream.write(b"\n]\n")

"""A profile in Chrome's Trace Event Format: what its specification asks of complete events and metadata."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import pyopnb
from pyopnb.runtime.plan import ClockedCall
from pyopnb.traces.events import Recorder
from pyopnb.traces.ort_profile import Kernel
from pyopnb.traces.profile import Profile


@pytest.fixture(scope="module")
def found() -> Profile:
    @pyopnb.pyop("demo::Sorted")
    class Sorted:
        def compute(self, x):
            return np.sort(x)

    model = pyopnb.parse(
        "(float[N] x, int64 n, bool go) => (float[N] y) { a = Exp(x)  l = Loop(n, go, a) <body = turn (int64 i, bool k, float[N] u)"
        " => (bool z, float[N] q) { z = Identity(k)  q = demo.Sorted(u) }>  y = demo.Sorted(l) }"
    )
    x = np.random.default_rng(0).standard_normal(5_000, np.float32)
    return pyopnb.profile(pyopnb.Session(model), x=x, n=2, go=True, runs=3, warmup=1)


def written(found: Profile, folder: Any, **wanted: Any) -> list[dict[str, Any]]:
    path = folder / "trace.json"
    found.to_chrome(path, **wanted)
    document = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert set(document) <= {"traceEvents", "displayTimeUnit", "otherData"} and document[
        "displayTimeUnit"
    ] in ("ms", "ns")
    events = document["traceEvents"]
    assert isinstance(events, list)
    for event in events:
        check_fields(event)
    check_nesting(events)
    return events


def check_fields(event: dict[str, Any]) -> None:
    assert {"name", "ph", "ts", "pid", "tid", "args"} <= set(event)
    assert isinstance(event["name"], str) and isinstance(event["args"], dict) and event["ts"] >= 0
    assert all(type(event[name]) is int for name in ("pid", "tid"))
    if event["ph"] == "M":
        known = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}
        assert list(event["args"]) == [known[event["name"]]]
    else:
        assert event["ph"] == "X" and event["dur"] >= 0 and isinstance(event["cat"], str)


def check_nesting(events: list[dict[str, Any]]) -> None:
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        around: list[float] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1] <= begin + 1e-6:
                around.pop()
            assert not around or end <= around[-1] + 1e-6
            around.append(end)


def test_each_run_has_its_events_on_tracks_with_names(found, tmp_path):
    events = written(found, tmp_path)
    tracks = {
        event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"
    }
    assert list(tracks) == ["calls of the session", "ONNX Runtime", "Python: compute"]
    names = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["args"]["run"] == 2:
            names[event["tid"]].append(event["name"])
    assert names[tracks["calls of the session"]] == ["call 2"]
    assert names[tracks["Python: compute"]] == ["l/body/q", "l/body/q", "y"]
    kernels = [name for name in names[tracks["ONNX Runtime"]] if not name.endswith("/z")]
    assert kernels == ["run", "a", "l", "l/body/q", "l/body/q", "y"]
    assert len({event["args"]["run"] for event in events if event["ph"] == "X"}) == 3


def test_python_is_inside_its_kernel(found, tmp_path):
    events = [
        event for event in written(found, tmp_path) if event["ph"] == "X" and event["name"] == "y"
    ]
    by_kind = defaultdict(list)
    for event in sorted(events, key=lambda event: event["ts"]):
        by_kind[event["cat"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(by_kind["kernel"]) == len(by_kind["python"]) == 3
    for (begin, end), (first, last) in zip(by_kind["kernel"], by_kind["python"], strict=True):
        assert begin - 2 <= first <= last <= end + 2  # ONNX Runtime counts whole microseconds


def test_the_median_run_alone(found, tmp_path):
    events = [event for event in written(found, tmp_path, runs="median") if event["ph"] == "X"]
    (number,) = {event["args"]["run"] for event in events}
    assert (
        found.walls[number - 1] == np.median(found.walls)
        and min(event["ts"] for event in events) == 0
    )


def test_a_second_of_drift_between_the_clocks_and_rounding_do_not_unnest():
    # The kernel seems to end one microsecond after the run, and the op's call is known by another clock.
    kernel = Kernel("op", "Op", "0", 7, 1_000_012.0, 1_000_091.0)
    event = Kernel("model_run", "", "", 7, 1_000_010.0, 1_000_090.0)
    call = ClockedCall(9, 5_000, 100_000)  # nanoseconds
    recorder = Recorder({"op": ("o", "Op")})
    recorder.add(0, call, event, [kernel], {"op": [ClockedCall(9, 12_000, 88_000)]})
    events = recorder.events().chrome([0], "t")["traceEvents"]
    check_nesting(events)
    at = {
        (event["cat"]): (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["ph"] == "X"
    }
    assert at["kernel"][1] == at["session"][1]
    assert at["kernel"][0] <= at["python"][0] <= at["python"][1] <= at["kernel"][1] + 1.5


@pytest.mark.parametrize("drift", [0, 0.0005])
def test_calls_that_take_long_around_their_runs_are_not_laid_over_others(drift):
    """A machine that is busy holds a call up before or after its run, where the clocks can be anywhere in between."""
    recorder, now, took = Recorder({}), 0, []
    for run in range(20):
        before, after = (9_000, 5) if run % 5 == 2 else (5, 9_000) if run % 5 == 4 else (5, 5)
        length = before + 100 + after
        at = int((1_000_000 + now + before) * (1 + drift))
        recorder.add(
            run,
            ClockedCall(9, now * 1000, (now + length) * 1000),
            Kernel("run", "", "", 7, at, at + 100),
            [],
            {},
        )
        took.append(length)
        now += length + 20
    events = recorder.events().chrome(range(20), "t")["traceEvents"]
    check_nesting(events)
    calls = [event for event in events if event.get("cat") == "call"]
    assert [event["dur"] for event in calls] == pytest.approx(took, abs=1)
    runs = [event for event in events if event.get("cat") == "session"]
    for call, run in zip(calls, runs, strict=True):
        assert (
            call["ts"] - 2 <= run["ts"] and run["ts"] + run["dur"] <= call["ts"] + call["dur"] + 2
        )


def test_what_cannot_be_written(found, tmp_path):
    with pytest.raises(
        pyopnb.errors.InputError, match='to_chrome, runs: expected "all" or "median", got .first.'
    ):
        found.to_chrome(tmp_path / "x.json", runs="first")
    with pytest.raises(pyopnb.errors.ModelError, match="expected a folder that can be written to"):
        found.to_chrome(tmp_path / "nowhere" / "x.json")
    with pytest.raises(pyopnb.errors.InputError, match="a path"):
        found.to_chrome(3)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []

"""A profile for Perfetto: the ONNX Runtime events of each run, and the calls of Python at their time."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import pyopnb


@pytest.fixture(scope="module")
def profile():
    @pyopnb.pyop("demo::Sorted")
    class Sorted:
        def compute(self, x):
            return np.sort(x)

    model = pyopnb.parse(
        "(float[N] x, int64 n, bool go) => (float[N] y) { a = Exp(x)  l = Loop(n, go, a) <body = turn (int64 i, bool k, float[N] u)"
        " => (bool z, float[N] q) { z = Identity(k)  q = demo.Sorted(u) }>  y = demo.Sorted(l) }"
    )
    x = np.random.default_rng(0).standard_normal(500_000, np.float32)
    return pyopnb.profile(pyopnb.Session(model), x=x, n=2, go=True, runs=3, warmup=1)


def written(profile, folder):
    path = folder / "trace.json"
    profile.to_chrome(path)
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def spans(events, track):
    return [event for event in events if event["cat"] == track and event["ph"] == "X"]


def test_the_file_has_the_events_of_each_run_and_names_its_tracks(profile, tmp_path):
    events = written(profile, tmp_path)
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert set(names) == {"pyopnb", "calls of the session", "Python: compute"}
    timed = [event for event in events if event["ph"] == "X"]
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in timed)
    assert len([event for event in timed if event["name"] == "model_run"]) == 3
    calls = spans(timed, "calls of the session")
    assert [event["name"] for event in calls] == ["call 1", "call 2", "call 3"]
    computes = spans(timed, "Python: compute")
    assert sorted(event["name"] for event in computes) == ["l"] * 6 + ["y"] * 3


def test_python_is_inside_its_run(profile, tmp_path):
    timed = [event for event in written(profile, tmp_path) if event["ph"] == "X"]
    runs = [event for event in timed if event["name"] == "model_run"]
    computes = spans(timed, "Python: compute")
    for number, run in enumerate(runs, 1):
        inside = [event for event in computes if event["args"]["run"] == number]
        assert len(inside) == 3
        for event in inside:
            # ONNX Runtime counts whole microseconds, on a clock that is read a
            # moment before the one of Python.
            assert run["ts"] - 500 <= event["ts"]
            assert event["ts"] + event["dur"] <= run["ts"] + run["dur"] + 500


def test_what_cannot_be_written(profile, tmp_path):
    with pytest.raises(pyopnb.errors.ModelError, match="a folder that can be written to"):
        profile.to_chrome(tmp_path / "nowhere" / "x.json")
    with pytest.raises(pyopnb.errors.InputError, match="a path"):
        profile.to_chrome(3)
    assert os.listdir(tmp_path) == []

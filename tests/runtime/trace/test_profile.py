"""Times of nodes from a profile."""

from __future__ import annotations

import io
import json

from pyopnb.runtime.trace.profile import NodeTime, node_times


def profile(*events):
    return io.StringIO(json.dumps([{"cat": c, "name": n, "dur": d} for c, n, d in events] + [{"cat": "Session"}]))


def test_medians_of_the_last_runs():
    kernels = [("Node", "n_kernel_time", dur) for dur in (1000, 10, 30, 20)]
    times = node_times(
        profile(*kernels, ("Session", "n_kernel_time", 7), ("Node", "fused_kernel_time", 5)),
        {"n": ("a", "mine", "Op"), "gone": ("b", "", "Neg")},
        {"a": [999_000, 5_000, 7_000, 6_000]},
        3,
    )
    assert times == {"a": NodeTime("mine", "Op", 20, 6.0, 3)} and times["a"].crossing == 14.0
    assert str(times["a"]) == "20 µs (6 in Python)"


def test_a_crossing_is_never_negative():
    # The runtime counts whole microseconds and Python nanoseconds.
    assert NodeTime("n", "Op", 5, 5.7).crossing == 0 and NodeTime("n", "Op", 5).crossing is None
    assert str(NodeTime("n", "Op", 5)) == "5 µs"

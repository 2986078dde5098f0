"""Bars are told what can be seen, and the front end makes them."""

from __future__ import annotations

from pyopnb.traces import progress


def test_not_more_than_can_be_seen(monkeypatch):
    times = iter([0.0, 0.05, 0.11, 0.12, 0.13])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    seen = []
    throttled = progress.Throttled(lambda done, total: seen.append(done))
    for done in range(1, 6):
        throttled(done, 5)
    assert seen == [1, 3, 5]


def test_a_front_end_makes_the_bars():
    made = []
    progress.bar_with(lambda: made.append)
    try:
        assert progress.bar() == made.append
    finally:
        progress.bar_with(None)
    assert isinstance(progress.bar(), progress.Throttled)

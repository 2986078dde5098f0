"""Bars are told what can be seen, and the front end makes them."""

from __future__ import annotations

import sys

import pytest

from pyopnb.ops import progress


@pytest.fixture
def told():
    """What a front end is told."""
    seen = []
    progress.set_bar(lambda what: lambda done, total: seen.append((done, total, what)))
    yield seen
    progress.set_bar(None)


def test_not_more_than_can_be_seen(monkeypatch):
    times = iter([0.0, 0.05, 0.11, 0.12, 0.13])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    seen = []
    throttled = progress.Throttled(lambda done, total: seen.append(done))
    for done in range(1, 6):
        throttled(done, 5)
    assert seen == [1, 3, 5]


def test_a_notebook_without_a_bar_keeps_few_lines(monkeypatch, capsys):
    times = iter([0.0, 0.5, 0.9, 1.1, 1.2])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    tell = progress.bar()
    for done in range(1, 6):
        tell(done, 5)
    assert capsys.readouterr().err == "\r1 of 5 tensors\r4 of 5 tensors\r5 of 5 tensors\n"


def test_a_front_end_makes_the_bars():
    made = []
    progress.set_bar(lambda what: lambda done, total: made.append((done, total, what)))
    try:
        progress.bar()(1, 2)
        progress.bar("elements")(3, 4)
        assert made == [(1, 2, "tensors"), (3, 4, "elements")]
    finally:
        progress.set_bar(None)
    assert isinstance(progress.bar(), progress.Throttled)


def test_what_is_short_has_no_bar(told):
    with progress.tracking("elements", 100):
        for _ in range(100):
            progress.advance("elements", 1)
    assert told == []


def test_what_has_become_long_has_one_to_its_end(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.tracking("elements", 100):
        progress.advance("elements", 40)
        progress.advance("tensors", 40)  # of something else
    assert told == [(40, 100, "elements"), (100, 100, "elements")]
    progress.advance("elements", 1)
    assert len(told) == 2


def test_what_is_all_but_done_needs_none(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.tracking("elements", 100):
        progress.advance("elements", 95)
    assert told == []


def test_a_part_of_something_long_is_not_told_again(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.tracking("comparisons", 2):
        for _ in range(2):
            with progress.tracking("elements", 10):
                progress.advance("elements", 5)
            progress.advance("comparisons", 1)
    assert told == [(1, 2, "comparisons"), (2, 2, "comparisons")]


def test_what_fails_stops_where_it_was(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    bar = progress.tracking("elements", 10)
    bar.__enter__()
    progress.advance("elements", 5)
    assert not bar.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert told == [(5, 10, "elements")]
    assert progress._current.get() is None


def test_a_file_that_collects_stderr_gets_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "sys", type("system", (), {"modules": {}, "stderr": sys.stderr}))
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with progress.tracking("elements", 10_000):
            progress.advance("elements", 5_000)
        assert capsys.readouterr().err == ("\r5,000 of 10,000 elements\r10,000 of 10,000 elements\n" if terminal else "")

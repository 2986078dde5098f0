"""Bars get visible facts, and the front end makes them."""

from __future__ import annotations

import sys

import pytest

from pyopnb.common import progress


@pytest.fixture
def told():
    """The calls that a front end gets."""
    seen = []
    progress.set_bar(lambda what, since: lambda done, total, *_: seen.append((done, total, what)))
    yield seen
    progress.set_bar(None)


def test_a_front_end_makes_the_bars():
    made = []
    progress.set_bar(lambda what, since: lambda done, total, *_: made.append((done, total, what)))
    try:
        progress.bar()(1, 2)
        progress.bar("elements")(3, 4)
        assert made == [(1, 2, "tensors"), (3, 4, "elements")]
    finally:
        progress.set_bar(None)
    assert isinstance(progress.bar(), progress.Throttled)


def test_what_has_become_long_has_one_to_its_end(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.tracking("elements", 100):
        progress.advance("elements", 40)
        progress.advance("tensors", 40)  # of something else
    assert told == [(40, 100, "elements"), (100, 100, "elements")]
    progress.advance("elements", 1)
    assert len(told) == 2


def test_what_is_known_to_be_long_has_one_from_its_beginning(told):
    with progress.tracking("elements", 100, is_long=True):
        assert told == [(0, 100, "elements")]
    assert told == [(0, 100, "elements"), (100, 100, "elements")]


def test_a_file_that_collects_stderr_gets_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "sys", type("system", (), {"modules": {}, "stderr": sys.stderr}))
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with progress.tracking("elements", 10_000):
            progress.advance("elements", 5_000)
        expected = (
            "\r5,000 of 10,000 elements\033[K\r10,000 of 10,000 elements\033[K\n"
            if terminal
            else ""
        )
        assert capsys.readouterr().err == expected


def test_what_nobody_knows_the_total_of_is_counted_to_its_end(told, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with progress.tracking("batches", None):
        progress.advance("batches", 40)
        progress.advance("batches", 50)
    assert told == [(40, 0, "batches"), (90, 0, "batches"), (90, 90, "batches")]


def test_a_block_of_the_same_noun_is_a_part_of_the_one_around_it(told):
    with progress.tracking("MB", 10, is_long=True):
        for _ in range(2):
            with progress.tracking("MB", 5):
                progress.advance("MB", 3)
    assert [done for done, *_ in told] == [0, 3, 5, 8, 10]


def test_the_first_part_tells_the_total_and_each_phase_has_a_name(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    texts = []

    def make(what, since):
        return lambda *told: texts.append(progress.progress_text(*told[:2], what, 0, *told[2:]))

    progress.set_bar(make)
    try:
        with progress.tracking("MB", None, parts=2):
            progress.phase("running")
            for _ in range(2):
                with progress.tracking("MB", 4):
                    progress.phase("loading")
                    progress.advance("MB", 4)
                progress.phase("running")
    finally:
        progress.set_bar(None)
    assert texts == [
        "running",
        *("loading: 0 of 8 MB", "loading: 4 of 8 MB", "running: 4 of 8 MB"),
        *("loading: 4 of 8 MB", "loading: 8 of 8 MB", "running: 8 of 8 MB", "8 of 8 MB"),
    ]

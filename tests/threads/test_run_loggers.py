"""What ORT_PARALLEL rests on: a logger for each run, and a refusal where an onnxruntime has none."""

import itertools

import onnxruntime
import pytest
from small_ops import chain

import pyopnb
from pyopnb.runtime import _bridge, run_loggers


@pytest.fixture
def forgotten():
    """The check as it is in a new process, before and after."""
    run_loggers.check_run_loggers.cache_clear()
    yield
    run_loggers.check_run_loggers.cache_clear()


def parallel():
    @pyopnb.pyop("parallel::Same")
    class Same:
        def compute(self, x):
            return x

    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    return pyopnb.Session(chain("parallel::Same"), options)


def test_each_run_has_a_logger_of_its_own(forgotten, monkeypatch):
    seen = []
    real = _bridge.logger
    monkeypatch.setattr(_bridge, "logger", lambda: seen.append(real()) or seen[-1])
    parallel()
    assert len(seen) == 8 and len(set(seen)) == 2  # a tap in a body and three others, in two runs
    assert seen[0] != seen[1] and seen[1:5] == [seen[1]] * 4
    parallel()
    assert len(seen) == 8


@pytest.mark.parametrize("logger", [lambda: 1, itertools.count().__next__], ids=["one for all", "one a call"])
def test_an_onnxruntime_with_other_loggers_is_refused(forgotten, monkeypatch, logger):
    monkeypatch.setattr(_bridge, "logger", logger)
    with pytest.raises(pyopnb.RunRefused, match="each run has a logger of its own.*Try: pyopnb.Session.model., without"):
        parallel()
    assert _bridge.counters()["runs"] == 0
    monkeypatch.undo()
    parallel()


def test_no_call_has_no_logger():
    with pytest.raises(ValueError, match="no op is called on this thread"):
        _bridge.logger()
